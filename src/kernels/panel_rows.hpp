// Rows of numbers into the columns of a panel and back: the transposes at the edges.
//
// The tokens' rows are given one by one, so that the same code serves rows of one matrix and rows of many heads. Squares
// of square_lanes x square_lanes numbers go through registers; what is left of a row is copied one by one, so nothing
// outside a row is read or written.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// The first whole squares of `count` rows, as many as there are, to the panel whose rows are `width` apart; returns how
/// many numbers of each row that is. `all`: there is a row for each column of a square, which spares asking.
template <class Arch, class T, bool all, class E>
HEADWISE_INLINE std::int64_t gather_squares(T* panel, int width, const E* const* rows, std::int64_t count,
                                            std::int64_t depth, T factor)
{
    constexpr int n = square_lanes<Arch, T>;
    const E* row[n];
    HEADWISE_UNROLL
    for (int i = 0; i < n; ++i) row[i] = all || i < count ? rows[i] : nullptr;
    std::int64_t k = 0;
    for (; k + n <= depth; k += n) {
        SquareRow<Arch, T> square[n] = {};
        HEADWISE_UNROLL
        for (int i = 0; i < n; ++i)
            if (all || i < count) square[i] = widened_numbers<Arch, T, n>(row[i] + k);
        transpose<Arch, T>(square);
        HEADWISE_UNROLL
        for (int i = 0; i < n; ++i) write_numbers<Arch>(panel + (k + i) * width, square[i] * factor);
    }
    return k;
}

/// panel[k][token] = factor * rows[token][k * column_stride], k < depth; columns from `tokens` on become 0.
template <class Arch, class T, class E>
void gather_panel(T* panel, int vectors, const E* const* rows, std::int64_t tokens, std::ptrdiff_t column_stride,
                  std::int64_t depth, T factor)
{
    constexpr int n = square_lanes<Arch, T>;
    const int width = vectors * lanes_of<Arch, T>;
    for (int first = 0; first < width; first += n) {
        const std::int64_t here = tokens - first < n ? tokens - first : n;
        std::int64_t k = 0;
        if (column_stride == 1)
            k = here == n ? gather_squares<Arch, T, true>(panel + first, width, rows + first, here, depth, factor)
                          : gather_squares<Arch, T, false>(panel + first, width, rows + first, here, depth, factor);
        for (; k < depth; ++k)
            for (int i = 0; i < n; ++i)
                panel[k * width + first + i] =
                    i < here ? factor * widened<Arch, T>(rows[first + i][k * column_stride]) : T(0);
    }
}

/// The other way round: the first whole squares of `count` rows.
template <class Arch, class T, bool all>
HEADWISE_INLINE std::int64_t scatter_squares(const T* panel, int width, T* const* rows, std::int64_t count,
                                             std::int64_t depth, const T* factor)
{
    constexpr int n = square_lanes<Arch, T>;
    const SquareRow<Arch, T> factors = load_numbers<Arch, n>(factor);
    T* row[n];
    HEADWISE_UNROLL
    for (int i = 0; i < n; ++i) row[i] = all || i < count ? rows[i] : nullptr;
    std::int64_t k = 0;
    for (; k + n <= depth; k += n) {
        SquareRow<Arch, T> square[n];
        HEADWISE_UNROLL
        for (int i = 0; i < n; ++i) square[i] = load_numbers<Arch, n>(panel + (k + i) * width) * factors;
        transpose<Arch, T>(square);
        HEADWISE_UNROLL
        for (int i = 0; i < n; ++i)
            if (all || i < count) write_numbers<Arch>(row[i] + k, square[i]);
    }
    return k;
}

/// rows[token][k * column_stride] = factor[token] * panel[k][token], k < depth, token < tokens. factor: W
/// numbers.
template <class Arch, class T, class E>
void scatter_panel(const T* panel, int vectors, E* const* rows, std::int64_t tokens, std::ptrdiff_t column_stride,
                   std::int64_t depth, const T* factor)
{
    constexpr int n = square_lanes<Arch, T>;
    const int width = vectors * lanes_of<Arch, T>;
    for (int first = 0; first < tokens; first += n) {
        const std::int64_t here = tokens - first < n ? tokens - first : n;
        std::int64_t k = 0;
        if constexpr (std::is_same_v<E, T>) {
            if (column_stride == 1)
                k = here == n ? scatter_squares<Arch, T, true>(panel + first, width, rows + first, here, depth,
                                                               factor + first)
                              : scatter_squares<Arch, T, false>(panel + first, width, rows + first, here, depth,
                                                                factor + first);
        }
        for (; k < depth; ++k)
            for (int i = 0; i < here; ++i)
                rows[first + i][k * column_stride] = static_cast<E>(panel[k * width + first + i] * factor[first + i]);
    }
}

template <class Arch, class T>
void rows_to_panel(const PanelRows<T>& p)
{
    const T* rows[TileShape<Arch, T>::panel_tokens];
    for (std::int64_t i = 0; i < p.tokens; ++i) rows[i] = p.rows + i * p.row_stride;
    gather_panel<Arch, T, T>(p.panel, p.vectors, rows, p.tokens, p.column_stride, p.depth, T(1));
}

template <class Arch, class T>
void panel_to_rows(const PanelRows<T>& p)
{
    T* rows[TileShape<Arch, T>::panel_tokens];
    alignas(64) T ones[TileShape<Arch, T>::panel_tokens];
    for (T& one : ones) one = T(1);
    for (std::int64_t i = 0; i < p.tokens; ++i) rows[i] = p.rows + i * p.row_stride;
    scatter_panel<Arch, T, T>(p.panel, p.vectors, rows, p.tokens, p.column_stride, p.depth, ones);
}

}  // namespace headwise::kernels
