// The three products of the layer: projection, scoring, blend. Operands: kernel_table.hpp.
//
// NaN and infinities are carried as IEEE arithmetic carries them. Panel columns that stand for no token hold whatever
// the product of their zeros is.
//
// before_tile() is called before each register tile: there is room for other work in their loops.
#pragma once

#include "kernels/project_few.hpp"
#include "kernels/register_tile.hpp"

namespace headwise::kernels {

/// c[m][lane] = bias[m] + sum over k of A(m, k) b[k][lane], A packed in strips. Where A is far, the next strip is fetched
/// into the second-level cache while one is at work, with the last one the first, where the next panel begins.
template <class Arch, class T>
void project(const Projection<T>& p)
{
    if (ProjectFew<Arch, T>::takes(p.tokens)) return ProjectFew<Arch, T>::run(p);
    const int width = p.vectors * lanes_of<Arch, T>;
    for (std::int64_t m = 0; m < p.rows; m += strip_rows) {
        const std::int64_t rows = p.rows - m < strip_rows ? p.rows - m : strip_rows;
        const T* const next = p.a + (m + strip_rows < p.rows ? (m + strip_rows) * p.depth : 0);
        const TileOperands<T> t{.a = p.a + m * p.depth,
                                .a_stride = strip_rows,
                                .b = p.b,
                                .c = p.c + m * width,
                                .depth = p.depth,
                                .bias = p.bias ? p.bias + m : nullptr,
                                .ahead = next};
        if (p.far) tile_rows<Arch, T, Stage::project_far>(t, rows, p.vectors);
        else tile_rows<Arch, T, Stage::project>(t, rows, p.vectors);
    }
}

template <class T>
HEADWISE_INLINE TileOperands<T> operands_of(const Product<T>& p, std::ptrdiff_t a_stride)
{
    return {.a = p.a, .a_stride = a_stride, .b = p.b, .c = p.c, .depth = p.depth};
}

/// c[key][lane] = sum over k of K(key, k) b[k][lane]; row_maximum[lane] = max(row_maximum[lane], c[.][lane]), NaN in c
/// left out of it. K's columns lie side by side: a_column_stride is 1.
template <class Arch, class T, class BeforeTile>
void score(const Product<T>& p, T* row_maximum, const BeforeTile& before_tile)
{
    TileOperands<T> t = operands_of(p, p.a_row_stride);
    t.row_maximum = row_maximum;
    tile_rows<Arch, T, Stage::score>(t, p.rows, p.vectors, before_tile);
}

template <class Arch, class T>
void score(const Product<T>& p, T* row_maximum)
{
    score<Arch, T>(p, row_maximum, Nothing());
}

/// c[m][lane] = correction[lane] c[m][lane] + sum over keys of V(key, m) b[key][lane]; correction null: c is not read
/// and starts at 0. V's columns lie side by side: a_row_stride is 1, a_column_stride the distance of V's rows.
template <class Arch, class T, class BeforeTile>
void blend(const Product<T>& p, const T* correction, const BeforeTile& before_tile)
{
    TileOperands<T> t = operands_of(p, p.a_column_stride);
    t.correction = correction;
    tile_rows<Arch, T, Stage::blend>(t, p.rows, p.vectors, before_tile);
}

template <class Arch, class T>
void blend(const Product<T>& p, const T* correction)
{
    blend<Arch, T>(p, correction, Nothing());
}

}  // namespace headwise::kernels
