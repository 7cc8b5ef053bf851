// A layer made from the matrices a framework stores, run on a sentence, compared with the naive reference. The weights
// of the heads come along on request.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include <headwise/headwise.hpp>

namespace {

constexpr std::int64_t n = 15, d_model = 96, heads = 4;

std::vector<float> random_numbers(std::int64_t count, float deviation)
{
    static std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = normal(generator);
    return numbers;
}

}  // namespace

int main()
{
    // As torch.nn.MultiheadAttention keeps them: in_proj_weight (3 d_model, d_model), out_proj.weight (d_model, d_model).
    const std::vector<float> in_projection = random_numbers(3 * d_model * d_model, 0.1f);
    const std::vector<float> out_projection = random_numbers(d_model * d_model, 0.1f);
    headwise::PackedLinearWeights<float> weights;
    weights.W_qkv = {in_projection.data(), {3 * d_model, d_model}};
    weights.W_o = {out_projection.data(), {d_model, d_model}};

    const headwise::LayerShape shape{.d_model = d_model, .heads = heads};
    const headwise::MultiHeadAttention layer(shape, weights);

    const std::vector<float> x = random_numbers(n * d_model, 1.0f);
    std::vector<float> y(x.size()), head_weights(heads * n * n), expected(x.size());
    const headwise::MatrixView<const float> X(x.data(), {n, d_model});

    headwise::AttentionOptions<float> options;
    options.causal = true;
    options.weights = headwise::TensorView<float, 3>(head_weights.data(), {heads, n, n});
    layer.forward(X, headwise::MatrixView<float>(y.data(), {n, d_model}), options);

    headwise::reference::multi_head_attention<float>(shape, headwise::weights_from_linear(shape, weights), X, X,
                                                     headwise::MatrixView<float>(expected.data(), {n, d_model}),
                                                     {.causal = true});
    float difference = 0;
    for (std::size_t i = 0; i < y.size(); ++i) difference = std::max(difference, std::fabs(y[i] - expected[i]));

    std::printf("%lld tokens on %s; largest difference from the reference %.1e\n", static_cast<long long>(n),
                headwise::name(headwise::active_target()).data(), static_cast<double>(difference));
    std::printf("head 0, last token attends to:");
    for (std::int64_t j = 0; j < n; ++j)
        std::printf(" %.2f", static_cast<double>(head_weights[static_cast<std::size_t>((n - 1) * n + j)]));
    std::printf("\n");
    return difference < 1e-4f ? 0 : 1;
}
