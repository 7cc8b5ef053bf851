// The blend of few rows, the columns of V in the lanes.
#pragma once

#include "kernels/few_rows.hpp"

namespace headwise::kernels {

/// Keys that rows which share V blend in one go: few, so that each row of V is read as a whole, once, though the sums
/// of all its columns fit no registers.
inline constexpr int few_keys = 8;

/// o += sum over the keys j ... to - 1 of s[j] V[j] in columns c ..., as long as there are `vectors` of them, which are
/// summed in registers. Several rows do few_keys keys, or one, so that the loop over them has a fixed length.
template <class Arch, class T, class E, int count, int vectors, int keys>
HEADWISE_INLINE void blend_columns(FewRow<T>* some, const FewTile<E>& v, std::int64_t j, std::int64_t to,
                                   std::int64_t& c, LineWalk<Arch, E>& ahead)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    T* o[count];
    const T* s[count];
    HEADWISE_UNROLL
    for (int r = 0; r < count; ++r) {
        o[r] = some[r].o;
        s[r] = some[r].s + j;
    }
    const E* const rows = v.rows + j * v.stride;
    const std::ptrdiff_t stride = v.stride;
    for (; c + vectors * n <= v.width; c += vectors * n) {
        if constexpr (count > 1) ahead.template fetch<keys * vectors * n * int{sizeof(E)}>(c / n);
        V sums[count][vectors];
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) sums[r][i] = load<Arch, T>(o[r] + c + i * n);
        }
        const auto add = [&](std::int64_t key) __attribute__((always_inline)) {
            V x[vectors];
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) x[i] = load_widened<Arch, T>(rows + key * stride + c + i * n);
            HEADWISE_UNROLL
            for (int r = 0; r < count; ++r) {
                const V weight = set<Arch, T>(s[r][key]);
                HEADWISE_UNROLL
                for (int i = 0; i < vectors; ++i) sums[r][i] = multiply_add(x[i], weight, sums[r][i]);
            }
        };
        if constexpr (count > 1) {
            HEADWISE_UNROLL
            for (int key = 0; key < keys; ++key) add(key);
        } else {
            for (std::int64_t key = 0; key < to - j; ++key) {
                if (key % n == 0) fetch_page_ahead<Arch>(rows + key * stride + c);
                add(key);
            }
        }
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) write(o[r] + c + i * n, sums[r][i]);
        }
    }
    if constexpr (vectors > 1) blend_columns<Arch, T, E, count, vectors / 2, keys>(some, v, j, to, c, ahead);
}

/// The same in all columns.
template <class Arch, class T, class E, int count, int keys>
HEADWISE_INLINE void blend_keys(FewRow<T>* some, const FewTile<E>& v, std::int64_t j, std::int64_t to, bool needed)
{
    LineWalk<Arch, E> ahead(v, j, needed);
    std::int64_t c = 0;
    blend_columns<Arch, T, E, count, few_chains / count, keys>(some, v, j, to, c, ahead);
    for (; c < v.width; ++c) {
        for (int r = 0; r < count; ++r) {
            T sum = some[r].o[c];
            for (std::int64_t key = j; key < to; ++key)
                sum += some[r].s[key] * widened<Arch, T>(v.rows[key * v.stride + c]);
            some[r].o[c] = sum;
        }
    }
}

/// o += sum over the keys j ... to - 1 of s[j] V[j], for `count` rows that see them.
template <class Arch, class T, class E, int count>
void blend_few(FewRow<T>* some, const FewTile<E>& v, std::int64_t j, std::int64_t to, bool needed)
{
    if constexpr (count == 1) {
        blend_keys<Arch, T, E, count, 0>(some, v, j, to, needed);
    } else {
        for (; j + few_keys <= to; j += few_keys)
            blend_keys<Arch, T, E, count, few_keys>(some, v, j, j + few_keys, needed);
        for (; j < to; ++j) blend_keys<Arch, T, E, count, 1>(some, v, j, j + 1, needed);
    }
}

}  // namespace headwise::kernels
