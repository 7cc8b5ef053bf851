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

/// The rows of K or V of the keys from `key` on, `width` numbers each.
template <class E>
struct FewTile {
    std::int64_t key;
    const E* rows;
    std::ptrdiff_t stride;
    std::int64_t width;
    std::int64_t rows_ahead;  ///< from a row at work to the one that is fetched meanwhile: some 4 KiB

    FewTile(const AttendMatrix& matrix, std::int64_t first_key, std::int64_t columns)
        : key(first_key),
          rows(static_cast<const E*>(matrix.data) + first_key * matrix.row_stride),
          stride(matrix.row_stride),
          width(columns),
          rows_ahead(4096 / (columns * std::int64_t{sizeof(E)}) + 1)
    {
    }
};

/// Fetches into the second-level cache. The address may be past the matrix: it is no pointer.
template <class Arch>
HEADWISE_INLINE void fetch_line(std::uintptr_t address)
{
    __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}

/// The hardware's prefetchers follow a stream to the end of a page only: two lines start them on the next.
template <class Arch, class E>
HEADWISE_INLINE void fetch_page_ahead(const E* from)
{
    constexpr std::uintptr_t page = 4096, line = 64;
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    fetch_line<Arch>(address + page);
    fetch_line<Arch>(address + page + line);
}

/// Fetches the rows of a tile that come some rows after those at work, a line after the other in the order in which they
/// lie: hardware keeps up with what is read one line after the other, not with four rows or more side by side.
template <class Arch, class E>
class LineWalk {
public:
    /// Beside the rows from j on; `needed`: they have not been read by other rows of the block just before.
    LineWalk(const FewTile<E>& tile, std::int64_t j, bool needed)
        : row_(reinterpret_cast<std::uintptr_t>(tile.rows) + bytes((j + tile.rows_ahead) * tile.stride)),
          stride_(bytes(tile.stride)),
          end_(needed ? bytes(tile.width) : 0)
    {
    }

    /// As many lines as a step's `read` bytes fill; where that is a part of one, steps take turns.
    template <int read>
    HEADWISE_INLINE void fetch(std::int64_t step)
    {
        if (end_ == 0) return;
        if constexpr (read < int{line}) {
            if (step % (int{line} / read) == 0) fetch_next();
        } else {
            HEADWISE_UNROLL
            for (int i = 0; i < read / int{line}; ++i) fetch_next();
        }
    }

private:
    static constexpr std::uintptr_t line = 64;

    static std::uintptr_t bytes(std::int64_t numbers) { return static_cast<std::uintptr_t>(numbers) * sizeof(E); }

    HEADWISE_INLINE void fetch_next()
    {
        fetch_line<Arch>(row_ + offset_);
        offset_ += line;
        if (offset_ < end_) return;
        offset_ = 0;
        row_ += stride_;
    }

    std::uintptr_t row_;
    std::uintptr_t stride_;
    std::uintptr_t end_;
    std::uintptr_t offset_ = 0;
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
