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

/// The strips of A, one after the other; work(operands, rows) for each. Where A is far, the next strip is fetched into the
/// second-level cache while one is at work, with the last one the first, where the next panel begins.
template <class Arch, class T, class Work>
HEADWISE_INLINE void for_each_strip(const Projection<T>& p, const Work& work)
{
    const int width = p.vectors * lanes_of<Arch, T>;
    for (std::int64_t m = 0; m < p.rows; m += strip_rows) {
        const std::int64_t rows = p.rows - m < strip_rows ? p.rows - m : strip_rows;
        const T* const next = p.a + (m + strip_rows < p.rows ? (m + strip_rows) * p.depth : 0);
        work(TileOperands<T>{.a = p.a + m * p.depth,
                             .a_stride = strip_rows,
                             .b = p.b,
                             .c = p.c + m * width,
                             .depth = p.depth,
                             .bias = p.bias ? p.bias + m : nullptr,
                             .ahead = next},
             rows);
    }
}

/// A panel whose second vector has few tokens: that one as ProjectFew does it, some rows after the first vector has been
/// through them, which leaves them near. (Zen 4, AVX-512, layers of d_model 512: n 17 1.5 times as fast, n 24 1.25.)
template <class Arch, class T>
void project_vector_and_few(const Projection<T>& p)
{
    constexpr int n = lanes_of<Arch, T>;
    constexpr std::int64_t rows_at_once = 8 * strip_rows;  // whole groups of ProjectFew
    for (std::int64_t m = 0; m < p.rows; m += rows_at_once) {
        Projection<T> part = p;
        part.rows = p.rows - m < rows_at_once ? p.rows - m : rows_at_once;
        part.a += m * p.depth;
        part.bias = p.bias ? p.bias + m : nullptr;
        part.c += m * p.vectors * n;
        for_each_strip<Arch, T>(part, [&](const TileOperands<T>& t, std::int64_t rows) {
            if (p.far) tile_rows<Arch, T, Stage::project_far, 1, 2>(t, rows, Nothing());
            else tile_rows<Arch, T, Stage::project, 1, 2>(t, rows, Nothing());
        });
        part.b += n;
        part.c += n;
        part.tokens -= n;
        part.far = false;
        ProjectFew<Arch, T>::run(part);
    }
}

/// c[m][lane] = bias[m] + sum over k of A(m, k) b[k][lane], A packed in strips.
template <class Arch, class T>
void project(const Projection<T>& p)
{
    using Few = ProjectFew<Arch, T>;
    if (Few::takes(p.tokens)) return Few::run(p);
    if constexpr (TileShape<Arch, T>::narrow_is_cheap)
        if (Few::takes_second_vector(p.tokens)) return project_vector_and_few<Arch, T>(p);
    for_each_strip<Arch, T>(p, [&](const TileOperands<T>& t, std::int64_t rows) {
        if (p.far) tile_rows<Arch, T, Stage::project_far>(t, rows, p.vectors);
        else tile_rows<Arch, T, Stage::project>(t, rows, p.vectors);
    });
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
