// A layer with random weights, in each of the forms that its weights can come in.
#pragma once

#include "attention_problem.hpp"

#include <headwise/multi_head_attention.hpp>

namespace tensors {

using headwise::LayerShape;

template <class T>
struct RandomLayer {
    LayerShape shape;
    Tensor<T, 3> W_q, W_k, W_v;
    Tensor<T, 2> W_o, b_q, b_k, b_v;
    Tensor<T, 1> b_o;
    bool biased;

    explicit RandomLayer(const LayerShape& given, bool biased_ = true, Layout layout = Layout::dense,
                         std::uint64_t seed = 11)
        : shape(headwise::resolved(given)),
          W_q({shape.heads, shape.d_model, shape.d_k}, layout),
          W_k({shape.kv_heads, shape.d_model_kv, shape.d_k}, layout),
          W_v({shape.kv_heads, shape.d_model_kv, shape.d_v}, layout),
          W_o({shape.heads * shape.d_v, shape.d_model}, layout),
          b_q({shape.heads, shape.d_k}, layout),
          b_k({shape.kv_heads, shape.d_k}, layout),
          b_v({shape.kv_heads, shape.d_v}, layout),
          b_o({shape.d_model}, layout),
          biased(biased_)
    {
        Random random(seed);
        const auto deviation = [](std::int64_t width) { return 1 / std::sqrt(static_cast<double>(width)); };
        randomize(W_q, random, deviation(shape.d_model));
        randomize(W_k, random, deviation(shape.d_model_kv));
        randomize(W_v, random, deviation(shape.d_model_kv));
        randomize(W_o, random, deviation(shape.heads * shape.d_v));
        for (const auto& bias : {b_q, b_k, b_v}) randomize(bias, random, 0.3);
        randomize(b_o, random, 0.3);
    }

    headwise::LayerWeights<T> weights() const
    {
        headwise::LayerWeights<T> w{.W_q = W_q.input(), .W_k = W_k.input(), .W_v = W_v.input(), .W_o = W_o.input()};
        if (biased) {
            w.b_q = b_q.input();
            w.b_k = b_k.input();
            w.b_v = b_v.input();
            w.b_o = b_o.input();
        }
        return w;
    }
};

/// The numbers of a layer as frameworks store them: rows are outputs; those of Q, K and V one below another.
template <class T>
struct StackedWeights {
    LayerShape shape;
    std::int64_t q_rows, k_rows, v_rows;
    Tensor<T, 2> W_qkv, W_o;
    Tensor<T, 1> b_qkv, b_o;
    bool biased;

    explicit StackedWeights(const RandomLayer<T>& from, Layout layout = Layout::dense)
        : shape(from.shape),
          q_rows(shape.heads * shape.d_k),
          k_rows(shape.kv_heads * shape.d_k),
          v_rows(shape.kv_heads * shape.d_v),
          W_qkv({q_rows + k_rows + v_rows, std::max(shape.d_model, shape.d_model_kv)}, layout),
          W_o({shape.d_model, shape.heads * shape.d_v}, layout),
          b_qkv({q_rows + k_rows + v_rows}, layout),
          b_o({shape.d_model}, layout),
          biased(from.biased)
    {
        stack(0, from.W_q, from.b_q);
        stack(q_rows, from.W_k, from.b_k);
        stack(q_rows + k_rows, from.W_v, from.b_v);
        fill(W_o, [&](const auto& i) { return from.W_o.view()(i[1], i[0]); });
        fill(b_o, [&](const auto& i) { return at(from.b_o.view(), i); });
    }

    headwise::LinearWeights<T> linear() const
    {
        headwise::LinearWeights<T> w{.W_q = rows(0, q_rows, shape.d_model),
                                     .W_k = rows(q_rows, k_rows, shape.d_model_kv),
                                     .W_v = rows(q_rows + k_rows, v_rows, shape.d_model_kv),
                                     .W_o = W_o.input()};
        if (biased) {
            w.b_q = biases(0, q_rows);
            w.b_k = biases(q_rows, k_rows);
            w.b_v = biases(q_rows + k_rows, v_rows);
            w.b_o = b_o.input();
        }
        return w;
    }

