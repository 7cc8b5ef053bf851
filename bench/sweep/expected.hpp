// What a shape's result must be, computed by the naive reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <headwise/work.hpp>

#include "sweep/options.hpp"
#include "sweep/problem.hpp"

namespace headwise::sweep {

/// The calls that are verified and counted.
enum class Call { layer, attention, causal_attention };
std::string subject(Call call);  ///< "layer", "operator", "causal operator"

/// Two results of the reference for the same rows of one shape.
struct Expected {
    Shape shape;
    Call call = Call::layer;
    RowSample rows;              ///< the query rows computed
    std::vector<double> exact;   ///< computed in double: (rows, d_model) or (h, rows, d_k)
    std::vector<float> plain;    ///< computed in float
    Work counted;                ///< while computing `exact`
};

/// Computes them for all shapes, many at a time. Where a shape is too large for the naive loops, only a sample of its
/// query rows is computed: the others differ in nothing but their numbers.
std::vector<Expected> compute_expected(const Options& options, double seconds_after);

/// The reference computed in float, all rows: what speed-ups are measured against. Y is dense.
void run_naive_layer(const LayerProblem<float>& problem, float* Y);
void run_naive_operator(const OperatorProblem<float>& problem, float* Y);

}  // namespace headwise::sweep
