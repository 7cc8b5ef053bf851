// The operator on sequences packed one after another.
#include <algorithm>
#include <array>
#include <string>

#include <headwise/attention.hpp>
#include <headwise/target.hpp>

#include "attend_plan.hpp"
#include "check.hpp"
#include "check_options.hpp"
#include "checked_sizes.hpp"

namespace headwise {

namespace {

/// Checks one array of starts and finds the longest sequence.
std::int64_t longest_sequence(const Check& check, std::string_view name, const VectorView<const std::int64_t>& starts,
                              std::int64_t tokens)
{
    const auto refuse = [&](std::int64_t i, std::string_view expected) {
        check.fail(name, std::to_string(starts(i)) + " at index " + std::to_string(i), expected);
    };
    if (starts(0) != 0) refuse(0, "0 at index 0");
    std::int64_t longest = 0;
    for (std::int64_t i = 1; i < starts.shape[0]; ++i) {
        if (starts(i) < starts(i - 1)) refuse(i, "starts that do not fall");
        if (starts(i) > tokens) refuse(i, "at most the number of tokens, " + std::to_string(tokens));
        longest = std::max(longest, starts(i) - starts(i - 1));
    }
    return longest;
}

template <class E>
void refuse_dense_options(const Check& check, const AttentionOptions<E>& options)
{
    const auto refuse = [&](bool given, std::string_view name) {
        if (given) check.fail(name, "given", "none: it is for dense batches");
    };
    refuse(options.weights.given(), "weights");
    refuse(options.mean_weights.given(), "mean_weights");
    refuse(options.scores.given(), "scores");
    refuse(options.mask.given(), "mask");
    refuse(options.kv_lengths.given(), "kv_lengths");
}

template <class E>
void checked_ragged(const TensorView<const E, 3>& Q, const TensorView<const E, 3>& K, const TensorView<const E, 3>& V,
                    const TensorView<E, 3>& Y, const RaggedStarts& starts, const AttentionOptions<E>& options)
{
    const Check check("ragged_attention");
    AttendSizes sizes = checked_sizes(check, Q, K, V, Y);
    refuse_dense_options(check, options);
    check.input(any_view("q_starts", starts.q_starts), std::array{Extent{any_extent, "b + 1"}});
    if (starts.q_starts.shape[0] < 1)
        check.fail("q_starts", "of shape " + shape_text(starts.q_starts.shape), "b + 1 numbers");
    check.input(any_view("kv_starts", starts.kv_starts), std::array{Extent{starts.q_starts.shape[0], "b + 1"}});
    if (options.log_sum_exp.given())
        check.output(any_view("log_sum_exp", options.log_sum_exp),
                     std::array{Extent{1, "one"}, Extent{sizes.heads, "h"}, Extent{sizes.n_q, "tokens"}});
    sizes.n_q = longest_sequence(check, "q_starts", starts.q_starts, sizes.n_q);
    sizes.n_kv = longest_sequence(check, "kv_starts", starts.kv_starts, sizes.n_kv);
    sizes.batch = starts.q_starts.shape[0] - 1;
    AttentionOptions<E> dense = options;
    dense.log_sum_exp = {};  // of another shape in a dense batch
    check_options(check, dense, sizes);
    check_apart(check, std::array{any_view("Y", Y)},
                std::array{any_view("Q", Q), any_view("K", K), any_view("V", V), any_view("q_starts", starts.q_starts),
                           any_view("kv_starts", starts.kv_starts)},
                options);
    AttendPlan<E>(kernel_table<compute_t<E>>(active_target()), sizes, K, V, options).run(Q, Y, starts);
}

}  // namespace

void ragged_attention(TensorView<const float, 3> Q, TensorView<const float, 3> K, TensorView<const float, 3> V,
                      TensorView<float, 3> Y, const RaggedStarts& starts, const AttentionOptions<float>& options)
{
    checked_ragged(Q, K, V, Y, starts, options);
}

void ragged_attention(TensorView<const double, 3> Q, TensorView<const double, 3> K, TensorView<const double, 3> V,
                      TensorView<double, 3> Y, const RaggedStarts& starts, const AttentionOptions<double>& options)
{
    checked_ragged(Q, K, V, Y, starts, options);
}

void ragged_attention(TensorView<const bfloat16, 3> Q, TensorView<const bfloat16, 3> K, TensorView<const bfloat16, 3> V,
                      TensorView<bfloat16, 3> Y, const RaggedStarts& starts, const AttentionOptions<bfloat16>& options)
{
    checked_ragged(Q, K, V, Y, starts, options);
}

void ragged_attention(TensorView<const float16, 3> Q, TensorView<const float16, 3> K, TensorView<const float16, 3> V,
                      TensorView<float16, 3> Y, const RaggedStarts& starts, const AttentionOptions<float16>& options)
{
    checked_ragged(Q, K, V, Y, starts, options);
}

}  // namespace headwise
