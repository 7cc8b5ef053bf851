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
    static constexpr int max_vectors = 2;
    static constexpr int panel_tokens = max_vectors * lanes;

    static constexpr int rows(int vectors) { return registers == 32 || vectors == 1 ? 12 : 6; }

    /// Keys whose scores are held at a time: a multiple of the tile rows, small enough for the scores of a panel and the
    /// tile's rows of V to stay near, large enough to pay for loading and storing the blend's accumulators. Zen 3, AVX2,
    /// h 8, n 1024, d_k 64, medians in ms: 96 33.6, 192 34.0; d_k 32, n 512: 6.3 and 7.1; 48 was slower than both.
    static constexpr int key_tile = registers == 32 ? 192 : 96;

    static_assert(rows(1) + 1 + 1 <= registers && rows(2) * 2 + 2 + 1 <= registers);
    static_assert(strip_rows % rows(1) == 0 && strip_rows % rows(2) == 0);
    static_assert(key_tile % rows(1) == 0 && key_tile % rows(2) == 0);
};

}  // namespace headwise::kernels
