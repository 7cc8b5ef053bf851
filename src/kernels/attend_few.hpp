// The fused operator for few query rows, as in decoding: with one query token the panels of attend.hpp would be nearly
// empty, and the time is what it takes to read K and V. Here the width lies in the lanes:
//
//     s[j] = q . K[j]                             lanes of products, added up for `lanes` keys at a time by a transpose
//     p = exp2(s - m), l = l * correction + sum of p          keys in the lanes
//     o = o * correction + sum over j of p[j] V[j]            one row of V after the other
//
// K and V are read where they lie, once for all rows of the block that share them, a tile of keys at a time; only keys
// that a row sees are touched, so what others hold, NaN or not, does not matter. Scores are in units of log2.
// Tiles are cut at multiples of key_tile and a row's sums run in order, whatever other rows the block has.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/exp2.hpp"
#include "kernels/kernel_table.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class AttendFew {
public:
    /// Rows up to which this beats a panel of one vector: a panel's cost does not depend on how many of its lanes are in
    /// use. (AVX2, d_k 64: 20 cycles a row and key against 76 a key.)
    static constexpr std::int64_t max_rows = lanes_of<Arch, T> / 2;

    /// Whether the block is one for this kernel: few rows, and nothing but bounds, sinks and the scale.
    static bool takes(const AttendBlock<T>& b)
    {
        return b.unit_rows <= max_rows && b.d_k >= n && b.d_v >= n && b.k.column_stride == 1 &&
               b.v.column_stride == 1 && !b.q_panels.data && !b.has_mask && !b.has_alibi && !b.gives_log_sum_exp &&
               !b.keeps_weights && b.score_stage < 0 && b.softcap == T(0);
    }

    /// Numbers of scratch.
    static std::int64_t size(const AttendBlock<T>& b)
    {
        return max_rows * (rounded(b.d_k) + rounded(b.d_v) + key_tile);
    }

    explicit AttendFew(const AttendBlock<T>& b) : block(b) {}

    void run()
    {
        Row rows[max_rows];
        std::int64_t first = block.n_kv;
        std::int64_t end = 0;
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            rows[i] = prepared(i);
            if (rows[i].first_key < first) first = rows[i].first_key;
            if (rows[i].end_key > end) end = rows[i].end_key;
        }
        for (std::int64_t tile = first / key_tile * key_tile; tile < end; tile += key_tile)
            for (std::int64_t i = 0; i < block.row_count; ++i) {
                const std::int64_t from = tile < rows[i].first_key ? rows[i].first_key : tile;
                const std::int64_t to = tile + key_tile < rows[i].end_key ? tile + key_tile : rows[i].end_key;
                if (from < to) step(rows[i], from, to - from);
            }
        for (std::int64_t i = 0; i < block.row_count; ++i) finish(rows[i], block.rows[i]);
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr std::int64_t key_tile = 64;
    static constexpr int chains = 8;  ///< accumulators side by side, to hide the latency of the multiply-adds
    using V = Vec<Arch, T>;

    struct Row {
        std::int64_t first_key;
        std::int64_t end_key;
        T* q;  ///< d_k, scaled
        T* o;  ///< d_v, not yet normalised
        T* s;  ///< key_tile scores, then weights
        T maximum;
        T sum;
    };

    const AttendBlock<T>& block;

    static std::int64_t rounded(std::int64_t numbers) { return (numbers + n - 1) / n * n; }

    Row prepared(std::int64_t i) const
    {
        const AttendRow<T>& from = block.rows[i];
        Row row;
        row.first_key = from.first_key;
        row.end_key = from.end_key;
        row.s = block.scratch + i * (key_tile + rounded(block.d_k) + rounded(block.d_v));
        row.q = row.s + key_tile;
        row.o = row.q + rounded(block.d_k);
        const E* q = static_cast<const E*>(from.q);
        for (std::int64_t c = 0; c < block.d_k; ++c)
            row.q[c] = widened<Arch, T>(q[c * block.q_stride]) * (block.scale * log2e<T>);
        for (std::int64_t c = 0; c < block.d_v; ++c) row.o[c] = T(0);
        row.maximum = block.has_sinks ? from.sink * log2e<T> : -infinity<T>;
        row.sum = row.maximum == -infinity<T> ? T(0) : T(1);
        if (block.work) {
            const std::int64_t keys = row.end_key - row.first_key;
            block.work->useful.score += keys * block.d_k;
            block.work->useful.exponentials += keys;
            block.work->useful.blend += keys * block.d_v;
        }
        return row;
    }

    /// Keys [first, first + keys) of one tile.
    void step(Row& row, std::int64_t first, std::int64_t keys) const
    {
        const E* k = static_cast<const E*>(block.k.data) + first * block.k.row_stride;
        const E* v = static_cast<const E*>(block.v.data) + first * block.v.row_stride;
        V top = set<Arch, T>(row.maximum);
        for (std::int64_t key = 0; key < keys; key += n) {
            const V s = scores(row.q, k + key * block.k.row_stride, keys - key < n ? keys - key : n);
            write(row.s + key, s);
            top = raised(top, s);
        }
        const T before = row.maximum;
        row.maximum = largest(top);
        const T correction = weigh(row, keys, before);
        blend(row, v, keys, correction);
        if (!block.work) return;
        const std::int64_t padded = rounded(keys);
        block.work->issued.score += padded * block.d_k;
        block.work->issued.exponentials += padded + n;
        block.work->issued.blend += keys * block.d_v;
    }

    /// q . K[j] for the `count` keys from k on, one in each lane; -inf in the other lanes.
    V scores(const T* q, const E* k, std::int64_t count) const
    {
        const E* key[n];
        V sums[n];
        HEADWISE_UNROLL
        for (int j = 0; j < n; ++j) {
            key[j] = k + (j < count ? j : count - 1) * block.k.row_stride;
            sums[j] = set<Arch, T>(T(0));
        }
        std::int64_t c = 0;
        for (; c + n <= block.d_k; c += n) {
            const V of_q = load<Arch, T>(q + c);
            HEADWISE_UNROLL
            for (int j = 0; j < n; ++j) sums[j] = multiply_add(load_widened<Arch, T>(key[j] + c), of_q, sums[j]);
        }
        transpose<Arch, T>(sums);
        HEADWISE_UNROLL
        for (int width = n / 2; width > 0; width /= 2) {
            HEADWISE_UNROLL
            for (int j = 0; j < width; ++j) sums[j] = sums[j] + sums[j + width];
        }
        if (c == block.d_k && count == n) return sums[0];
        alignas(64) T s[n];
        write(s, sums[0]);
        for (int j = 0; j < n; ++j) {
            for (std::int64_t rest = c; rest < block.d_k; ++rest) s[j] += q[rest] * widened<Arch, T>(key[j][rest]);
            if (j >= count) s[j] = -infinity<T>;
        }
        return load<Arch, T>(s);
    }

    static T largest(V x)
    {
        alignas(64) T numbers[n];
        write(numbers, x);
        T top = numbers[0];
        for (int i = 1; i < n; ++i)
            if (numbers[i] > top) top = numbers[i];
        return top;
    }

    /// s = exp2(s - m), l = l * correction + their sum; returns correction. As in softmax.hpp.
    T weigh(Row& row, std::int64_t keys, T before) const
    {
        const T maximum = row.maximum == -infinity<T> ? T(0) : row.maximum;
        V sum = set<Arch, T>(T(0));
        for (std::int64_t key = 0; key < keys; key += n) {
            const V p = power_of_two<Arch, T>(load<Arch, T>(row.s + key) - set<Arch, T>(maximum));
            write(row.s + key, p);
            sum = sum + p;
        }
        alignas(64) T numbers[n];
        write(numbers, power_of_two<Arch, T>(set<Arch, T>(before - maximum)));
        const T correction = numbers[0];
        write(numbers, sum);
        T total = numbers[0];
        for (int i = 1; i < n; ++i) total += numbers[i];
        row.sum = row.sum * correction + total;
        return correction;
    }

    void blend(const Row& row, const E* v, std::int64_t keys, T correction) const
    {
        std::int64_t c = 0;
        for (; c + chains * n <= block.d_v; c += chains * n) blend_columns<chains>(row, v, c, keys, correction);
        for (; c + n <= block.d_v; c += n) blend_columns<1>(row, v, c, keys, correction);
        for (; c < block.d_v; ++c) {
            T sum = row.o[c] * correction;
            for (std::int64_t j = 0; j < keys; ++j) sum += row.s[j] * widened<Arch, T>(v[j * block.v.row_stride + c]);
            row.o[c] = sum;
        }
    }

    /// Columns c .. c + count * n - 1.
    template <int count>
    HEADWISE_INLINE void blend_columns(const Row& row, const E* v, std::int64_t c, std::int64_t keys,
                                       T correction) const
    {
        V sums[count];
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i) sums[i] = load<Arch, T>(row.o + c + i * n) * set<Arch, T>(correction);
        for (std::int64_t j = 0; j < keys; ++j) {
            const V p = set<Arch, T>(row.s[j]);
            const E* of_key = v + j * block.v.row_stride + c;
            HEADWISE_UNROLL
            for (int i = 0; i < count; ++i) sums[i] = multiply_add(load_widened<Arch, T>(of_key + i * n), p, sums[i]);
        }
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i) write(row.o + c + i * n, sums[i]);
    }

    void finish(const Row& row, const AttendRow<T>& to) const
    {
        const bool weightless = row.sum == T(0);  // no key, or scores of -inf only: a zero row whatever V holds
        const T inverse = T(1) / row.sum;
        E* y = static_cast<E*>(to.y);
        for (std::int64_t c = 0; c < block.d_v; ++c)
            y[c * block.y_stride] = static_cast<E>(weightless ? T(0) : row.o[c] * inverse);
    }
};

}  // namespace headwise::kernels
