// Runs a case on the library.
#pragma once

#include "case.hpp"
#include "compare.hpp"

namespace headwise::cases {

enum class Implementation {
    kernels,   ///< headwise::attention and BasicMultiHeadAttention, on the active target
    reference  ///< their naive twins in headwise::reference
};

/// Calls the library as the case says and returns the outputs it expects, gradients left out.
///
/// Throws NotSupported naming the first thing in the case that is not understood, BadCase for a case that contradicts
/// itself, and whatever the library throws.
Outputs run_case(const Case& test, Implementation implementation);

/// For `op` layer.
Outputs run_layer(const Case& test, Implementation implementation);
/// For `op` sdpa and onnx.
Outputs run_attention(const Case& test, Implementation implementation);

}  // namespace headwise::cases
