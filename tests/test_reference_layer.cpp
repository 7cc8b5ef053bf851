// The naive reference of the layer: by hand, and as attention of projections that this file computes itself.
#include "reference_example.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include <headwise/reference.hpp>

using namespace headwise;
using reference_example::near;

namespace {

using Numbers = std::vector<double>;

Numbers random_numbers(std::int64_t count, unsigned seed)
{
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    Numbers numbers(static_cast<std::size_t>(count));
    for (double& number : numbers) number = uniform(generator);
    return numbers;
}

/// A layer whose weights and biases are random.
struct RandomLayer {
    LayerShape shape;
    Numbers W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o;

    explicit RandomLayer(const LayerShape& s)
        : shape(s),
          W_q(random_numbers(s.heads * s.d_model * s.d_k, 1)),
          W_k(random_numbers(s.kv_heads * s.d_model_kv * s.d_k, 2)),
          W_v(random_numbers(s.kv_heads * s.d_model_kv * s.d_v, 3)),
          W_o(random_numbers(s.heads * s.d_v * s.d_model, 4)),
          b_q(random_numbers(s.heads * s.d_k, 5)),
          b_k(random_numbers(s.kv_heads * s.d_k, 6)),
          b_v(random_numbers(s.kv_heads * s.d_v, 7)),
          b_o(random_numbers(s.d_model, 8))
    {
    }

    LayerWeights<double> weights() const
    {
        const LayerShape& s = shape;
        return {.W_q = {W_q.data(), {s.heads, s.d_model, s.d_k}},
                .W_k = {W_k.data(), {s.kv_heads, s.d_model_kv, s.d_k}},
                .W_v = {W_v.data(), {s.kv_heads, s.d_model_kv, s.d_v}},
                .W_o = {W_o.data(), {s.heads * s.d_v, s.d_model}},
                .b_q = {b_q.data(), {s.heads, s.d_k}},
                .b_k = {b_k.data(), {s.kv_heads, s.d_k}},
                .b_v = {b_v.data(), {s.kv_heads, s.d_v}},
                .b_o = {b_o.data(), {s.d_model}}};
    }
};

/// (b, heads, n, width) from X (b, n, d_in), W (heads, d_in, width), bias (heads, width).
Numbers project_heads(const TensorView<const double, 3>& X, const TensorView<const double, 3>& W,
                      const MatrixView<const double>& bias)
{
    Numbers result;
    for (std::int64_t item = 0; item < X.shape[0]; ++item)
        for (std::int64_t head = 0; head < W.shape[0]; ++head)
            for (std::int64_t t = 0; t < X.shape[1]; ++t)
                for (std::int64_t c = 0; c < W.shape[2]; ++c) {
                    double sum = bias(head, c);
                    for (std::int64_t k = 0; k < W.shape[1]; ++k) sum += X(item, t, k) * W(head, k, c);
                    result.push_back(sum);
                }
    return result;
}

}  // namespace

TEST_CASE("reference: the layer is attention of projections, concatenated and projected", "[reference][layer]")
{
    const LayerShape s{.d_model = 5, .heads = 4, .kv_heads = 2, .d_k = 3, .d_v = 2, .d_model_kv = 6};
    const std::int64_t b = 2, n = 4, n_kv = 3;
    const RandomLayer layer(s);
    const LayerWeights<double> weights = layer.weights();
    const Numbers x = random_numbers(b * n * 5, 10), x_kv = random_numbers(b * n_kv * 6, 11);
    const TensorView<const double, 3> X(x.data(), {b, n, 5}), X_kv(x_kv.data(), {b, n_kv, 6});

    const Numbers q = project_heads(X, weights.W_q, weights.b_q);
    const Numbers k = project_heads(X_kv, weights.W_k, weights.b_k);
    const Numbers v = project_heads(X_kv, weights.W_v, weights.b_v);
    Numbers o(static_cast<std::size_t>(b * 4 * n * 2)), a(static_cast<std::size_t>(b * 4 * n * n_kv)), mean(24);
    const TensorView<double, 4> O(o.data(), {b, 4, n, 2});
    reference::attention({q.data(), {b, 4, n, 3}}, {k.data(), {b, 2, n_kv, 3}}, {v.data(), {b, 2, n_kv, 2}}, O,
                         {.causal = true, .weights = {a.data(), {b, 4, n, n_kv}}});

    Numbers y(40, -77), layer_a(a.size(), -77);
    const TensorView<double, 3> Y(y.data(), {b, n, 5});
    reference::multi_head_attention(
        s, weights, X, X_kv, Y,
        {.causal = true, .weights = {layer_a.data(), {b, 4, n, n_kv}}, .mean_weights = {mean.data(), {b, n, n_kv}}});
    for (std::int64_t item = 0; item < b; ++item)
        for (std::int64_t t = 0; t < n; ++t)
            for (std::int64_t c = 0; c < 5; ++c) {
                double expected = weights.b_o(c);
                for (std::int64_t i = 0; i < 8; ++i) expected += O(item, i / 2, t, i % 2) * weights.W_o(i, c);
                CHECK(Y(item, t, c) == near(expected));
            }
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(layer_a[i] == near(a[i]));
    for (std::size_t i = 0; i < mean.size(); ++i) {
        const std::size_t item = i / 12, pair = i % 12;
        const double sum =
            a[item * 48 + pair] + a[item * 48 + 12 + pair] + a[item * 48 + 24 + pair] + a[item * 48 + 36 + pair];
        CHECK(mean[i] == near(sum / 4));
    }
}

