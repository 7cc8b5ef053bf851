// Are the results right, and is the work what the arithmetic says?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <headwise/cost.hpp>
#include <headwise/target.hpp>
#include <headwise/work.hpp>

#include "sweep/options.hpp"

namespace headwise::sweep {

/// One result compared with the reference computed in double.
struct ErrorCheck {
    std::string subject;  ///< that of a Call, or "staged layer"
    Shape shape;
    Target target;
    std::int64_t rows = 0;  ///< query rows that were compared
    double error = 0;       ///< largest, against the reference in double
    double plain_error = 0; ///< that of the reference in float
    double limit = 0;
    bool passed = false;
};

/// The work of one call: what cost.hpp says, what the reference did, what the kernels report.
struct CountCheck {
    std::string subject;
    Shape shape;
    Target target;
    Work arithmetic;
    std::int64_t counted_rows = 0;  ///< query rows that the reference was run on
    Work counted;                   ///< by the reference, on these rows
    Work counted_arithmetic;        ///< what cost.hpp says for these rows
    WorkReport reported;
    bool passed = false;
};

/// The sizes of the tensors a layer is made from, and what cost.hpp says.
struct ParameterCheck {
    std::int64_t d_model = 0;
    std::int64_t h = 0;
    cost::Parameters arithmetic;
    cost::Parameters counted;
    bool passed = false;
};

struct Verification {
    std::vector<ErrorCheck> errors;
    std::vector<CountCheck> counts;
    std::vector<ParameterCheck> parameters;
};

/// Verifies and counts every shape on every target, on all processors. What follows is expected to take seconds_after.
Verification verify(const Options& options, double seconds_after);

}  // namespace headwise::sweep
