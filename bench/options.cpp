// What each option costs: one thread, fp32, h 8, d_k 64. Every call is timed beside the plain one, and the median ratio
// is printed with the goal that it has; the same for decoding, one query. Then how the plain call grows with n, one head:
// as n * n if the ratio is 1.
#include <oneapi/tbb/global_control.h>
#include <CLI/CLI.hpp>
#include <headwise/headwise.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using headwise::AttentionOptions;
using headwise::TensorView;

constexpr std::int64_t heads = 8;
constexpr std::int64_t width = 64;

std::vector<float> random_numbers(std::int64_t count, unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = normal(generator);
    return numbers;
}

/// Tensors of h heads for n tokens.
struct Problem {
    explicit Problem(std::int64_t n_, std::int64_t h_ = heads)
        : n(n_),
          h(h_),
          q(random_numbers(h * n * width, 1)),
          k(random_numbers(h * n * width, 2)),
          v(random_numbers(h * n * width, 3)),
          y(q.size())
    {
    }

    TensorView<const float, 4> input(const std::vector<float>& numbers) const
    {
        return {numbers.data(), {1, h, n, width}};
    }

    void run(const AttentionOptions<float>& options)
    {
        headwise::attention(input(q), input(k), input(v), {y.data(), {1, h, n, width}}, options);
    }

    /// One query of each head.
    void decode(const AttentionOptions<float>& options)
    {
        headwise::attention({q.data(), {1, h, 1, width}}, input(k), input(v), {y.data(), {1, h, 1, width}}, options);
    }

    std::int64_t n;
    std::int64_t h;
    std::vector<float> q, k, v, y;
};

/// A layer of d_model = heads * width, its tokens, and room for its weights.
struct Layer {
    explicit Layer(std::int64_t n_)
        : n(n_),
          matrix(random_numbers(d_model * d_model, 5)),
          x(random_numbers(n * d_model, 6)),
          y(x.size()),
          weights(static_cast<std::size_t>(heads * n * n)),
          layer({.d_model = d_model, .heads = heads}, layer_weights())
    {
    }

    headwise::LayerWeights<float> layer_weights()
    {
        for (float& number : matrix) number *= 0.05f;  // so that scores are about 1
        const TensorView<const float, 3> W(matrix.data(), {heads, d_model, width});
        return {.W_q = W, .W_k = W, .W_v = W, .W_o = {matrix.data(), {d_model, d_model}}};
    }

    void run(const AttentionOptions<float>& options)
    {
        layer.forward({x.data(), {1, n, d_model}}, {y.data(), {1, n, d_model}}, options);
    }

    static constexpr std::int64_t d_model = heads * width;
    std::int64_t n;
    std::vector<float> matrix, x, y, weights;
    headwise::MultiHeadAttention layer;
};

/// A call to time beside `base`, an earlier row (empty: it is a base itself). The ratio of their times is divided by
/// `share`, the part of the base's work that the call has to do, and should be at most `goal`.
struct Row {
    std::string name;
    std::string base;
    double share;
    double goal;
    std::function<void()> call;
};

