// The sizes of a call from its tensors, for every call of the operator.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include <headwise/attention.hpp>

#include "attend_plan.hpp"
#include "check.hpp"

namespace headwise {

/// The sizes of a call on Q, K, V and Y, of rank 4, or 3 without the batch, which is 1 then. Throws where they do not
/// fit together.
template <class E, int Rank>
AttendSizes checked_sizes(const Check& check, const TensorView<const E, Rank>& Q, const TensorView<const E, Rank>& K,
                          const TensorView<const E, Rank>& V, const TensorView<E, Rank>& Y)
{
    static_assert(Rank == 3 || Rank == 4);
    constexpr std::size_t head = Rank - 3, token = Rank - 2, width = Rank - 1;
    constexpr std::string_view n_q = Rank == 4 ? "n_q" : "tokens", n_kv = Rank == 4 ? "n_kv" : "kv_tokens";
    constexpr std::int64_t any = any_extent;
    const auto expected = [](const std::array<Extent, 4>& whole) {
        std::array<Extent, Rank> last{};
        std::copy(whole.end() - Rank, whole.end(), last.begin());
        return last;
    };
    check.input(any_view("Q", Q), expected({{{any, "b"}, {any, "h"}, {any, n_q}, {any, "d_k"}}}));
    const AttendSizes sizes{.batch = Rank == 4 ? Q.shape[0] : 1,
                            .heads = Q.shape[head],
                            .kv_heads = K.shape[head],
                            .n_q = Q.shape[token],
                            .n_kv = K.shape[token],
                            .d_k = Q.shape[width],
                            .d_v = V.shape[width]};
    if (sizes.heads < 1 || sizes.d_k < 1) check.fail("Q", "of shape " + shape_text(Q.shape), "h and d_k of 1 or more");
    check.input(any_view("K", K), expected({{{sizes.batch, "b"}, {any, "h_kv"}, {any, n_kv}, {sizes.d_k, "d_k"}}}));
    if (sizes.kv_heads < 1 || sizes.heads % sizes.kv_heads != 0)
        check.fail("K", "of shape " + shape_text(K.shape),
                   "a number of heads that divides h = " + std::to_string(sizes.heads));
    check.input(any_view("V", V),
                expected({{{sizes.batch, "b"}, {sizes.kv_heads, "h_kv"}, {sizes.n_kv, n_kv}, {any, "d_v"}}}));
    if (sizes.d_v < 1) check.fail("V", "of shape " + shape_text(V.shape), "d_v of 1 or more");
    check.output(any_view("Y", Y),
                 expected({{{sizes.batch, "b"}, {sizes.heads, "h"}, {sizes.n_q, n_q}, {sizes.d_v, "d_v"}}}));
    return sizes;
}

}  // namespace headwise
