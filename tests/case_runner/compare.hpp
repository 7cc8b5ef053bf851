// Compares what was computed with what a case expects.
#pragma once

#include <map>
#include <string>

#include "case.hpp"

namespace headwise::cases {

/// Computed outputs by name, without "out.".
using Outputs = std::map<std::string, Tensor>;

struct Comparison {
    double max_error = 0;  ///< largest |got - want| over the elements where that is finite
    std::string failure;   ///< which output, index, got, want, of the element that is off by most; empty: all agree
};

/// Compares one output: |got - want| <= atol + rtol * |want| for each element, in double whatever the two element types
/// are. Equal infinities agree; NaN agrees with nothing, a NaN that is expected neither. The shapes must be equal.
Comparison compare_output(const std::string& name, const Tensor& got, const Tensor& want, Tolerance tolerance);

/// Compares all outputs but gradients that `expected` has. Stops at the first that fails.
/// Throws BadCase where there is none to compare or one was not computed.
Comparison compare_outputs(const Outputs& got, const Case& expected);

}  // namespace headwise::cases
