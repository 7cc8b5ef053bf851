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

/// The tolerance of one output: the case's own. A bfloat16 output of an ONNX node test is held to 2^-6 at least, as
/// onnx's own test runner does (onnx/backend/test/runner): its values were computed with a rounding to bfloat16 after
/// each step, which the operator's text does not ask for and a computation in fp32 does not repeat.
Tolerance tolerance_of(const Case& expected, const Tensor& want);

/// Compares all outputs but gradients that `expected` has. Stops at the first that fails.
/// Throws BadCase where there is none to compare or one was not computed.
Comparison compare_outputs(const Outputs& got, const Case& expected);

}  // namespace headwise::cases
