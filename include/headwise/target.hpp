// headwise: the instruction sets the kernels were compiled for, and which of them runs.
#pragma once

#include <string_view>
#include <vector>

#include <headwise/target_list.hpp>

namespace headwise {

/// "sse2", "avx2" (AVX2 and FMA), "avx512" (F, CD, DQ, BW, VL), "neon" (AArch64).
std::string_view name(Target target) noexcept;

/// The targets that are compiled in and that this processor and its operating system can run, best last.
std::vector<Target> available_targets();

/// The target that calls use: the best available one, unless the environment variable HEADWISE_TARGET names another
/// or set_active_target was called. Read once, at first use.
///
/// Throws std::invalid_argument where HEADWISE_TARGET names an unknown target or one this processor lacks.
Target active_target();

/// Makes later calls use `target`. For tests and benchmarks: results differ between targets in the last bits.
/// Calls that are running keep the target they started with.
///
/// Throws std::invalid_argument where `target` is not among available_targets().
void set_active_target(Target target);

/// The target named `text`. Throws std::invalid_argument for an unknown name.
Target target_from_name(std::string_view text);

}  // namespace headwise
