// The operator alone, as a language model decodes: one new query against the keys and values so far, eight query heads
// that share two key/value heads, in the (tokens, heads, width) layout that caches use.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <headwise/headwise.hpp>

int main()
{
    constexpr std::int64_t h = 8, h_kv = 2, d = 32, capacity = 64, past = 10;
    std::vector<float> q(h * d, 1.0f), keys(capacity * h_kv * d, 0.0f), values(capacity * h_kv * d, 0.0f), y(h * d);
    // Token t's value is t. Its key is zero, so that every token has the same weight.
    for (std::int64_t t = 0; t < capacity; ++t)
        for (std::int64_t i = 0; i < h_kv * d; ++i)
            values[static_cast<std::size_t>(t * h_kv * d + i)] = static_cast<float>(t);

    // A view takes any strides: dimension 1 of the view is the heads, which lie d numbers apart.
    const headwise::TensorView<const float, 4> Q(q.data(), {1, h, 1, d});
    const headwise::TensorView<const float, 4> K(keys.data(), {1, h_kv, past + 1, d}, {0, d, h_kv * d, 1});
    const headwise::TensorView<const float, 4> V(values.data(), {1, h_kv, past + 1, d}, {0, d, h_kv * d, 1});
    const headwise::TensorView<float, 4> Y(y.data(), {1, h, 1, d});

    float log_sum_exp[h];
    headwise::AttentionOptions<float> options;
    options.causal = true;
    options.query_offset = past;
    options.log_sum_exp = headwise::TensorView<float, 3>(log_sum_exp, {1, h, 1});
    headwise::attention(Q, K, V, Y, options);

    // Tokens 0 .. past with equal weights: the mean of their values, and the logarithm of their number.
    const float mean = static_cast<float>(past) / 2;
    const float log_tokens = std::log(static_cast<float>(past + 1));
    std::printf("y %.4f, expected %.4f; log-sum-exp %.4f, expected %.4f\n", static_cast<double>(y[0]),
                static_cast<double>(mean), static_cast<double>(log_sum_exp[0]), static_cast<double>(log_tokens));
    for (const float value : y)
        if (!(std::fabs(value - mean) < 1e-4f)) return 1;
    for (const float value : log_sum_exp)
        if (!(std::fabs(value - log_tokens) < 1e-4f)) return 1;
    return 0;
}
