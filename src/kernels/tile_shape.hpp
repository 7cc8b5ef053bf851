// Tile sizes, in one place.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/simd.hpp"

namespace headwise::kernels {

/// The register tile of a product is rows(vectors) rows of `vectors` vectors. Its accumulators, the vectors of the B
/// row and one broadcast element must fit the registers:
///   16 registers: 6 x 2 (12 + 2 + 1); a narrow panel 12 x 1 (12 + 1 + 1)
///   32 registers: 12 x 2 (24 + 2 + 1); a narrow panel 12 x 1, which is enough to hide the latency of two FMA units
template <class Arch, class T>
struct TileShape {
    static constexpr int lanes = lanes_of<Arch, T>;
#if defined(__AVX512F__) || defined(__aarch64__)
    static constexpr int registers = 32;
#else
    static constexpr int registers = 16;
#endif
    static constexpr bool is_avx512 = lanes * sizeof(T) == 64;
    static constexpr int max_vectors = 2;
    static constexpr int panel_tokens = max_vectors * lanes;

    /// Whether panels of one vector take little longer for what they compute: with AVX-512 a core that starts one
    /// multiply-add a cycle has loads to spare for each of them to have its own. (Zen 4: 1 to 4 % longer.)
    static constexpr bool narrow_is_cheap = is_avx512;

    /// A tile of more accumulators than `stores_at_once` ends vector by vector, the last `steps_between` steps of k of the
    /// next one between the stores: Zen 4 takes 12 stores of 64 bytes while it multiplies, but stands still for 24. (24
    /// stores in a row after 192 to 768 multiply-adds cost 46 to 48 cycles, in two parts with 12 multiply-adds between
    /// them 37, with 24 13 to 17, with 36 none to 2, with 48 14; 24 stores of 32 bytes cost nothing.)
    static constexpr int stores_at_once = is_avx512 ? 12 : 24;
    static constexpr int steps_between = 3;

    static constexpr int rows(int vectors) { return registers == 32 || vectors == 1 ? 12 : 6; }

    /// Keys whose scores are held at a time: a multiple of the tile rows, small enough for the scores of a panel and the
    /// tile's rows of V to stay near, large enough to pay for loading and storing the blend's accumulators. Zen 3, AVX2,
    /// 192 against 96: d_k 8 1.05, d_k 32 1.02, batch 8, n 128 1.04, causal 1.13, d_k 64 to 128 from n 256 on 0.99 to 1.01;
    /// but d_k 128, one panel over keys from memory 0.91. 48 was slower than both.
    static constexpr std::int64_t key_tile(std::int64_t d_k, std::int64_t d_v)
    {
        const bool wide = (d_k + d_v) * static_cast<std::int64_t>(sizeof(T)) >= 1024;
        return registers == 32 || !wide ? max_key_tile : max_key_tile / 2;
    }
    static constexpr std::int64_t max_key_tile = 192;

    static_assert(rows(1) + 1 + 1 <= registers && rows(2) * 2 + 2 + 1 <= registers);
    static_assert(strip_rows % rows(1) == 0 && strip_rows % rows(2) == 0);
    static_assert(max_key_tile / 2 % rows(1) == 0 && max_key_tile / 2 % rows(2) == 0);
};

}  // namespace headwise::kernels
