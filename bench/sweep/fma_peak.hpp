// The floating-point roof of a core: multiply-adds in registers, nothing else.
#pragma once

#include <cstdint>

#include <headwise/target.hpp>

namespace headwise::sweep {

/// Floating-point operations (a multiply-add is two) of one call of run_fma_loop with `steps`.
double fma_loop_flops(Target target, std::int64_t steps);

/// Runs `steps` rounds of independent fp32 multiply-adds with the widest vectors of `target`, which must be available.
/// SSE2 has no fused multiply-add: there it is as many multiplications and additions side by side.
void run_fma_loop(Target target, std::int64_t steps);

}  // namespace headwise::sweep
