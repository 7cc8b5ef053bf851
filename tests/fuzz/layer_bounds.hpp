// How large the numbers of a layer's forward can get.
#pragma once

#include "bounds.hpp"
#include "layer_problem.hpp"

namespace tensors {

/// |x| for each element, 0 where it is not finite.
template <class T, int Rank>
Tensor<double, Rank> absolute(const headwise::TensorView<const T, Rank>& view)
{
    Tensor<double, Rank> result(view.shape);
    fill(result, [&](const auto& index) {
        const double x = std::abs(number(at(view, index)));
        return std::isfinite(x) ? x : 0.0;
    });
    return result;
}

/// Of a layer's forward: the reference is run on the absolute values of all that it reads.
template <class T>
Magnitudes magnitudes(const LayerShape& given, const headwise::LayerWeights<T>& weights, const LayerInputs<T>& inputs)
{
    const LayerShape shape = headwise::resolved(given);
    const auto X = absolute(inputs.X.input()), X_kv = absolute(inputs.X_kv.input());
    const auto W_q = absolute(weights.W_q), W_k = absolute(weights.W_k), W_v = absolute(weights.W_v);
    const auto W_o = absolute(weights.W_o), b_q = absolute(weights.b_q), b_k = absolute(weights.b_k);
    const auto b_v = absolute(weights.b_v);
    const headwise::LayerWeights<double> positive{.W_q = W_q.input(),
                                                  .W_k = W_k.input(),
                                                  .W_v = W_v.input(),
                                                  .W_o = W_o.input(),
                                                  .b_q = b_q.input(),
                                                  .b_k = b_k.input(),
                                                  .b_v = b_v.input()};
    const Problem& p = inputs.optional_inputs.problem;
    const Tensor<double, 3> Y(X.shape());
    const Tensor<double, 4> products({p.b, p.h, p.n_q, p.n_kv});
    headwise::reference::multi_head_attention<double>(
        shape, positive, X.input(), X_kv.input(), Y.view(),
        {.scale = scale_magnitude(p, shape.d_k), .scores = products.view()});
    // Every query sees the largest of the values: the sum over V's rows is of weights that sum to 1.
    double largest_v = 0, largest_column = 0;
    for (std::int64_t head = 0; head < shape.kv_heads; ++head)
        for_each_index(std::array{p.b, p.n_kv, shape.d_v}, [&](const auto& i) {
            double v = weights.b_v.given() ? b_v.view()(head, i[2]) : 0;
            for (std::int64_t k = 0; k < shape.d_model_kv; ++k)
                v += X_kv.view()(i[0], i[1], k) * W_v.view()(head, k, i[2]);
            largest_v = std::max(largest_v, v);
        });
    for (std::int64_t column = 0; column < shape.d_model; ++column) {
        double sum = 0;
        for (std::int64_t row = 0; row < shape.heads * shape.d_v; ++row) sum += W_o.view()(row, column);
        largest_column = std::max(largest_column, sum);
    }
    const double projections = roundings_of_sum(shape.d_model) + roundings_of_sum(shape.d_model_kv);
    const double q_or_k =
        std::max(static_cast<double>(shape.d_model) * max_magnitude(X.view()) * max_magnitude(W_q.view()) +
                     max_magnitude(b_q.view()),
                 static_cast<double>(shape.d_model_kv) * max_magnitude(X_kv.view()) * max_magnitude(W_k.view()) +
                     max_magnitude(b_k.view()));
    return {.product = max_magnitude(products.view()),
            .product_roundings = roundings_of_sum(shape.d_k) + projections,
            .product_gain = product_gain(p, shape.d_k, q_or_k),
            .value = largest_v * largest_column + max_magnitude(weights.b_o),
            .value_roundings = projections + roundings_of_sum(shape.heads * shape.d_v),
            .value_gain = std::max(1.0, largest_column)};
}

}  // namespace tensors
