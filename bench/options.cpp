// What each option costs: one thread, fp32, h 8, d_k 64. Every call is timed beside the plain one in the same run, in
// random order, and the medians' ratios are printed with the goal that each has.
#include <benchmark/benchmark.h>
#include <headwise/headwise.hpp>
#include <oneapi/tbb/global_control.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
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

/// Tensors for n tokens, and what options point to.
struct Problem {
    explicit Problem(std::int64_t n_)
        : n(n_),
          q(random_numbers(heads * n * width, 1)),
          k(random_numbers(heads * n * width, 2)),
          v(random_numbers(heads * n * width, 3)),
          y(q.size())
    {
    }

    TensorView<const float, 4> input(const std::vector<float>& numbers) const
    {
        return {numbers.data(), {1, heads, n, width}};
    }

    void run(const AttentionOptions<float>& options)
    {
        headwise::attention(input(q), input(k), input(v), {y.data(), {1, heads, n, width}}, options);
    }

    std::int64_t n;
    std::vector<float> q, k, v, y;
};

/// A call to time against `base` (empty: it is a base itself). The ratio of their times is divided by `share`, the part
/// of the base's work that the call has to do, and should be at most `goal`.
struct Row {
    std::string name;
    std::string base;
    double share;
    double goal;
    std::function<void()> call;
};

/// Collects the medians.
class Medians : public benchmark::ConsoleReporter {
public:
    bool ReportContext(const Context&) override { return true; }

    void ReportRuns(const std::vector<Run>& runs) override
    {
        for (const Run& run : runs)
            if (run.aggregate_name == "median") seconds[run.run_name.function_name] = run.GetAdjustedRealTime() * 1e-3;
    }

    std::map<std::string, double> seconds;
};

void print(const std::vector<Row>& rows, const std::map<std::string, double>& seconds)
{
    std::printf("%-26s %10s  %-18s %8s %8s\n", "call", "ms", "compared with", "ratio", "goal");
    for (const Row& row : rows) {
        if (!seconds.contains(row.name) || (!row.base.empty() && !seconds.contains(row.base))) continue;  // filtered out
        const double time = seconds.at(row.name);
        if (row.base.empty()) {
            std::printf("%-26s %10.3f\n", row.name.c_str(), time * 1e3);
            continue;
        }
        const double ratio = time / seconds.at(row.base) / row.share;
        const std::string base = row.share == 1 ? row.base : "share of " + row.base;
        std::printf("%-26s %10.3f  %-18s %8.3f %8.2f%s\n", row.name.c_str(), time * 1e3, base.c_str(), ratio, row.goal,
                    ratio <= row.goal ? "" : "  MISSED");
    }
}

}  // namespace

int main(int argc, char** argv)
{
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    const oneapi::tbb::global_control one_thread(oneapi::tbb::global_control::max_allowed_parallelism, 1);

    Problem small(1024), middle(4096), large(8192);
    const std::int64_t n = small.n;
    std::vector<std::uint8_t> boolean_numbers(static_cast<std::size_t>(n * n));
    std::vector<float> additive(static_cast<std::size_t>(n * n));
    std::mt19937 generator(4);
    for (std::uint8_t& allowed : boolean_numbers) allowed = generator() % 10 != 0;
    for (float& bias : additive) bias = static_cast<float>(generator() % 1000) * -1e-3f;
    std::vector<float> weights(static_cast<std::size_t>(heads * n * n));
    const TensorView<const bool, 2> boolean(reinterpret_cast<const bool*>(boolean_numbers.data()), {n, n});
    const TensorView<const float, 2> bias(additive.data(), {n, n});
    const TensorView<float, 4> A(weights.data(), {1, heads, n, n});
    const std::vector<float> slopes = headwise::alibi_slopes(heads);
    const headwise::VectorView<const float> alibi(slopes.data(), {heads});

    constexpr std::int64_t window = 128;
    const double window_share = static_cast<double>(window) / static_cast<double>(large.n);
    const std::vector<Row> rows{
        {"plain_1024", "", 1, 0, [&] { small.run({}); }},
        {"boolean_mask", "plain_1024", 1, 1.2, [&] { small.run({.mask = boolean}); }},
        {"additive_mask", "plain_1024", 1, 1.2, [&] { small.run({.mask = bias}); }},
        {"softcap", "plain_1024", 1, 1.25, [&] { small.run({.softcap = 30}); }},
        {"alibi", "plain_1024", 1, 1.2, [&] { small.run({.alibi = alibi}); }},
        {"weights", "plain_1024", 1, 1.6, [&] { small.run({.weights = A}); }},
        {"plain_4096", "", 1, 0, [&] { middle.run({}); }},
        {"causal_4096", "plain_4096", 1, 0.56, [&] { middle.run({.causal = true}); }},
        {"plain_8192", "", 1, 0, [&] { large.run({}); }},
        {"window_128_8192", "plain_8192", window_share, 1.6,
         [&] { large.run({.causal = true, .left_window = window - 1}); }},
    };
    for (const Row& row : rows)
        benchmark::RegisterBenchmark(row.name.c_str(), [&row](benchmark::State& state) {
            for (auto _ : state) row.call();
        })->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(0.1)->Repetitions(7);
    Medians medians;
    benchmark::RunSpecifiedBenchmarks(&medians);
    benchmark::Shutdown();
    print(rows, medians.seconds);
}
