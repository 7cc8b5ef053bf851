// The three products of the layer: projection, scoring, blend. Operands: kernel_table.hpp.
//
// NaN and infinities are carried as IEEE arithmetic carries them. Panel columns that stand for no token hold whatever
// the product of their zeros is.
//
// before_tile() is called before each register tile: there is room for other work in their loops.
#pragma once

#include "kernels/register_tile.hpp"

namespace headwise::kernels {

/// c[m][lane] = bias[m] + sum over k of A(m, k) b[k][lane], A packed in strips.
template <class Arch, class T>
void project(const Projection<T>& p)
{
    const int width = p.vectors * lanes_of<Arch, T>;
    for (std::int64_t m = 0; m < p.rows; m += strip_rows) {
        const std::int64_t rows = p.rows - m < strip_rows ? p.rows - m : strip_rows;
        const TileOperands<T> t{p.a + m * p.depth, strip_rows, p.b,
                                p.c + m * width,   p.depth,    p.bias ? p.bias + m : nullptr,
                                nullptr,           nullptr};
        tile_rows<Arch, T, Stage::project>(t, rows, p.vectors);
    }
}

/// c[key][lane] = sum over k of K(key, k) b[k][lane]; row_maximum[lane] = max(row_maximum[lane], c[.][lane]), NaN in c
/// left out of it. K's columns lie side by side: a_column_stride is 1.
template <class Arch, class T, class BeforeTile>
void score(const Product<T>& p, T* row_maximum, const BeforeTile& before_tile)
{
    const TileOperands<T> t{p.a, p.a_row_stride, p.b, p.c, p.depth, nullptr, nullptr, row_maximum};
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
    const TileOperands<T> t{p.a, p.a_column_stride, p.b, p.c, p.depth, nullptr, correction, nullptr};
    tile_rows<Arch, T, Stage::blend>(t, p.rows, p.vectors, before_tile);
}

template <class Arch, class T>
void blend(const Product<T>& p, const T* correction)
{
    blend<Arch, T>(p, correction, Nothing());
}

}  // namespace headwise::kernels
