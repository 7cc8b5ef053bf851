// The blend of few rows, the columns of V in the lanes.
#pragma once

#include "kernels/few_rows.hpp"

namespace headwise::kernels {

/// o += sum of s V over the keys, in columns c ..., as long as there are `vectors` of them, which are summed in
/// registers. `s`: the weights, those of a row `row_apart` after those of the one before, those of a stream `apart`.
template <class Arch, class T, class E, int count, int vectors, int streams>
HEADWISE_INLINE void blend_columns(FewRow<T>* some, const FewTile<E>& v, const FewKeys& keys, const T* s,
                                   std::ptrdiff_t row_apart, std::int64_t apart, std::int64_t& c)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    constexpr std::int64_t rows_ahead = FewOrder<Arch, T>::v_ahead(count);
    T* o[count];
    HEADWISE_UNROLL
    for (int r = 0; r < count; ++r) o[r] = some[r].o;
    const E* const rows = v.rows + keys.first * v.stride;
    const std::int64_t width = v.width, row_stride = v.stride, stream_stride = keys.distance * v.stride;
    for (; c + vectors * n <= width; c += vectors * n) {
        asm("" : "+r"(s));  // or GCC makes vectors of all weights at once, in memory, which takes twice the loads
        V sums[count][vectors];
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) sums[r][i] = load<Arch, T>(o[r] + c + i * n);
        }
        for (std::int64_t step = 0; step < keys.steps; ++step) {
            HEADWISE_UNROLL
            for (int stream = 0; stream < streams; ++stream) {
                const E* row = rows + step * row_stride + stream * stream_stride + c;
                if constexpr (streams == 1) asm("" : "+r"(row));  // or GCC makes a pointer for each vector
                V x[vectors];
                HEADWISE_UNROLL
                for (int i = 0; i < vectors; ++i) {
                    if constexpr (rows_ahead > 0) fetch_line<Arch>(row + i * n, rows_ahead * row_stride);
                    x[i] = load_widened<Arch, T>(row + i * n);
                    if constexpr (streams == 1 && count > 1) x[i] = in_register<Arch, T>(x[i]);
                }
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) {
                    const V weight = set<Arch, T>(s[r * row_apart + step + stream * apart]);
                    HEADWISE_UNROLL
                    for (int i = 0; i < vectors; ++i) sums[r][i] = multiply_add(x[i], weight, sums[r][i]);
                }
            }
        }
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) write(o[r] + c + i * n, sums[r][i]);
        }
    }
    if constexpr (vectors > 1)
        blend_columns<Arch, T, E, count, vectors / 2, streams>(some, v, keys, s, row_apart, apart, c);
}

/// The same in all columns.
template <class Arch, class T, class E, int count, int streams>
HEADWISE_INLINE void blend_keys(FewRow<T>* some, const FewTile<E>& v, const FewKeys& keys, const T* s,
                                std::ptrdiff_t row_apart, std::int64_t apart)
{
    constexpr int vectors = FewOrder<Arch, T>::blended_vectors(count);
    std::int64_t c = 0;
    blend_columns<Arch, T, E, count, vectors, streams>(some, v, keys, s, row_apart, apart, c);
    for (; c < v.width; ++c) {
        for (int r = 0; r < count; ++r) {
            T sum = some[r].o[c];
            for (std::int64_t step = 0; step < keys.steps; ++step) {
                for (int stream = 0; stream < streams; ++stream) {
                    const E x = v.rows[(keys.first + step + stream * keys.distance) * v.stride + c];
                    sum += s[r * row_apart + step + stream * apart] * widened<Arch, T>(x);
                }
            }
            some[r].o[c] = sum;
        }
    }
}

/// o += sum of s V over the keys. In several streams, rows that share V do a step at a time, so that each row of V is
/// read as a whole, once, though the sums of all its columns fit no registers.
template <class Arch, class T, class E, int count, int streams>
void blend_few(FewRow<T>* some, const FewTile<E>& v, const FewKeys& keys)
{
    if constexpr (count == 1 || streams == 1) {
        const std::ptrdiff_t row_apart = count > 1 ? some[1].s - some[0].s : 0;
        blend_keys<Arch, T, E, count, streams>(some, v, keys, some[0].s + keys.first, row_apart, keys.distance);
    } else {
        for (std::int64_t step = 0; step < keys.steps; ++step) {
            T weights[count * streams];  // side by side: one address instead of many
            HEADWISE_UNROLL
            for (int r = 0; r < count; ++r) {
                HEADWISE_UNROLL
                for (int stream = 0; stream < streams; ++stream)
                    weights[r * streams + stream] = some[r].s[keys.first + step + stream * keys.distance];
            }
            blend_keys<Arch, T, E, count, streams>(some, v, {keys.first + step, keys.distance, 1}, weights, streams, 1);
        }
    }
}

}  // namespace headwise::kernels
