// What the sweep was asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <headwise/target.hpp>

namespace headwise::sweep {

/// One point of the sweep: d_k = d_v = d_model / h.
struct Shape {
    std::int64_t n = 0;
    std::int64_t d_model = 0;
    std::int64_t h = 0;

    std::int64_t d_k() const { return d_model / h; }
    friend bool operator==(const Shape&, const Shape&) = default;
};

/// "n 1024, d_model 512, h 8"
inline std::string text(const Shape& shape)
{
    return "n " + std::to_string(shape.n) + ", d_model " + std::to_string(shape.d_model) + ", h " +
           std::to_string(shape.h);
}

struct Options {
    std::vector<Shape> shapes;           ///< every combination of the sizes, small ones first
    std::vector<Shape> extra_shapes;     ///< in the default sweep: layers of narrow heads, and more n and d_model
    std::vector<Shape> operator_shapes;  ///< the same and, in the default sweep, narrow heads
    Shape headline;                      ///< n and d_model that are spoken of, and h 8 where that was asked for
    std::vector<int> threads;            ///< ascending
    std::vector<Target> targets;         ///< worst first, as available_targets()
    bool targets_chosen = false;         ///< by --target: then each of them is measured with every number of threads
    bool full = false;
    int repetitions = 0;
    double measuring_seconds = 0;  ///< what the measurements may take together, once their times are estimated
    double whole_seconds = 0;      ///< what they may take together with the verification

    std::string json = "results.json";
    std::string revision = "unknown";  ///< of the source tree
    std::string real_layer_log;        ///< what headwise_cases printed for the real layer; empty: it was not run
    int real_layer_status = 0;         ///< and its exit status
};

/// Whether the shape has the headline's n and d_model: those are looked at on every target.
inline bool at_headline(const Options& options, const Shape& shape)
{
    return shape.n == options.headline.n && shape.d_model == options.headline.d_model;
}

struct ParsedOptions {
    Options options;
    bool run = false;  ///< false: end with exit_status; help or an explanation was printed
    int exit_status = 0;
};

ParsedOptions parse_options(int argc, char** argv);

}  // namespace headwise::sweep
