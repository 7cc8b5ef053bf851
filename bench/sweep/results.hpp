// results.json: what was verified, counted and measured, in Google Benchmark's format.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweep/measure.hpp"
#include "sweep/memory.hpp"
#include "sweep/options.hpp"
#include "sweep/thread_simulation.hpp"
#include "sweep/verify.hpp"

namespace headwise::sweep {

using Json = nlohmann::ordered_json;

struct Findings {
    Verification verification;
    std::vector<MemoryCheck> memory;
    std::vector<SimulatedRun> simulated;
    Measurements measurements;
};

/// Google Benchmark's document with more beside it: its `context` also has the machine, the build and the measured
/// peaks; each entry of `benchmarks` also has what it measured, GFLOP/s, the share of the peak and the speed-up over
/// the naive loops; `verification`, `counts`, `parameters`, `memory`, `simulated_threads`, `real_layer` and `failures`
/// (texts; empty: all is well) are keys of their own.
Json make_results(const Options& options, const Findings& findings);

/// Replaces the file at `path` as a whole: whoever reads it sees the old document or the new one.
/// Throws std::runtime_error where it cannot be written.
void write_results(const Json& results, const std::string& path);

}  // namespace headwise::sweep
