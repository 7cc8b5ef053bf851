// The operator: checks the arguments and hands them to the plan.
#include <headwise/attention.hpp>

#include "checked_attention.hpp"

namespace headwise {

void attention(TensorView<const float, 4> Q, TensorView<const float, 4> K, TensorView<const float, 4> V,
               TensorView<float, 4> Y, const AttentionOptions<float>& options)
{
    attention_checked_before(Q, K, V, Y, options, [] {});
}

void attention(TensorView<const double, 4> Q, TensorView<const double, 4> K, TensorView<const double, 4> V,
               TensorView<double, 4> Y, const AttentionOptions<double>& options)
{
    attention_checked_before(Q, K, V, Y, options, [] {});
}

void attention(TensorView<const bfloat16, 4> Q, TensorView<const bfloat16, 4> K, TensorView<const bfloat16, 4> V,
               TensorView<bfloat16, 4> Y, const AttentionOptions<bfloat16>& options)
{
    attention_checked_before(Q, K, V, Y, options, [] {});
}

void attention(TensorView<const float16, 4> Q, TensorView<const float16, 4> K, TensorView<const float16, 4> V,
               TensorView<float16, 4> Y, const AttentionOptions<float16>& options)
{
    attention_checked_before(Q, K, V, Y, options, [] {});
}

}  // namespace headwise
