#include "sweep/measure.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include "sweep/cases.hpp"
#include "sweep/progress.hpp"

namespace headwise::sweep {
namespace {

/// A repetition runs its call for at least this long, unless the whole would take too long.
constexpr double longest_slice = 0.02;
constexpr double shortest_slice = 0.001;
constexpr int fewest_repetitions = 3;
/// Calls shorter than this are run once untimed before each repetition: their data has left the caches meanwhile.
constexpr double worth_warming = 0.02;

double seconds_of(const std::function<void()>& call)
{
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs cases, each in an arena with its number of threads.
class Runner {
public:
    explicit Runner(const Options& options)
        : options_(options),
          most_threads_(tbb::global_control::max_allowed_parallelism,
                        static_cast<std::size_t>(std::max(2, options.threads.back()))),
          cases_(make_cases(options, problems_)),
          staged_cases_(make_staged_cases(options, left_out_))
    {
    }

    /// Finds out how long each call takes and how often to run it.
    void plan();
    void register_all();
    std::string run();
    Measurements measurements(std::string google_json);

private:
    template <class Body>
    void in_arena(int threads, const Body& body)
    {
        auto& arena = arenas_[threads];
        if (!arena) arena = std::make_unique<tbb::task_arena>(threads);
        arena->execute(body);
    }
    void estimate_times();
    double planned_seconds(double slice) const;
    void run_case(Case& c, benchmark::State& state);
    void run_stage(StagedCase& staged, std::size_t row, benchmark::State& state);
    void run_passes(StagedCase& staged);

    const Options& options_;
    tbb::global_control most_threads_;
    std::map<int, std::unique_ptr<tbb::task_arena>> arenas_;
    std::vector<std::string> left_out_;
    Problems problems_;
    std::vector<Case> cases_;
    std::vector<StagedCase> staged_cases_;
    StagedLayer staged_layer_;
    int staged_repetitions_ = 0;
    std::unique_ptr<Progress> progress_;
};

void Runner::estimate_times()
{
    // The operations of a call say how far this is: it runs at different speeds, but never mind.
    double flops = 0;
    for (const Case& c : cases_) flops += c.row.flops / c.row.threads;
    for (const StagedCase& staged : staged_cases_) flops += staged.rows.back().flops;
    Progress progress("estimating times", flops, 0, options_.measuring_seconds);
    for (Case& c : cases_) {
        const std::function<void()> call = c.prepare();
        in_arena(c.row.threads, [&] {
            c.seconds = seconds_of(call);
            for (int again = 0; again < 2 && c.seconds < 0.05; ++again)
                c.seconds = std::min(c.seconds, seconds_of(call));
        });
        progress.advance(c.row.flops / c.row.threads, c.row.name);
    }
    for (StagedCase& staged : staged_cases_) {
        const std::shared_ptr<Problems::Layer> p = problems_.layer(staged.shape);
        staged_layer_.prepare(p->problem, kernel_table<float>(staged.target));
        staged.pass_seconds = seconds_of([&] { staged_layer_.run(p->Y.data()); });
        progress.advance(staged.rows.back().flops, staged.rows.back().name);
    }
}

double Runner::planned_seconds(double slice) const
{
    double seconds = 0;
    const auto once = [&](double call) { return std::max(call, slice) + (call < worth_warming ? call : 0); };
    for (const Case& c : cases_) seconds += c.repetitions * once(c.seconds);
    for (const StagedCase& staged : staged_cases_) seconds += staged_repetitions_ * once(staged.pass_seconds);
    return seconds;
}

void Runner::plan()
{
    estimate_times();
    staged_repetitions_ = options_.repetitions;
    double slice = longest_slice;
    while (slice > shortest_slice && planned_seconds(slice) > options_.measuring_seconds) slice *= 0.8;
    while (staged_repetitions_ > fewest_repetitions && planned_seconds(slice) > options_.measuring_seconds) {
        --staged_repetitions_;
        for (Case& c : cases_)
            if (c.repetitions > staged_repetitions_ && !c.row.is_roof()) --c.repetitions;
    }
    const auto iterations = [&](double seconds) {
        return std::max<std::int64_t>(1, static_cast<std::int64_t>(slice / std::max(seconds, 1e-9) + 0.5));
    };
    for (Case& c : cases_) c.iterations = iterations(c.seconds);
    for (StagedCase& staged : staged_cases_) staged.passes = iterations(staged.pass_seconds);
    progress_ = std::make_unique<Progress>("measuring", planned_seconds(slice), planned_seconds(slice), 0);
}

void Runner::run_case(Case& c, benchmark::State& state)
{
    const std::function<void()> call = c.prepare();
    in_arena(c.row.threads, [&] {
        if (c.seconds < worth_warming) call();
        for (auto _ : state) call();
    });
    progress_->advance(static_cast<double>(c.iterations + (c.seconds < worth_warming ? 1 : 0)) * c.seconds, c.row.name);
}

void Runner::run_passes(StagedCase& staged)
{
    const std::shared_ptr<Problems::Layer> p = problems_.layer(staged.shape);
    staged_layer_.prepare(p->problem, kernel_table<float>(staged.target));
    if (staged.pass_seconds < worth_warming) staged_layer_.run(p->Y.data());
    std::array<double, stage_count + 1> mean{};
    for (std::int64_t pass = 0; pass < staged.passes; ++pass) {
        const StagedLayer::Seconds seconds = staged_layer_.run(p->Y.data());
        for (std::size_t s = 0; s < stage_count; ++s) {
            mean[s] += seconds[s] / static_cast<double>(staged.passes);
            mean[stage_count] += seconds[s] / static_cast<double>(staged.passes);
        }
    }
    staged.seconds.push_back(mean);
    progress_->advance(static_cast<double>(staged.passes) * staged.pass_seconds, staged.rows.back().name);
}

void Runner::run_stage(StagedCase& staged, std::size_t row, benchmark::State& state)
{
    const std::size_t repetition = staged.calls[row]++;
    if (repetition == staged.seconds.size()) run_passes(staged);
    for (auto _ : state) state.SetIterationTime(staged.seconds[repetition][row]);
}

void Runner::register_all()
{
    for (Case& c : cases_)
        benchmark::RegisterBenchmark(c.row.name.c_str(), [this, &c](benchmark::State& state) { run_case(c, state); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond)
            ->Iterations(c.iterations)
            ->Repetitions(c.repetitions);
    for (StagedCase& staged : staged_cases_)
        for (std::size_t row = 0; row < staged.rows.size(); ++row)
            benchmark::RegisterBenchmark(
                staged.rows[row].name.c_str(),
                [this, &staged, row](benchmark::State& state) { run_stage(staged, row, state); })
                ->UseManualTime()
                ->Unit(benchmark::kMillisecond)
                ->Iterations(1)
                ->Repetitions(staged_repetitions_);
}

std::string Runner::run()
{
    char program[] = "headwise_sweep";
    char interleave[] = "--benchmark_enable_random_interleaving=true";
    char* arguments[] = {program, interleave, nullptr};
    int count = 2;
    benchmark::Initialize(&count, arguments);
    std::ostringstream json;
    benchmark::JSONReporter reporter;
    reporter.SetOutputStream(&json);
    reporter.SetErrorStream(&std::cerr);
    benchmark::RunSpecifiedBenchmarks(&reporter);
    benchmark::Shutdown();
    progress_.reset();
    return json.str();
}

Measurements Runner::measurements(std::string google_json)
{
    Measurements all;
    for (const Case& c : cases_) all.rows.push_back(c.row);
    for (const StagedCase& staged : staged_cases_)
        all.rows.insert(all.rows.end(), staged.rows.begin(), staged.rows.end());
    all.google_json = std::move(google_json);
    all.left_out = left_out_;
    all.repetitions = staged_repetitions_;
    return all;
}

}  // namespace

Measurements measure(const Options& options)
{
    Runner runner(options);
    runner.plan();
    runner.register_all();
    return runner.measurements(runner.run());
}

}  // namespace headwise::sweep
