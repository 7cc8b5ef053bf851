// What the machine can do at best, for callers in other languages: scripts/peers/roofs.py loads this as a library.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include <headwise/target.hpp>

#include "sweep/fma_peak.hpp"

namespace {

// Four sums, of a cache line each, keep enough loads in flight; the compiler makes of them what the target has.
typedef std::uint64_t CacheLine __attribute__((vector_size(64)));
constexpr int sums = 4;

}  // namespace

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

/// Reads `bytes` at `data`, any alignment. Returns how many that was: what does not fill the last step is left out.
double headwise_roofs_read(const void* data, std::size_t bytes)
{
    const std::size_t steps = bytes / (sums * sizeof(CacheLine));
    const char* at = static_cast<const char*>(data);
    CacheLine sum[sums] = {};
    for (std::size_t step = 0; step < steps; ++step) {
        for (int i = 0; i < sums; ++i, at += sizeof(CacheLine)) {
            CacheLine line;
            std::memcpy(&line, at, sizeof line);
            sum[i] |= line;
        }
    }
    asm volatile("" : : "r"(sum) : "memory");
    return static_cast<double>(steps * sums * sizeof(CacheLine));
}

}  // extern "C"