double seconds_of(const std::function<void()>& call)
{
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> numbers)
{
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

/// Every sample stands between two calls of its base and is compared with their mean: a machine's speed changes from one
/// second to the next.
void measure(const Row& row, const Row& base, int samples)
{
    std::vector<double> ratios, times;
    row.call();
    double before = seconds_of(base.call);
    for (int i = 0; i < samples; ++i) {
        times.push_back(seconds_of(row.call));
        const double after = seconds_of(base.call);
        ratios.push_back(times.back() / ((before + after) / 2) / row.share);
        before = after;
    }
    const double ratio = median(ratios);
    const std::string name = row.share == 1 ? base.name : "share of " + base.name;
    std::printf("%-26s %10.3f  %-20s %8.3f %8.2f%s\n", row.name.c_str(), median(times) * 1e3, name.c_str(), ratio,
                row.goal, ratio <= row.goal ? "" : "  MISSED");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv)
{
    CLI::App app{"What each option of attention costs: one thread, fp32, h 8, d_k 64."};
    int samples = 9;
    std::string filter;
    app.add_option("--samples", samples, "of each call")->check(CLI::Range(1, 1000))->capture_default_str();
    app.add_option("--filter", filter, "only the calls whose name has this text");
    CLI11_PARSE(app, argc, argv);
    const oneapi::tbb::global_control one_thread(oneapi::tbb::global_control::max_allowed_parallelism, 1);

    Layer layer(1024);
    const TensorView<float, 4> layer_weights(layer.weights.data(), {1, heads, layer.n, layer.n});
    Problem small(1024), middle(4096), large(8192);
    const std::int64_t n = small.n;
    std::vector<std::uint8_t> boolean_numbers(static_cast<std::size_t>(n * n));
    std::vector<float> additive(static_cast<std::size_t>(n * n));
    std::mt19937 generator(4);
    for (std::uint8_t& allowed : boolean_numbers) allowed = generator() % 10 != 0;
    for (float& bias : additive) bias = static_cast<float>(generator() % 1000) * -1e-3f;
    // Of one row, what the (n, n) masks have in all of theirs.
    const TensorView<const bool, 1> boolean_row(reinterpret_cast<const bool*>(boolean_numbers.data()), {large.n});
    const TensorView<const float, 1> bias_row(additive.data(), {large.n});
    std::vector<float> weights(static_cast<std::size_t>(heads * n * n));
    const TensorView<const bool, 2> boolean(reinterpret_cast<const bool*>(boolean_numbers.data()), {n, n});
    const TensorView<const float, 2> bias(additive.data(), {n, n});
    const TensorView<float, 4> A(weights.data(), {1, heads, n, n});
    const std::vector<float> slopes = headwise::alibi_slopes(heads);
    const headwise::VectorView<const float> alibi(slopes.data(), {heads});

    constexpr std::int64_t window = 128;
    const double window_share = static_cast<double>(window) / static_cast<double>(large.n);
    std::vector<Row> rows{
        {"plain_1024", "", 1, 0, [&] { small.run({}); }},
        {"boolean_mask", "plain_1024", 1, 1.2, [&] { small.run({.mask = boolean}); }},
        {"additive_mask", "plain_1024", 1, 1.2, [&] { small.run({.mask = bias}); }},
        {"softcap", "plain_1024", 1, 1.25, [&] { small.run({.softcap = 30}); }},
        {"alibi", "plain_1024", 1, 1.2, [&] { small.run({.alibi = alibi}); }},
        {"weights", "plain_1024", 1, 1.6, [&] { small.run({.weights = A}); }},
        {"layer_1024", "", 1, 0, [&] { layer.run({}); }},
        {"layer_weights", "layer_1024", 1, 1.25, [&] { layer.run({.weights = layer_weights}); }},
        {"plain_4096", "", 1, 0, [&] { middle.run({}); }},
        {"causal_4096", "plain_4096", 1, 0.56, [&] { middle.run({.causal = true}); }},
        {"plain_8192", "", 1, 0, [&] { large.run({}); }},
        {"window_128_8192", "plain_8192", window_share, 1.6,
         [&] { large.run({.causal = true, .left_window = window - 1}); }},
        {"decode_8192", "", 1, 0, [&] { large.decode({}); }},
        {"decode_boolean_mask", "decode_8192", 1, 1.2, [&] { large.decode({.mask = boolean_row}); }},
        {"decode_additive_mask", "decode_8192", 1, 1.2, [&] { large.decode({.mask = bias_row}); }},
        {"decode_softcap", "decode_8192", 1, 1.25, [&] { large.decode({.softcap = 30}); }},
        {"decode_alibi", "decode_8192", 1, 1.2, [&] { large.decode({.alibi = alibi}); }},
    };
    // A call of n tokens beside as many calls of 1024 as have its work.
    Problem unit(1024, 1);
    std::vector<Problem> grown;
    for (const std::int64_t tokens : {2048, 4096, 8192, 16384}) grown.emplace_back(tokens, 1);
    for (Problem& problem : grown) {
        const std::int64_t calls = problem.n / unit.n * (problem.n / unit.n);
        const std::string base = std::to_string(calls) + " of 1024";
        rows.push_back({base, "", 1, 0, [&unit, calls] {
                            for (std::int64_t i = 0; i < calls; ++i) unit.run({});
                        }});
        rows.push_back({"growth_" + std::to_string(problem.n), base, 1, 1.1, [&problem] { problem.run({}); }});
    }
    std::printf("%-26s %10s  %-20s %8s %8s\n", "call", "ms", "compared with", "ratio", "goal");
    for (const Row& row : rows) {
        if (row.base.empty() || row.name.find(filter) == std::string::npos) continue;
        const auto base = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == row.base; });
        measure(row, *base, samples);
    }
}
