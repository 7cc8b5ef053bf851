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

/// The rows of K or V of the keys from `key` on.
template <class E>
struct FewTile {
    std::int64_t key;
    const E* rows;
    std::ptrdiff_t stride;
};

/// Fetches into the second-level cache. The address may be past the matrix: it is no pointer.
template <class Arch, class E>
HEADWISE_INLINE void fetch(const E* from, std::uintptr_t further)
{
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + further), 0, 2);
}

/// The hardware's prefetchers follow a stream to the end of a page only: two lines start them on the next.
template <class Arch, class E>
HEADWISE_INLINE void fetch_page_ahead(const E* from)
{
    constexpr std::uintptr_t page = 4096, line = 64;
    fetch<Arch>(from, page);
    fetch<Arch>(from, page + line);
}

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
