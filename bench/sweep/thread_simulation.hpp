// How far heads and query blocks fill more cores than this machine has: the operator's own tasks, timed one by one on
// one thread and handed out to simulated workers.
#pragma once

#include <cstdint>
#include <vector>

#include <headwise/target.hpp>

#include "sweep/options.hpp"

namespace headwise::sweep {

/// The operator on one shape, self-attention with d_k 64, on a number of workers.
struct SimulatedRun {
    std::int64_t n = 0;
    std::int64_t h = 0;
    int workers = 0;
    std::int64_t tasks = 0;          ///< of the operator's plan for this many workers
    double serial_seconds = 0;       ///< of all tasks of the plan for one worker
    double busy_seconds = 0;         ///< of all tasks of the plan for this many: smaller blocks share less
    double seconds = 0;              ///< until the last worker ends, by the plan for this many workers
    double heads_only_seconds = 0;   ///< the same were each head one task

    double efficiency() const { return serial_seconds / (workers * seconds); }
    double heads_only_efficiency() const { return serial_seconds / (workers * heads_only_seconds); }
};

/// Replays the operator's task plan on 1 to 128 workers for h 1, 4, 8, 12 and 16, at n 512 and 4096. What simulated
/// workers do not do is share memory bandwidth, caches and clock rates. What follows is expected to take seconds_after.
std::vector<SimulatedRun> simulate_threads(Target target, double seconds_after);

}  // namespace headwise::sweep
