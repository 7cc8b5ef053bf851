// The blend of few rows, the columns of V in the lanes.
#pragma once

#include "kernels/few_rows.hpp"

namespace headwise::kernels {

/// Columns c .. c + vectors * lanes - 1 of blend_few.
template <class Arch, class T, class E, int count, int vectors>
HEADWISE_INLINE void blend_columns(FewRow<T>* some, const FewTile<E>& v, std::int64_t c)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    V sums[count][vectors];
    HEADWISE_UNROLL
    for (int r = 0; r < count; ++r) {
        HEADWISE_UNROLL
        for (int i = 0; i < vectors; ++i) sums[r][i] = load<Arch, T>(some[r].o + c + i * n);
    }
    for (std::int64_t j = some[0].from; j < some[0].to; ++j) {
        const E* of_key = v.rows + j * v.stride + c;
        if (count == 1 && j % n == 0) fetch_page_ahead<Arch>(of_key);
        V x[vectors];
        HEADWISE_UNROLL
        for (int i = 0; i < vectors; ++i) x[i] = load_widened<Arch, T>(of_key + i * n);
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            const V p = set<Arch, T>(some[r].s[j]);
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) sums[r][i] = multiply_add(x[i], p, sums[r][i]);
        }
    }
    HEADWISE_UNROLL
    for (int r = 0; r < count; ++r) {
        HEADWISE_UNROLL
        for (int i = 0; i < vectors; ++i) write(some[r].o + c + i * n, sums[r][i]);
    }
}

/// Columns from c on, as many whole vectors as there are, in passes over the tile that are as wide as may be: a pass
/// over part of each row is slow, since it jumps from row to row.
template <class Arch, class T, class E, int count, int vectors>
HEADWISE_INLINE void blend_vectors(FewRow<T>* some, const FewTile<E>& v, std::int64_t d_v, std::int64_t& c)
{
    constexpr int width = vectors * lanes_of<Arch, T>;
    for (; c + width <= d_v; c += width) blend_columns<Arch, T, E, count, vectors>(some, v, c);
    if constexpr (vectors > 1) blend_vectors<Arch, T, E, count, vectors / 2>(some, v, d_v, c);
}

/// o += sum over the tile's keys of s[j] V[j], for `count` rows that see the same keys.
template <class Arch, class T, class E, int count>
void blend_few(FewRow<T>* some, const FewTile<E>& v, std::int64_t d_v)
{
    std::int64_t c = 0;
    blend_vectors<Arch, T, E, count, few_chains / count>(some, v, d_v, c);
    for (; c < d_v; ++c) {
        for (int r = 0; r < count; ++r) {
            T sum = some[r].o[c];
            for (std::int64_t j = some[r].from; j < some[r].to; ++j)
                sum += some[r].s[j] * widened<Arch, T>(v.rows[j * v.stride + c]);
            some[r].o[c] = sum;
        }
    }
}

}  // namespace headwise::kernels
