// What the machine can do at best, for callers in other languages: scripts/peers/roofs.py loads this as a library.
#include <cstddef>
#include <cstdint>
#include <exception>

#include <headwise/target.hpp>

#include "sweep/fma_peak.hpp"
#include "sweep/read_memory.hpp"

extern "C" {

/// Runs `steps` rounds of multiply-adds with the vectors of `target`, such as "avx2", which must be available. Returns
/// how many floating-point operations that was; 0 for an unknown target.
double headwise_roofs_fma(const char* target, std::int64_t steps)
try {
    const headwise::Target known = headwise::target_from_name(target);
    headwise::sweep::run_fma_loop(known, steps);
    return headwise::sweep::fma_loop_flops(known, steps);
} catch (const std::exception&) {
    return 0;
}

/// Reads `bytes` at `data`, any alignment, with the vectors of `target`. Returns how many that was: the last few may be
/// left out; 0 for an unknown target.
double headwise_roofs_read(const char* target, const void* data, std::size_t bytes)
try {
    return headwise::sweep::read_memory(headwise::target_from_name(target), data, bytes);
} catch (const std::exception&) {
    return 0;
}

}  // extern "C"
