// The loops are written in intrinsics, each in a function compiled for its own instruction set: what is measured must
// not depend on what the compiler makes of a formula.
#include "sweep/fma_peak.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace headwise::sweep {
namespace {

// Independent chains. A fused multiply-add takes 4 cycles and at most two start in one, so 8 chains are the least;
// 12 fit 16 registers together with the factor and the addend. Multiplications and additions apart take 3 or 4 cycles
// each: 7 chains of either fill the same registers.
constexpr int chains = 12;
constexpr int sse2_chains = 7;
constexpr int sse2_rounds = 8;  // in a row, which keeps both kinds of unit busy across the rounds

// Keeps a vector's value from being known to the compiler. A macro, since a function of another instruction set cannot
// take it.
#if defined(__x86_64__)
#define HEADWISE_KEEP(value) asm volatile("" : "+v"(value))
#else
#define HEADWISE_KEEP(value) asm volatile("" : "+w"(value))
#endif

#if defined(__x86_64__)

void sse2_loop(std::int64_t steps)
{
    __m128 factor = _mm_set1_ps(1), addend = _mm_set1_ps(0);
    HEADWISE_KEEP(factor);
    HEADWISE_KEEP(addend);
    __m128 product[sse2_chains], sum[sse2_chains];
    for (int i = 0; i < sse2_chains; ++i) product[i] = sum[i] = factor;
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 64
        for (int i = 0; i < sse2_rounds * sse2_chains; ++i) {
            product[i % sse2_chains] = _mm_mul_ps(product[i % sse2_chains], factor);
            sum[i % sse2_chains] = _mm_add_ps(sum[i % sse2_chains], addend);
        }
    }
#pragma GCC unroll 32
    for (int i = 0; i < sse2_chains; ++i) {
        HEADWISE_KEEP(product[i]);
        HEADWISE_KEEP(sum[i]);
    }
}

__attribute__((target("avx2,fma"))) void avx2_loop(std::int64_t steps)
{
    __m256 factor = _mm256_set1_ps(1), addend = _mm256_set1_ps(0);
    HEADWISE_KEEP(factor);
    HEADWISE_KEEP(addend);
    __m256 sum[chains];
    for (int i = 0; i < chains; ++i) sum[i] = factor;
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 32
        for (int i = 0; i < chains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], factor, addend);
    }
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) HEADWISE_KEEP(sum[i]);
}

__attribute__((target("avx512f"))) void avx512_loop(std::int64_t steps)
{
    __m512 factor = _mm512_set1_ps(1), addend = _mm512_set1_ps(0);
    HEADWISE_KEEP(factor);
    HEADWISE_KEEP(addend);
    __m512 sum[chains];
    for (int i = 0; i < chains; ++i) sum[i] = factor;
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 32
        for (int i = 0; i < chains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], factor, addend);
    }
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) HEADWISE_KEEP(sum[i]);
}

#elif defined(__aarch64__)

void neon_loop(std::int64_t steps)
{
    float32x4_t factor = vdupq_n_f32(1), addend = vdupq_n_f32(0);
    HEADWISE_KEEP(factor);
    HEADWISE_KEEP(addend);
    // 32 registers, and cores with four units of latency 4: 24 chains.
    float32x4_t sum[2 * chains];
    for (int i = 0; i < 2 * chains; ++i) sum[i] = factor;
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 32
        for (int i = 0; i < 2 * chains; ++i) sum[i] = vfmaq_f32(sum[i], factor, addend);
    }
#pragma GCC unroll 32
    for (int i = 0; i < 2 * chains; ++i) HEADWISE_KEEP(sum[i]);
}

#endif

}  // namespace

double fma_loop_flops(Target target, std::int64_t steps)
{
    const auto per_step = [&]() -> int {
        switch (target) {
            case Target::sse2: return 4 * sse2_rounds * sse2_chains * 2;
            case Target::avx2: return 8 * chains * 2;
            case Target::avx512: return 16 * chains * 2;
            case Target::neon: return 4 * 2 * chains * 2;
        }
        return 0;
    };
    return static_cast<double>(steps) * per_step();
}

void run_fma_loop(Target target, std::int64_t steps)
{
    switch (target) {
#if defined(__x86_64__)
        case Target::sse2: return sse2_loop(steps);
        case Target::avx2: return avx2_loop(steps);
        case Target::avx512: return avx512_loop(steps);
        case Target::neon: return;
#elif defined(__aarch64__)
        case Target::neon: return neon_loop(steps);
        default: return;
#endif
    }
}

}  // namespace headwise::sweep
