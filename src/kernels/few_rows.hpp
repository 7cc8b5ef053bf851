// The rows of attend_few.hpp while it runs, and what it reads of K and V.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/simd.hpp"

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

// K and V are read in several streams side by side, far from each other: hardware then keeps more reads from memory in
// flight, as long as it is led through each stream row by row (Zen 3, bytes a second: one stream 16 GB, two 20, four to
// eight 22 to 25; rows of 512 bytes that lie side by side in a stream, read line by line, take it back to 12; software
// that fetches ahead stops at 15, what a core can wait for). So the keys of a tile are cut in as many parts.

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

inline constexpr int few_chains = 8;  ///< accumulators side by side, to hide the latency of the multiply-adds

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
