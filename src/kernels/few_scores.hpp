// Scores of few rows, the keys in the lanes: products, what is added to them, and exclusion.
#pragma once

#include "kernels/exp2.hpp"
#include "kernels/few_rows.hpp"
#include "kernels/mask_element.hpp"
#include "kernels/score_terms.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class FewScores {
public:
    using V = Vec<Arch, T>;

    explicit FewScores(const AttendBlock<T>& b) : block(b) {}

    /// What queries are multiplied with.
    T scale() const { return block.natural ? block.scale : block.scale * log2e<T>; }

    static constexpr int streams = FewOrder<Arch, T>::score_streams;

    /// s[j] = the scores but for the mask, -inf for keys outside the rows' bounds. The steps fill vectors.
    template <int count>
    void score_streams(FewRow<T>* some, const FewTile<E>& k, const FewKeys& keys, V* top) const
    {
        for (std::int64_t step = 0; step < keys.steps; step += n) {
            const std::int64_t key = keys.first + step;
            V s[streams][count];  // first of a few keys of each stream, then of one stream
            for (int part = 0; part < streams; ++part)
                products<count>(some, k, key + part * of_stream, keys.distance, s[part]);
            HEADWISE_UNROLL
            for (int r = 0; r < count; ++r) {
                interleave_rounds<Arch, T, of_stream, n, streams, count>(&s[0][r]);
                HEADWISE_UNROLL
                for (int stream = 0; stream < streams; ++stream)
                    finish(some[r], k, key + stream * keys.distance, s[stream][r], top[r]);
            }
        }
    }

    /// The same for the keys from `first` on, a vector at a time, until `end` is reached.
    template <int count>
    void score_vectors(FewRow<T>* some, const FewTile<E>& k, std::int64_t first, std::int64_t end, V* top) const
    {
        for (std::int64_t key = first; key < end; key += n) {
            V s[count];
            products<count>(some, k, key, of_stream, s);
            HEADWISE_UNROLL
            for (int r = 0; r < count; ++r) finish(some[r], k, key, s[r], top[r]);
        }
    }

    /// s += mask for the keys of the tile that begins at `tile`; returns the new maximum.
    __attribute__((noinline)) T add_mask(const FewRow<T>& row, std::int64_t tile) const
    {
        return with_mask_type(block.mask_type,
                              [&]<class Element>(const Element*) { return add_mask_of<Element>(row, tile); });
    }

    static std::int64_t clamped(std::int64_t x, std::int64_t low, std::int64_t high)
    {
        return x < low ? low : x > high ? high : x;
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr int of_stream = n / streams;  ///< keys of a vector of products

    const AttendBlock<T>& block;

    /// q . K over the whole vectors of columns, for of_stream keys from `key` on of each stream, stream after stream.
    template <int count>
    HEADWISE_INLINE void products(const FewRow<T>* some, const FewTile<E>& k, std::int64_t key, std::int64_t distance,
                                  V* of_rows) const
    {
        constexpr int chains = FewOrder<Arch, T>::chains;
        constexpr int together = chains / count < streams ? chains / count : streams;  // keys
        constexpr std::int64_t rows_ahead = FewOrder<Arch, T>::k_ahead(count);
        const std::int64_t last = some[0].to - 1;
        const std::int64_t whole = block.d_k / n * n;
        V sums[count][n];
        for (int i = 0; i < of_stream; ++i) {
            for (int stream = 0; stream < streams; stream += together) {
                const E* at[together];
                V part[count][together];
                HEADWISE_UNROLL
                for (int j = 0; j < together; ++j) {
                    at[j] = k.rows + clamped(key + i + (stream + j) * distance, some[0].from, last) * k.stride;
                    HEADWISE_UNROLL
                    for (int r = 0; r < count; ++r) part[r][j] = set<Arch, T>(T(0));
                }
                for (std::int64_t c = 0; c < whole; c += n) {
                    V q[count];
                    HEADWISE_UNROLL
                    for (int r = 0; r < count; ++r) q[r] = in_register<Arch, T>(load<Arch, T>(some[r].q + c));
                    HEADWISE_UNROLL
                    for (int j = 0; j < together; ++j) {
                        if constexpr (rows_ahead > 0) fetch_line<Arch>(at[j] + c, rows_ahead * k.stride);
                        const V x = load_widened<Arch, T>(at[j] + c);
                        HEADWISE_UNROLL
                        for (int r = 0; r < count; ++r) part[r][j] = multiply_add(x, q[r], part[r][j]);
                    }
                }
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) {
                    HEADWISE_UNROLL
                    for (int j = 0; j < together; ++j) sums[r][(stream + j) * of_stream + i] = part[r][j];
                }
            }
        }
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) of_rows[r] = sums_of_rows<Arch, T>(sums[r]);
    }

    /// Writes the scores of the n keys from `key` on, of which `s` is the products' part.
    HEADWISE_INLINE void finish(FewRow<T>& row, const FewTile<E>& k, std::int64_t key, V s, V& top) const
    {
        if (block.d_k % n || block.softcap != T(0) || block.has_alibi || key < row.from || key + n > row.to)
            s = completed(row, k, key, s);
        write(row.s + key, s);
        top = raised(top, s);
    }

    __attribute__((noinline)) V completed(const FewRow<T>& row, const FewTile<E>& k, std::int64_t key, V s) const
    {
        const std::int64_t from = row.from - key, to = row.to - key;
        if (block.d_k % n) s = with_last_columns(s, row.q, k, key, from, to);
        if (block.softcap != T(0)) s = softcapped(s);
        if (block.has_alibi) s = with_alibi(s, *row.given, k.key + key);
        return from > 0 || to < n ? excluded(s, from, to) : s;
    }

    template <class Element>
    T add_mask_of(const FewRow<T>& row, std::int64_t tile) const
    {
        using Mask = MaskElement<Arch, T, Element>;
        const Element* const mask = static_cast<const Element*>(row.given->mask) + tile * block.mask_stride;
        V top = set<Arch, T>(row.maximum);
        for (std::int64_t key = row.from / n * n; key < row.to; key += n) {
            V m;
            if (block.mask_stride == 1 && key >= row.from && key + n <= row.to) {
                m = Mask::vector(mask + key);
            } else {
                alignas(64) T numbers[n];
                for (int j = 0; j < n; ++j)
                    numbers[j] = key + j >= row.from && key + j < row.to
                                     ? Mask::number(mask[(key + j) * block.mask_stride])
                                     : T(0);
                m = load<Arch, T>(numbers);
            }
            const V s = Mask::masked(load<Arch, T>(row.s + key), m);
            write(row.s + key, s);
            top = raised(top, s);
        }
        return largest<Arch, T>(top);
    }

    /// With the columns that fill no vector, for keys that are seen.
    V with_last_columns(V sums, const T* q, const FewTile<E>& k, std::int64_t key, std::int64_t from,
                        std::int64_t to) const
    {
        alignas(64) T s[n];
        write(s, sums);
        for (std::int64_t j = clamped(from, 0, n); j < clamped(to, 0, n); ++j) {
            const E* row = k.rows + (key + j) * k.stride;
            for (std::int64_t c = block.d_k / n * n; c < block.d_k; ++c) s[j] += q[c] * widened<Arch, T>(row[c]);
        }
        return load<Arch, T>(s);
    }

    V softcapped(V s) const
    {
        V x[1] = {s * set<Arch, T>(T(1) / block.softcap)};
        tanh_of<Arch, T>(x);
        return x[0] * set<Arch, T>(block.softcap);
    }

    /// s, of keys key .. key + n - 1, with what their distances add; as in add_alibi.
    static V with_alibi(V s, const AttendRow<T>& row, std::int64_t key)
    {
        alignas(64) T further[n];
        for (int j = 0; j < n; ++j) further[j] = static_cast<T>(j);
        const V distance = set<Arch, T>(distance_of<Arch>(row, key)) + load<Arch, T>(further);
        return multiply_add(set<Arch, T>(row.alibi_slope), distance, s);
    }

    static V excluded(V scores, std::int64_t from, std::int64_t to)
    {
        alignas(64) T s[n];
        write(s, scores);
        for (int j = 0; j < n; ++j)
            if (j < from || j >= to) s[j] = -infinity<T>;
        return load<Arch, T>(s);
    }
};

}  // namespace headwise::kernels
