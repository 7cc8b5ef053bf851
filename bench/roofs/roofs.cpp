// What the machine can do at best, for callers in other languages: scripts/peers/roofs.py loads this as a library.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include <headwise/target.hpp>

#include "sweep/fma_peak.hpp"

namespace {

// Several streams at once and prefetching keep more reads in flight than the processor's own prefetchers: 5.3 GB/s on a
// busy Zen 3 where one stream without either got 2.4.
typedef std::uint64_t CacheLine __attribute__((vector_size(64)));
constexpr std::size_t streams = 4;
constexpr std::size_t prefetch_bytes = 1024;

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

/// Reads `bytes` at `data`, any alignment. Returns how many that was: the last few may be left out.
double headwise_roofs_read(const void* data, std::size_t bytes)
{
    const std::size_t lines = bytes / (streams * sizeof(CacheLine));  // of each stream
    const char* at = static_cast<const char*>(data);
    CacheLine all = {};
    for (std::size_t i = 0; i < lines; ++i, at += sizeof(CacheLine)) {
#pragma GCC unroll 4
        for (std::size_t stream = 0; stream < streams; ++stream) {
            const char* from = at + stream * lines * sizeof(CacheLine);
            __builtin_prefetch(from + prefetch_bytes);
            CacheLine line;
            std::memcpy(&line, from, sizeof line);
            all |= line;
        }
    }
    asm volatile("" : : "r"(&all) : "memory");
    return static_cast<double>(streams * lines * sizeof(CacheLine));
}

}  // extern "C"
