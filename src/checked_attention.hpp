// attention() with its checks, for the calls that are made of it.
#pragma once

#include <headwise/attention.hpp>
#include <headwise/target.hpp>

#include "attend_plan.hpp"
#include "check.hpp"
#include "check_options.hpp"

namespace headwise {

/// The sizes of the call. Throws where the tensors do not fit together.
template <class E>
AttendSizes checked_sizes(const Check& check, const TensorView<const E, 4>& Q, const TensorView<const E, 4>& K,
                          const TensorView<const E, 4>& V, const TensorView<E, 4>& Y)
{
    const auto any = any_extent;
    check.input(any_view("Q", Q), std::array<Extent, 4>{{{any, "b"}, {any, "h"}, {any, "n_q"}, {any, "d_k"}}});
    const AttendSizes sizes{Q.shape[0], Q.shape[1], K.shape[1], Q.shape[2], K.shape[2], Q.shape[3], V.shape[3]};
    if (!(sizes.heads >= 1 && sizes.d_k >= 1))
        check.fail("Q", "of shape " + shape_text(Q.shape), "h and d_k of 1 or more");
    check.input(any_view("K", K),
                std::array<Extent, 4>{{{sizes.batch, "b"}, {any, "h_kv"}, {any, "n_kv"}, {sizes.d_k, "d_k"}}});
    if (!(sizes.kv_heads >= 1 && sizes.heads % sizes.kv_heads == 0))
        check.fail("K", "of shape " + shape_text(K.shape),
                   "a number of heads that divides h = " + std::to_string(sizes.heads));
    check.input(
        any_view("V", V),
        std::array<Extent, 4>{{{sizes.batch, "b"}, {sizes.kv_heads, "h_kv"}, {sizes.n_kv, "n_kv"}, {any, "d_v"}}});
    if (!(sizes.d_v >= 1)) check.fail("V", "of shape " + shape_text(V.shape), "d_v of 1 or more");
    check.output(
        any_view("Y", Y),
        std::array<Extent, 4>{{{sizes.batch, "b"}, {sizes.heads, "h"}, {sizes.n_q, "n_q"}, {sizes.d_v, "d_v"}}});
    return sizes;
}

/// Checks all, then calls between() (which may fill K and V), then computes.
template <class E, class Between>
void attention_checked_before(const TensorView<const E, 4>& Q, const TensorView<const E, 4>& K,
                              const TensorView<const E, 4>& V, const TensorView<E, 4>& Y,
                              const AttentionOptions<E>& options, const Between& between)
{
    const Check check("attention");
    const AttendSizes sizes = checked_sizes(check, Q, K, V, Y);
    check_options(check, options, sizes);
    check_apart(check, any_view("Y", Y), std::array{any_view("Q", Q), any_view("K", K), any_view("V", V)}, options);
    const KernelTable<compute_t<E>>& kernels = kernel_table<compute_t<E>>(active_target());
    between();
    AttendPlan<E>(kernels, sizes, K, V, options).run(Q, Y);
}

}  // namespace headwise
