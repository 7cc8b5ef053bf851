// Tasks in the caller's oneTBB arena.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

namespace headwise {

/// Threads that the caller's arena may use.
inline std::int64_t thread_count()
{
    return std::max(1, oneapi::tbb::this_task_arena::max_concurrency());
}

/// Work, in multiply-adds, that is not worth a second thread: some 10 microseconds.
constexpr double serial_work = 5e5;

/// The tasks of one call, shared by its workers.
class TaskQueue {
public:
    explicit TaskQueue(std::int64_t workers) : workers_(workers) {}

    /// Number of the caller's next task: 0, 1, ... in order over all workers.
    std::int64_t next() { return counter_.fetch_add(1, std::memory_order_relaxed); }

    /// The task that the caller is likely to have after `task`.
    std::int64_t likely_after(std::int64_t task) const { return task + workers_; }

private:
    std::atomic<std::int64_t> counter_{0};
    const std::int64_t workers_;
};

/// Runs worker(queue) on as many threads as help; each calls queue.next() until that is task_count or more. So the order
/// of the tasks is that of their start, and a worker sets up its scratch once.
template <class Worker>
void run_tasks(std::int64_t task_count, double total_work, const Worker& worker)
{
    const std::int64_t workers = total_work < serial_work ? 1 : std::min(thread_count(), task_count);
    TaskQueue queue(workers);
    if (workers <= 1) {
        worker(queue);
        return;
    }
    oneapi::tbb::parallel_for(
        std::int64_t{0}, workers, [&](std::int64_t) { worker(queue); }, oneapi::tbb::simple_partitioner());
}

}  // namespace headwise