    /// Where the queries' tokens are as wide as the keys'.
    headwise::PackedLinearWeights<T> packed() const
    {
        headwise::PackedLinearWeights<T> w{.W_qkv = W_qkv.input(), .W_o = W_o.input()};
        if (biased) {
            w.b_qkv = b_qkv.input();
            w.b_o = b_o.input();
        }
        return w;
    }

private:
    void stack(std::int64_t first, const Tensor<T, 3>& W, const Tensor<T, 2>& b)
    {
        for_each_index(W.shape(), [&](const auto& i) {
            const std::int64_t row = first + i[0] * W.shape()[2] + i[2];
            W_qkv.view()(row, i[1]) = at(W.view(), i);
            b_qkv.view()(row) = b.view()(i[0], i[2]);
        });
    }

    headwise::MatrixView<const T> rows(std::int64_t first, std::int64_t count, std::int64_t depth) const
    {
        return {&W_qkv.view()(first, 0), {count, depth}, W_qkv.view().strides};
    }

    headwise::VectorView<const T> biases(std::int64_t first, std::int64_t count) const
    {
        return {&b_qkv.view()(first), {count}, b_qkv.view().strides};
    }
};

/// Shapes of calls: self-attention where there is no n_kv.
struct LayerProblem {
    LayerShape shape;
    std::int64_t b = 1, n = 1;
    std::optional<std::int64_t> n_kv{};
    bool biased = true;
    Layout x_layout = Layout::dense, x_kv_layout = Layout::dense, y_layout = Layout::dense;

    std::int64_t keys() const { return n_kv.value_or(n); }

    /// The operator's problem, for its options and outputs.
    Problem attention() const
    {
        const LayerShape s = headwise::resolved(shape);
        return {.b = b, .h = s.heads, .h_kv = s.kv_heads, .n_q = n, .n_kv = keys(), .d_k = s.d_k, .d_v = s.d_v};
    }
};

/// The tensors that a forward reads: random tokens, and what the options have.
template <class T>
struct LayerInputs {
    LayerProblem problem;
    Tensor<T, 3> X, X_kv;
    Inputs<T> optional_inputs;

    LayerInputs(const LayerProblem& p, const Problem& options_of)
        : problem(p),
          X({p.b, p.n, headwise::resolved(p.shape).d_model}, p.x_layout),
          X_kv(p.n_kv ? Tensor<T, 3>({p.b, *p.n_kv, headwise::resolved(p.shape).d_model_kv}, p.x_kv_layout) : X),
          optional_inputs(options_of)
    {
        Random random(20 + options_of.seed);
        randomize(X, random);
        if (p.n_kv) randomize(X_kv, random);
    }
};

/// What a forward gives: Y and the options' outputs.
template <class T>
struct LayerResult {
    Tensor<T, 3> Y;
    Outputs<T> outputs;

    explicit LayerResult(const LayerInputs<T>& inputs)
        : Y(inputs.X.shape(), inputs.problem.y_layout, End::canaries), outputs(inputs.optional_inputs.problem)
    {
    }

    bool intact_around() const { return Y.intact_around() && outputs.intact_around(); }
    bool untouched() const { return Y.untouched() && outputs.untouched(); }
};

/// Calls forward(X, X_kv, Y, options) with fresh outputs.
template <class T, class Forward>
LayerResult<T> run_layer(const LayerInputs<T>& inputs, const Forward& forward)
{
    const LayerResult<T> result(inputs);
    auto options = inputs.optional_inputs.options();
    result.outputs.give_to(options);
    forward(inputs.X.input(), inputs.X_kv.input(), result.Y.view(), options);
    return result;
}

template <class T>
LayerResult<T> run_kernels(const headwise::BasicMultiHeadAttention<T>& layer, const LayerInputs<T>& inputs,
                           headwise::WorkReport* work = nullptr)
{
    return run_layer(inputs, [&](auto X, auto X_kv, auto Y, auto options) {
        options.work = work;
        if (inputs.problem.n_kv) layer.forward(X, X_kv, Y, options);
        else layer.forward(X, Y, options);
    });
}

template <class Number, class T>
LayerResult<T> run_reference(const LayerShape& shape, const headwise::LayerWeights<T>& weights,
                             const LayerInputs<T>& inputs)
{
    return run_layer(inputs, [&](auto X, auto X_kv, auto Y, const auto& options) {
        headwise::reference::multi_head_attention<T, Number>(shape, weights, X, X_kv, Y, options);
    });
}

/// The oracle: run_reference() with wider numbers than T.
template <class T>
LayerResult<T> run_oracle(const LayerShape& shape, const headwise::LayerWeights<T>& weights,
                          const LayerInputs<T>& inputs)
{
    return run_reference<std::conditional_t<std::is_same_v<T, double>, long double, double>>(shape, weights, inputs);
}

}  // namespace tensors
