// The rows of attend_few.hpp while it runs, and what it reads of K and V.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

template <class T>
struct FewRow {
    const AttendRow<T>* given;
    T* q;  ///< d_k, scaled
    T* o;  ///< d_v, not yet normalised
    T* s;  ///< key_tile scores, then weights
    T maximum;
    T sum;
    // Of the tile at work, counted from its first key: keys from ... to - 1 are seen.
    std::int64_t from;
    std::int64_t to;
};

/// The order in which K and V are read, which counts more than the arithmetic.
///
/// Without AVX-512 in several streams side by side, far from each other: hardware then keeps more reads from memory in
/// flight, as long as it is led through each stream row by row (Zen 3, bytes a second: one stream 16 GB, two 20, four to
/// eight 22 to 25; rows of 512 bytes that lie side by side in a stream, read line by line, take it back to 12; software
/// that fetches ahead stops at 15, what a core can wait for). So the keys of a tile are cut in as many parts.
///
/// With AVX-512 in one stream, each row from its first line to its last: Zen 4 reads 25 to 28 GB a second as one to four
/// streams, and the kernels 1.15 to 1.25 times as fast as with streams. Rows that share what is loaded multiply so long on
/// it that the hardware's reading falls behind, so what they come to is fetched: 1.35 to 1.55 times as fast. For a single
/// row that lost, 0.8 to 0.9.
template <class Arch, class T>
struct FewOrder {
    static constexpr int lanes = lanes_of<Arch, T>;
    static constexpr bool one_stream = TileShape<Arch, T>::is_avx512;
    static constexpr int most_score_streams = one_stream ? 1 : 4;
    static constexpr int score_streams = lanes < most_score_streams ? lanes : most_score_streams;
    static constexpr int blend_streams = one_stream ? 1 : 8;
    static constexpr int most_together = lanes / 2 < 4 ? lanes / 2 : 4;  ///< rows that share what is loaded of K
    static constexpr int most_blended = one_stream && most_together > 2 ? 2 : most_together;  ///< likewise of V
    static constexpr std::int64_t turn_keys = 32;  ///< of more rows than that; whole vectors on every instruction set

    /// How many rows of K and of V ahead lines are fetched while `rows` share them. V: past the turn.
    static constexpr std::int64_t k_ahead(int rows) { return one_stream && rows > 1 ? 16 : 0; }
    static constexpr std::int64_t v_ahead(int rows) { return one_stream && rows > 1 ? 2 * turn_keys : 0; }

    /// Accumulators side by side, to hide the latency of the multiply-adds.
    static constexpr int chains = 8;
    /// Columns of V, in vectors, that `rows` rows sum in registers.
    static constexpr int blended_vectors(int rows) { return one_stream ? chains : chains / rows; }
};

/// Keys of some streams: `steps` of each, the streams `distance` apart.
struct FewKeys {
    std::int64_t first;
    std::int64_t distance;
    std::int64_t steps;
};

/// The rows of K or V of the keys from `key` on, `width` numbers each.
template <class E>
struct FewTile {
    std::int64_t key;
    const E* rows;
    std::ptrdiff_t stride;
    std::int64_t width;

    FewTile(const AttendMatrix& matrix, std::int64_t first_key, std::int64_t columns)
        : key(first_key),
          rows(static_cast<const E*>(matrix.data) + first_key * matrix.row_stride),
          stride(matrix.row_stride),
          width(columns)
    {
    }
};

/// The largest number of x.
template <class Arch, class T>
T largest(Vec<Arch, T> x)
{
    constexpr int n = lanes_of<Arch, T>;
    alignas(64) T numbers[n];
    write(numbers, x);
    T top = numbers[0];
    for (int i = 1; i < n; ++i)
        if (numbers[i] > top) top = numbers[i];
    return top;
}

}  // namespace headwise::kernels
