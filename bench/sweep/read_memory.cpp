#include "sweep/read_memory.hpp"

#include <cstdint>
#include <cstring>

namespace headwise::sweep {
namespace {

// Several streams keep more reads from memory in flight than one (Zen 3: 1 stream 16 GB/s, 2 20, 4 25), and an
// accumulator for each of their vectors leaves no chain that near caches would wait for.
constexpr std::size_t streams = 4;
constexpr std::size_t line_bytes = 64;

#if defined(__x86_64__)
#define HEADWISE_USE(vector) asm volatile("" : : "x"(vector))
#else
#define HEADWISE_USE(vector) asm volatile("" : : "w"(vector))
#endif

// A function for each instruction set, hence a macro. The accumulators are `streams` times `chains`.
#define HEADWISE_READ_LOOP(name, vector_bytes, chains, ...)                                                   \
    __VA_ARGS__ void name(const char* from, std::size_t lines)                                                \
    {                                                                                                         \
        typedef std::uint64_t Vector __attribute__((vector_size(vector_bytes)));                              \
        Vector all[streams * chains] = {};                                                                    \
        for (std::size_t i = 0; i < lines; ++i, from += line_bytes) {                                         \
            _Pragma("GCC unroll 16") for (std::size_t v = 0; v < streams * line_bytes / vector_bytes; ++v)    \
            {                                                                                                 \
                const std::size_t stream = v % streams, in_line = v / streams;                                \
                Vector x;                                                                                     \
                std::memcpy(&x, from + stream * lines * line_bytes + in_line * vector_bytes, sizeof x);       \
                all[stream * chains + in_line % chains] |= x;                                                 \
            }                                                                                                 \
        }                                                                                                     \
        _Pragma("GCC unroll 16") for (std::size_t i = 0; i < streams * chains; ++i) HEADWISE_USE(all[i]);     \
    }

#if defined(__x86_64__)
HEADWISE_READ_LOOP(sse2_loop, 16, 2)
HEADWISE_READ_LOOP(avx2_loop, 32, 2, __attribute__((target("avx2"))))
HEADWISE_READ_LOOP(avx512_loop, 64, 1, __attribute__((target("avx512f"))))
#else
HEADWISE_READ_LOOP(neon_loop, 16, 4)
#endif

}  // namespace

double read_memory(Target target, const void* data, std::size_t bytes)
{
    const char* const from = static_cast<const char*>(data);
    const std::size_t lines = bytes / (streams * line_bytes);  // of each stream
    switch (target) {
#if defined(__x86_64__)
        case Target::sse2: sse2_loop(from, lines); break;
        case Target::avx2: avx2_loop(from, lines); break;
        case Target::avx512: avx512_loop(from, lines); break;
        case Target::neon: return 0;
#else
        case Target::neon: neon_loop(from, lines); break;
        default: return 0;
#endif
    }
    return static_cast<double>(streams * lines * line_bytes);
}

}  // namespace headwise::sweep
