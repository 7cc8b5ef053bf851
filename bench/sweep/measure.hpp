// The measurements, with Google Benchmark.
#pragma once

#include <string>
#include <vector>

#include <headwise/target.hpp>

#include "sweep/options.hpp"

namespace headwise::sweep {

/// What one benchmark measures.
struct Row {
    std::string name;   ///< Google Benchmark's, such as layer/n:1024/d_model:512/h:8/target:avx2/threads:1
    /// layer, operator, causal_operator, stage, staged_layer, naive_layer, naive_operator; or a roof: fma_peak, exp_peak,
    /// memory_read
    std::string kind;
    std::string stage;  ///< where kind is stage
    Shape shape;  ///< all 0 where kind is a roof
    Target target{};  ///< not for the naive ones and memory_read
    int threads = 1;
    double flops = 0;  ///< of one iteration: a multiply-add is two, exponentials are not counted
    double exponentials = 0;  ///< of one iteration
    double bytes = 0;  ///< of one iteration, where kind is memory_read

    bool is_roof() const { return shape.n == 0; }
    bool has_target() const { return !kind.starts_with("naive") && kind != "memory_read"; }
};

struct Measurements {
    std::vector<Row> rows;
    std::string google_json;  ///< what Google Benchmark's JSON reporter wrote
    std::vector<std::string> left_out;  ///< what was not measured, and why
    int repetitions = 0;
};

/// Measures everything `options` asks for. Repetitions of all benchmarks are interleaved at random, so that a slow
/// minute of the machine falls on all of them, and on the peak, alike.
Measurements measure(const Options& options);

}  // namespace headwise::sweep
