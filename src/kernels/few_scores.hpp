// Scores of few rows, the keys in the lanes: products, what is added to them, and exclusion.
#pragma once

#include "kernels/exp2.hpp"
#include "kernels/few_rows.hpp"
#include "kernels/mask_element.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class FewScores {
public:
    using V = Vec<Arch, T>;

    explicit FewScores(const AttendBlock<T>& b) : block(b) {}

    /// What queries are multiplied with.
    T scale() const { return block.natural ? block.scale : block.scale * log2e<T>; }

    /// s[j] = the score of the n keys from `key` on but for the mask, -inf for those outside the rows' bounds. A single
    /// row goes through K nearly as it lies, a stream that the hardware's prefetchers follow.
    template <int count>
    void score(FewRow<T>* some, const FewTile<E>& k, std::int64_t key, bool needed, V* top) const
    {
        constexpr int together = count == 1 ? 2 : few_chains / count < n ? few_chains / count : n;  // keys
        const std::int64_t from = some[0].from - key, to = some[0].to - key;
        const bool all = from <= 0 && to >= n;
        if constexpr (count == 1) fetch_page_ahead<Arch>(k.rows + key * k.stride);
        LineWalk<Arch, E> ahead(k, key, needed);
        V sums[count][n];
        const std::int64_t whole = block.d_k / n * n;
        for (int first = 0; first < n; first += together) {
            const E* at[together];
            V part[count][together];
            HEADWISE_UNROLL
            for (int j = 0; j < together; ++j) {
                const std::int64_t seen = all ? first + j : clamped(first + j, from, to - 1);
                at[j] = k.rows + (key + seen) * k.stride;
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) part[r][j] = set<Arch, T>(T(0));
            }
            for (std::int64_t c = 0; c < whole; c += n) {
                if constexpr (count > 1) ahead.template fetch<together * n * int{sizeof(E)}>(c / n);
                V q[count];
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) q[r] = load<Arch, T>(some[r].q + c);
                HEADWISE_UNROLL
                for (int j = 0; j < together; ++j) {
                    const V x = load_widened<Arch, T>(at[j] + c);
                    HEADWISE_UNROLL
                    for (int r = 0; r < count; ++r) part[r][j] = multiply_add(x, q[r], part[r][j]);
                }
            }
            HEADWISE_UNROLL
            for (int r = 0; r < count; ++r) {
                HEADWISE_UNROLL
                for (int j = 0; j < together; ++j) sums[r][first + j] = part[r][j];
            }
        }
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            V s = sums_of_rows<Arch, T>(sums[r]);
            if (whole < block.d_k) s = with_last_columns(s, some[r].q, k, key, from, to);
            if (block.softcap != T(0)) s = softcapped(s);
            if (block.has_alibi) s = s + alibi(*some[r].given, k.key + key);
            if (!all) s = excluded(s, from, to);
            write(some[r].s + key, s);
            top[r] = raised(top[r], s);
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

    const AttendBlock<T>& block;

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

    /// What keys key .. key + n - 1 add to scores. The part up to the first is formed in double, as in score_terms.hpp.
    static V alibi(const AttendRow<T>& row, std::int64_t key)
    {
        alignas(64) T further[n];
        for (int j = 0; j < n; ++j) further[j] = static_cast<T>(j);
        const double distance = static_cast<double>(key) - static_cast<double>(row.position);
        const double start = static_cast<double>(row.alibi_slope) * distance;
        return multiply_add(set<Arch, T>(row.alibi_slope), load<Arch, T>(further),
                            set<Arch, T>(static_cast<T>(start)));
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
