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

    explicit RandomLayer(const LayerShape& given, bool biased_ = true, Layout layout = Layout::dense)
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
        Random random(11);
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

/// Shapes of calls: self-attention where n_kv is 0.
struct LayerProblem {
    LayerShape shape;
    std::int64_t b = 1, n = 1, n_kv = 0;
    bool biased = true;
    Layout x_layout = Layout::dense, y_layout = Layout::dense;

    std::int64_t keys() const { return n_kv > 0 ? n_kv : n; }

    /// The operator's problem, for its options and outputs.
    Problem attention() const
    {
        const LayerShape s = headwise::resolved(shape);
        return {.b = b, .h = s.heads, .h_kv = s.kv_heads, .n_q = n, .n_kv = keys(), .d_k = s.d_k, .d_v = s.d_v};
    }
};

}  // namespace tensors
