// The numbers the sweep runs on: the same for the same shape, in every process and on every machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <headwise/multi_head_attention.hpp>
#include <headwise/tensor_view.hpp>

#include "sweep/options.hpp"

namespace headwise::sweep {

/// `size` numbers of mean 0 and variance 1, uniform, from the generator SplitMix64 (Steele, Lea and Flood 2014).
inline std::vector<float> random_numbers(std::int64_t size, std::uint64_t seed, double scale = 1)
{
    std::vector<float> numbers(static_cast<std::size_t>(size));
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
    for (float& number : numbers) {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        const double unit = static_cast<double>(z >> 11) * 0x1p-53;
        number = static_cast<float>(scale * std::sqrt(3.0) * (2 * unit - 1));
    }
    return numbers;
}

/// Query rows first, first + step, ... : `count` of them. The last one is the last row of the sequence, the one in the
/// last, ragged panel.
struct RowSample {
    std::int64_t first = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

inline RowSample sample_rows(std::int64_t n, std::int64_t count)
{
    if (count >= n) return {0, 1, n};
    const std::int64_t step = (n - 1) / (count > 1 ? count - 1 : 1);
    return {n - 1 - step * (count - 1), step, count};
}

/// A layer and its input.
template <class T>
struct LayerProblem {
    Shape shape;
    std::vector<T> X;                   ///< (n, d_model), variance 1
    std::vector<T> W_q, W_k, W_v, W_o;  ///< variance 1 / d_model: so that the rows of Q, K, V have variance 1

    LayerShape layer_shape() const { return {.d_model = shape.d_model, .heads = shape.h}; }

    LayerWeights<T> weights() const
    {
        const auto per_head = [&](const std::vector<T>& W) {
            return TensorView<const T, 3>(W.data(), {shape.h, shape.d_model, shape.d_k()});
        };
        LayerWeights<T> all;
        all.W_q = per_head(W_q);
        all.W_k = per_head(W_k);
        all.W_v = per_head(W_v);
        all.W_o = MatrixView<const T>(W_o.data(), {shape.d_model, shape.d_model});
        return all;
    }

    MatrixView<const T> input() const { return {X.data(), {shape.n, shape.d_model}}; }
    MatrixView<const T> input(const RowSample& rows) const
    {
        return {X.data() + rows.first * shape.d_model, {rows.count, shape.d_model}, {rows.step * shape.d_model, 1}};
    }
};

/// Query, key and value rows of the operator.
template <class T>
struct OperatorProblem {
    Shape shape;
    std::vector<T> Q, K, V;  ///< (1, h, n, d_k), variance 1

    TensorView<const T, 4> view(const std::vector<T>& numbers) const
    {
        return {numbers.data(), {1, shape.h, shape.n, shape.d_k()}};
    }
    TensorView<const T, 4> queries(const RowSample& rows) const
    {
        const std::int64_t d_k = shape.d_k();
        return {Q.data() + rows.first * d_k, {1, shape.h, rows.count, d_k}, {0, shape.n * d_k, rows.step * d_k, 1}};
    }
};

inline LayerProblem<float> make_layer_problem(const Shape& shape)
{
    const std::int64_t parameters = shape.d_model * shape.d_model;
    const double scale = 1 / std::sqrt(static_cast<double>(shape.d_model));
    return {shape,
            random_numbers(shape.n * shape.d_model, 1),
            random_numbers(parameters, 2, scale),
            random_numbers(parameters, 3, scale),
            random_numbers(parameters, 4, scale),
            random_numbers(parameters, 5, scale)};
}

inline OperatorProblem<float> make_operator_problem(const Shape& shape)
{
    const std::int64_t size = shape.n * shape.d_model;
    return {shape, random_numbers(size, 6), random_numbers(size, 7), random_numbers(size, 8)};
}

/// The same numbers as doubles.
inline std::vector<double> widened(const std::vector<float>& numbers)
{
    return {numbers.begin(), numbers.end()};
}
inline LayerProblem<double> widened(const LayerProblem<float>& p)
{
    return {p.shape, widened(p.X), widened(p.W_q), widened(p.W_k), widened(p.W_v), widened(p.W_o)};
}
inline OperatorProblem<double> widened(const OperatorProblem<float>& p)
{
    return {p.shape, widened(p.Q), widened(p.K), widened(p.V)};
}

}  // namespace headwise::sweep