TEST_CASE("reference: a layer by hand", "[reference][layer]")
{
    // d_model 2, two heads of width 1. Head 0 queries with 1 (its bias), keys are x_0, values x_1;
    // head 1 queries with 0, so its weights are equal, values x_0 + 10. W_o exchanges the heads; b_o adds (100, 0).
    const double ln3 = std::log(3.0);
    const Numbers W_q{0, 0, 0, 0}, b_q{1, 0}, W_k{1, 0, 1, 0}, W_v{0, 1, 1, 0}, b_v{0, 10}, W_o{0, 1, 1, 0},
        b_o{100, 0};
    const LayerWeights<double> weights{.W_q = {W_q.data(), {2, 2, 1}},
                                       .W_k = {W_k.data(), {2, 2, 1}},
                                       .W_v = {W_v.data(), {2, 2, 1}},
                                       .W_o = {W_o.data(), {2, 2}},
                                       .b_q = {b_q.data(), {2, 1}},
                                       .b_v = {b_v.data(), {2, 1}},
                                       .b_o = {b_o.data(), {2}}};
    const Numbers x{0, 8, ln3, 4};
    Numbers y(4, -77);
    const MatrixView<const double> X(x.data(), {2, 2});  // a sequence passes as a batch of one
    const MatrixView<double> Y(y.data(), {2, 2});
    reference::multi_head_attention({.d_model = 2, .heads = 2}, weights, X, Y);
    for (std::int64_t t = 0; t < 2; ++t) {
        CHECK(Y(t, 0) == near(110 + ln3 / 2));
        CHECK(Y(t, 1) == near(5));  // 8 / 4 + 4 * 3 / 4
    }
    reference::multi_head_attention({.d_model = 2, .heads = 2}, weights, X, Y, {.causal = true});
    CHECK(Y(0, 0) == near(110));
    CHECK(Y(0, 1) == near(8));
    CHECK(Y(1, 1) == near(5));
}

TEST_CASE("reference: the layer in float stays close to the layer in double", "[reference][layer]")
{
    const LayerShape s{.d_model = 8, .heads = 2, .kv_heads = 2, .d_k = 4, .d_v = 4, .d_model_kv = 8};
    const RandomLayer layer(s);
    const Numbers x = random_numbers(3 * 8, 12);
    Numbers y(24), y_float(24);
    const MatrixView<const double> X(x.data(), {3, 8});
    reference::multi_head_attention(s, layer.weights(), X, MatrixView<double>(y.data(), {3, 8}));
    reference::multi_head_attention<double, float>(s, layer.weights(), X, MatrixView<double>(y_float.data(), {3, 8}));
    CHECK(y != y_float);
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(y[i] - y_float[i]) < 1e-5);
}

TEST_CASE("reference: weights of the wrong shape are named", "[reference][layer]")
{
    const LayerShape s{.d_model = 8, .heads = 2, .kv_heads = 1, .d_k = 3, .d_v = 5, .d_model_kv = 6};
    const RandomLayer layer(s);
    const Numbers x(8), x_kv(6);
    Numbers y(8, -77);
    const MatrixView<const double> X(x.data(), {1, 8}), X_kv(x_kv.data(), {1, 6});
    const MatrixView<double> Y(y.data(), {1, 8});
    const auto message = [&](const LayerWeights<double>& weights) {
        try {
            reference::multi_head_attention(s, weights, X, X_kv, Y);
        } catch (const std::invalid_argument& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(message(layer.weights()) == "accepted");
    y.assign(8, -77);
    LayerWeights<double> wrong = layer.weights();
    wrong.W_k.shape = {2, 6, 3};
    CHECK(message(wrong) == "W_k has shape (2, 6, 3), expected (1, 6, 3)");
    wrong = layer.weights();
    wrong.W_o.shape = {6, 8};
    CHECK(message(wrong) == "W_o has shape (6, 8), expected (10, 8)");
    wrong = layer.weights();
    wrong.W_q = {};
    CHECK(message(wrong) == "W_q has shape (0, 0, 0), expected (2, 8, 3)");
    wrong = layer.weights();
    wrong.W_v.shape[2] = 4;
    CHECK(message(wrong) == "W_v has shape (1, 6, 4), expected (1, 6, 5)");
    CHECK(y == Numbers(8, -77));
}
