// When the last of some workers ends.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace headwise::sweep {

/// The time at which the last worker ends where each takes the next task once it is free, the rule of run_tasks().
inline double makespan(const std::vector<double>& task_seconds, int workers)
{
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    for (int worker = 0; worker < workers; ++worker) free_at.push(0);
    double last = 0;
    for (const double seconds : task_seconds) {
        const double end = free_at.top() + seconds;
        free_at.pop();
        free_at.push(end);
        last = std::max(last, end);
    }
    return last;
}

}  // namespace headwise::sweep
