// The operator: checks the arguments and hands them to the plan.
#include <headwise/attention.hpp>

#include <headwise/target.hpp>

#include "attend_plan.hpp"
#include "check.hpp"
#include "check_options.hpp"
#include "checked_sizes.hpp"

namespace headwise {

namespace {

template <class E>
void checked_attention(const TensorView<const E, 4>& Q, const TensorView<const E, 4>& K,
                       const TensorView<const E, 4>& V, const TensorView<E, 4>& Y, const AttentionOptions<E>& options)
{
    const Check check("attention");
    const AttendSizes sizes = checked_sizes(check, Q, K, V, Y);
    check_options(check, options, sizes);
    check_apart(check, std::array{any_view("Y", Y)}, std::array{any_view("Q", Q), any_view("K", K), any_view("V", V)},
                options);
    AttendPlan<E>(kernel_table<compute_t<E>>(active_target()), sizes, K, V, options).run(Q, Y);
}

}  // namespace

void attention(TensorView<const float, 4> Q, TensorView<const float, 4> K, TensorView<const float, 4> V,
               TensorView<float, 4> Y, const AttentionOptions<float>& options)
{
    checked_attention(Q, K, V, Y, options);
}

void attention(TensorView<const double, 4> Q, TensorView<const double, 4> K, TensorView<const double, 4> V,
               TensorView<double, 4> Y, const AttentionOptions<double>& options)
{
    checked_attention(Q, K, V, Y, options);
}

void attention(TensorView<const bfloat16, 4> Q, TensorView<const bfloat16, 4> K, TensorView<const bfloat16, 4> V,
               TensorView<bfloat16, 4> Y, const AttentionOptions<bfloat16>& options)
{
    checked_attention(Q, K, V, Y, options);
}

void attention(TensorView<const float16, 4> Q, TensorView<const float16, 4> K, TensorView<const float16, 4> V,
               TensorView<float16, 4> Y, const AttentionOptions<float16>& options)
{
    checked_attention(Q, K, V, Y, options);
}

}  // namespace headwise
