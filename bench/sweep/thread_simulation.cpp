#include "sweep/thread_simulation.hpp"

#include <time.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <oneapi/tbb/task_arena.h>

#include "attend_plan.hpp"
#include "sweep/makespan.hpp"
#include "sweep/problem.hpp"
#include "sweep/progress.hpp"

namespace headwise::sweep {
namespace {

constexpr std::int64_t d_k = 64;
constexpr std::int64_t token_counts[] = {512, 4096};
constexpr std::int64_t head_counts[] = {1, 4, 8, 12, 16};
constexpr int worker_counts[] = {1, 2, 4, 8, 16, 32, 64, 128};

/// The processor time of this thread: while other programs run in its place it stands still.
double thread_seconds()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What the fused kernel, which is called once a task, leaves behind: its time. One thread only.
std::vector<double> seconds_of_tasks;
void (*timed_kernel)(const AttendBlock<float>&) = nullptr;

void attend_timed(const AttendBlock<float>& block)
{
    const double start = thread_seconds();
    timed_kernel(block);
    seconds_of_tasks.push_back(thread_seconds() - start);
}

void attend_counted(const AttendBlock<float>&)
{
    seconds_of_tasks.push_back(0);
}

/// The operator on one shape, with the kernel table's fused kernel replaced by one that keeps the book.
class Replay {
public:
    Replay(const KernelTable<float>& table, const Shape& shape)
        : table_(table), shape_(shape), problem_(make_operator_problem(shape)), Y_(problem_.Q.size())
    {
        timed_kernel = table.attend;
    }

    std::size_t count_tasks(int workers)
    {
        table_.attend = attend_counted;
        run(workers);
        return seconds_of_tasks.size();
    }

    /// Each task's time, in the order of their start. What the plan does between its kernel calls is shared out evenly.
    std::vector<double> time_tasks(int workers)
    {
        table_.attend = attend_timed;
        const double start = thread_seconds();
        run(workers);
        const double whole = thread_seconds() - start;
        const double kernels = std::accumulate(seconds_of_tasks.begin(), seconds_of_tasks.end(), 0.0);
        for (double& task : seconds_of_tasks) task += (whole - kernels) / static_cast<double>(seconds_of_tasks.size());
        return seconds_of_tasks;
    }

private:
    /// The plan asks its arena how many threads there are. All of the arena's places are kept for threads that enter
    /// it themselves, which only this one does.
    void run(int workers)
    {
        seconds_of_tasks.clear();
        const AttendSizes sizes{1, shape_.h, shape_.h, shape_.n, shape_.n, d_k, d_k};
        const AttentionOptions<float> options;
        const AttendPlan<float> plan(table_, sizes, problem_.view(problem_.K), problem_.view(problem_.V), options);
        tbb::task_arena arena(workers, static_cast<unsigned>(workers));
        arena.execute([&] {
            plan.run(problem_.view(problem_.Q), TensorView<float, 4>(Y_.data(), {1, shape_.h, shape_.n, d_k}));
        });
    }

    KernelTable<float> table_;
    Shape shape_;
    OperatorProblem<float> problem_;
    std::vector<float> Y_;
};

/// The plans for all numbers of workers, by their number of tasks: two of the same number are the same. Each task's
/// time is the least of a few rounds over all plans, since what interrupts a task here would not interrupt it there.
std::map<std::size_t, std::vector<double>> time_plans(Replay& replay, int rounds)
{
    std::map<std::size_t, int> workers_of_plan;
    for (const int workers : worker_counts) workers_of_plan[replay.count_tasks(workers)] = workers;
    std::map<std::size_t, std::vector<double>> plans;
    for (int round = 0; round < rounds; ++round)
        for (const auto& [tasks, workers] : workers_of_plan) {
            const std::vector<double> seconds = replay.time_tasks(workers);
            std::vector<double>& least = plans.try_emplace(tasks, seconds).first->second;
            std::transform(least.begin(), least.end(), seconds.begin(), least.begin(),
                           [](double a, double b) { return std::min(a, b); });
        }
    return plans;
}

void simulate_shape(const KernelTable<float>& table, const Shape& shape, std::vector<SimulatedRun>& runs)
{
    Replay replay(table, shape);
    const int rounds = shape.n < 1024 ? 8 : 3;  // a second or half a minute for all h
    const std::map<std::size_t, std::vector<double>> plans = time_plans(replay, rounds);
    const auto plan_of = [&](int workers) -> const std::vector<double>& {
        return plans.at(replay.count_tasks(workers));
    };
    const std::vector<double>& alone = plan_of(1);
    const double serial = std::accumulate(alone.begin(), alone.end(), 0.0);
    const std::vector<double> whole_heads(static_cast<std::size_t>(shape.h), serial / static_cast<double>(shape.h));
    for (const int workers : worker_counts) {
        const std::vector<double>& tasks = plan_of(workers);
        SimulatedRun run{shape.n, shape.h, workers, static_cast<std::int64_t>(tasks.size())};
        run.serial_seconds = serial;
        run.busy_seconds = std::accumulate(tasks.begin(), tasks.end(), 0.0);
        run.seconds = makespan(tasks, workers);
        run.heads_only_seconds = makespan(whole_heads, workers);
        runs.push_back(run);
    }
}

}  // namespace

std::vector<SimulatedRun> simulate_threads(Target target, double seconds_after)
{
    double pairs = 0;
    for (const std::int64_t n : token_counts)
        for (const std::int64_t h : head_counts) pairs += static_cast<double>(h * n * n);
    Progress progress("timing tasks for the simulation of threads", pairs, 20, seconds_after);
    std::vector<SimulatedRun> runs;
    for (const std::int64_t n : token_counts)
        for (const std::int64_t h : head_counts) {
            const Shape shape{n, h * d_k, h};
            simulate_shape(kernel_table<float>(target), shape, runs);
            progress.advance(static_cast<double>(h * n * n), text(shape));
        }
    return runs;
}

}  // namespace headwise::sweep
