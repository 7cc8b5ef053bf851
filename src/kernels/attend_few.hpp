// The fused operator for few query rows, as in decoding: with one query token the panels of attend.hpp would be nearly
// empty, and the time is what it takes to read K and V. Here the width lies in the lanes:
//
//     s[j] = q . K[j]                             lanes of products, added up for `lanes` keys at a time
//     p = exp2(s - m), l = l * correction + sum of p          keys in the lanes
//     o = o * correction + sum over j of p[j] V[j]            one row of V after the other
//
// K and V are read where they lie, once for all rows of the block that share them, a tile of keys at a time. Keys outside
// a row's bounds are not touched, so what they hold, NaN or not, does not matter. Those that its mask excludes have the
// weight 0, which makes NaN of what is not finite in V: a row that comes out like that is done again, key by key
// (`carefully`).
//
// So that one key/value head keeps more than one thread busy, the plan cuts long key ranges into chunks, each of which
// leaves (m, l, o); with M the largest m, y = sum of exp2(m - M) o / sum of exp2(m - M) l.
//
// Tiles are cut at multiples of key_tile and a row's sums run in order, whatever other rows the block has.
#pragma once

#include "kernels/exp2.hpp"
#include "kernels/few_blend.hpp"
#include "kernels/few_scores.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/visible_keys.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class AttendFew {
public:
    /// Whether the block is one for this kernel: few rows, and no output that has a number for each key.
    static bool takes(const AttendBlock<T>& b)
    {
        const bool wide = b.d_k + b.d_v >= least_width_of_most_rows;
        return b.unit_rows <= (wide ? max_rows : n / 2) && b.d_k >= n && b.d_v >= n && b.k.column_stride == 1 &&
               b.v.column_stride == 1 && !b.only_panels && !b.keeps_weights && !b.has_scores;
    }

    /// Numbers of scratch.
    static std::int64_t size(const AttendBlock<T>& b)
    {
        return max_rows * (rounded(b.d_k) + rounded(b.d_v) + max_key_tile);
    }

    explicit AttendFew(const AttendBlock<T>& b)
        : block(b),
          scores(b),
          key_tile(keys_of_tile(b))
    {
    }

    void run()
    {
        std::int64_t first = block.n_kv;
        std::int64_t end = 0;
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            rows[i] = prepared(i);
            if (block.rows[i].first_key < first) first = block.rows[i].first_key;
            if (block.rows[i].end_key > end) end = block.rows[i].end_key;
        }
        for (std::int64_t tile = first / key_tile * key_tile; tile < end; tile += key_tile) step(tile);
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            if (block.has_mask && !finite(rows[i])) redo_carefully(rows[i]);
            if (block.partials) leave(rows[i], block.partials + i * partial_numbers(block.d_v));
            else finish(rows[i].o, rows[i].maximum, rows[i].sum, block.rows[i]);
        }
    }

    /// Makes the rows' results of their partial ones.
    void merge()
    {
        const std::int64_t of_row = partial_numbers(block.d_v);
        T* const o = block.scratch;
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            const T* const first = block.partials + i * of_row;
            const std::int64_t of_chunk = block.row_count * of_row;
            V top = set<Arch, T>(first_maximum(block.rows[i]));
            for (std::int64_t chunk = 0; chunk < block.merged_chunks; ++chunk)
                top = raised(top, set<Arch, T>(first[chunk * of_chunk]));
            const T maximum = finite_maximum(largest<Arch, T>(top));
            T sum = power(first_maximum(block.rows[i]) - maximum);
            for (std::int64_t c = 0; c < block.d_v; ++c) o[c] = T(0);
            for (std::int64_t chunk = 0; chunk < block.merged_chunks; ++chunk) {
                const T* const partial = first + chunk * of_chunk;
                const T factor = power(partial[0] - maximum);
                sum += factor * partial[1];
                for (std::int64_t c = 0; c < block.d_v; ++c) o[c] += factor * partial[2 + c];
            }
            finish(o, maximum, sum, block.rows[i]);
        }
        if (block.work) block.work->issued.exponentials += block.row_count * (block.merged_chunks + 1);
    }

private:
    static constexpr int n = lanes_of<Arch, T>;

    // Rows up to which this beats a panel, whose cost does not depend on how many of its lanes are in use: half a vector,
    // and up to 8 where the sums over the width do not weigh much. (Zen 3, AVX2, 8 key/value heads of 128, n_kv 4096: 6
    // rows 1.33 times as fast, 8 rows 1.15; n_kv 256, in near caches: 1.07 and 0.9. Heads of 64: 8 rows 1.05 and 0.77.)
    static constexpr std::int64_t max_rows = n >= 8 ? 8 : n / 2;
    static constexpr std::int64_t least_width_of_most_rows = 256;  ///< d_k + d_v

    static constexpr std::int64_t min_key_tile = 512;
    static constexpr std::int64_t max_key_tile = 1024;
    using Order = FewOrder<Arch, T>;
    static constexpr int blend_streams = Order::blend_streams;
    using V = Vec<Arch, T>;
    using Row = FewRow<T>;
    using Tile = FewTile<E>;

    const AttendBlock<T>& block;
    const FewScores<Arch, T, E> scores;
    const std::int64_t key_tile;
    Row rows[max_rows];

    /// As many as make long streams of K and V, which each tile begins anew; their scores stay near. (Zen 3, from memory,
    /// against tiles of half as many keys: heads of 64 1.01 to 1.06 times as fast, with a mask 1.03 to 1.08, of 256 1.05 to
    /// 1.07; four heads of 128 that share keys 1.02 to 1.04, with 1024 keys 1.00 to 1.02.)
    static std::int64_t keys_of_tile(const AttendBlock<T>& b)
    {
        constexpr std::int64_t tile_numbers = 64 << 10;  // of K, likewise of V
        const std::int64_t width = b.d_k > b.d_v ? b.d_k : b.d_v;
        return FewScores<Arch, T, E>::clamped(tile_numbers / width / n * n, min_key_tile, max_key_tile);
    }

    static std::int64_t rounded(std::int64_t numbers) { return (numbers + n - 1) / n * n; }

    Row prepared(std::int64_t i) const
    {
        const AttendRow<T>& from = block.rows[i];
        Row row;
        row.given = &from;
        row.s = block.scratch + i * (key_tile + rounded(block.d_k) + rounded(block.d_v));
        row.q = row.s + key_tile;
        row.o = row.q + rounded(block.d_k);
        const E* q = static_cast<const E*>(from.q);
        const T scale = scores.scale();
        std::int64_t c = 0;
        for (; block.q_stride == 1 && c + n <= block.d_k; c += n)
            write(row.q + c, load_widened<Arch, T>(q + c) * set<Arch, T>(scale));
        for (; c < block.d_k; ++c) row.q[c] = widened<Arch, T>(q[c * block.q_stride]) * scale;
        reset(row);
        if (block.work) {
            const std::int64_t keys = VisibleKeys<Arch, T, E>(block).count(from);
            block.work->useful.score += keys * block.d_k;
            block.work->useful.exponentials += keys;
            block.work->useful.blend += keys * block.d_v;
        }
        return row;
    }

    /// No key but the sink.
    void reset(Row& row) const
    {
        for (std::int64_t c = 0; c < rounded(block.d_v); c += n) write(row.o + c, set<Arch, T>(T(0)));
        row.maximum = block.partials ? -infinity<T> : first_maximum(*row.given);  // the sink is for merge()
        row.sum = row.maximum == -infinity<T> ? T(0) : T(1);
    }

    /// The part of a tile that a row sees.
    void enter(Row& row, std::int64_t tile) const
    {
        const std::int64_t first_key = row.given->first_key, end_key = row.given->end_key;
        row.from = first_key < tile ? 0 : first_key - tile;
        row.to = end_key - tile < key_tile ? end_key - tile : key_tile;
    }

    /// The keys of one tile.
    void step(std::int64_t tile)
    {
        bool alike = true;  // all rows see the same keys of the tile
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            enter(rows[i], tile);
            alike = alike && rows[i].from == rows[0].from && rows[i].to == rows[0].to;
        }
        const Tile k(block.k, tile, block.d_k), v(block.v, tile, block.d_v);
        if (alike) return step_rows(rows, block.row_count, k, v);
        for (std::int64_t i = 0; i < block.row_count; ++i) step_rows(rows + i, 1, k, v);
    }

    /// The same for rows that see the same keys.
    void step_rows(Row* some, std::int64_t count, const Tile& k, const Tile& v) const
    {
        weigh_keys(some, count, k);
        const std::int64_t from = some[0].from, to = some[0].to;
        if (from >= to) return;
        const std::int64_t distance = (to - from) / blend_streams;
        constexpr int most = Order::most_blended;
        in_turns<most>(count, 0, distance, Order::turn_keys / blend_streams,
                       [&]<int together>(std::int64_t i, std::int64_t first, std::int64_t end) {
                           blend_few<Arch, T, E, together, blend_streams>(some + i, v,
                                                                          {from + first, distance, end - first});
                       });
        in_turns<most>(count, from + blend_streams * distance, to, blend_streams,
                       [&]<int together>(std::int64_t i, std::int64_t first, std::int64_t end) {
                           blend_few<Arch, T, E, together, 1>(some + i, v, {first, 0, end - first});
                       });
    }

    /// s = the weights of the tile's keys.
    void weigh_keys(Row* some, std::int64_t count, const Tile& k) const
    {
        const std::int64_t from = some[0].from, to = some[0].to;
        if (from >= to) return;
        constexpr int streams = Order::score_streams;
        constexpr int most = Order::most_together;
        V top[max_rows];
        for (std::int64_t i = 0; i < max_rows; ++i) top[i] = set<Arch, T>(i < count ? some[i].maximum : -infinity<T>);
        const auto score_vectors = [&](std::int64_t first_key, std::int64_t end_key) {
            in_turns<most>(count, first_key, end_key, Order::turn_keys,
                           [&]<int together>(std::int64_t i, std::int64_t first, std::int64_t end) {
                               scores.template score_vectors<together>(some + i, k, first, end, top + i);
                           });
        };
        const std::int64_t whole = rounded(from);
        const std::int64_t distance = to > whole ? (to - whole) / (streams * n) * n : 0;
        score_vectors(from / n * n, whole);
        in_turns<most>(count, 0, distance, n, [&]<int together>(std::int64_t i, std::int64_t first, std::int64_t end) {
            scores.template score_streams<together>(some + i, k, {whole + first, distance, end - first}, top + i);
        });
        score_vectors(whole + streams * distance, to);
        for (std::int64_t i = 0; i < count; ++i)
            weigh(some[i], block.has_mask ? scores.add_mask(some[i], k.key) : largest<Arch, T>(top[i]));
    }

    /// work<together>(i, first, end) on what is counted from first to end, for each set of rows i, i + 1, ... that share
    /// what is loaded of K or V, up to `most`. More rows than one set take turns every few keys, so that all sets but
    /// the first find them in the first-level cache.
    template <int most, class Work>
    static void in_turns(std::int64_t count, std::int64_t from, std::int64_t to, std::int64_t turn, const Work& work)
    {
        if (count == 1 || count == 2 || count == most) turn = to - from;
        for (std::int64_t key = from; key < to; key += turn) {
            const std::int64_t end = key + turn < to ? key + turn : to;
            std::int64_t i = 0;
            for (; i + most <= count; i += most) work.template operator()<most>(i, key, end);
            if constexpr (most > 2)
                for (; i + 2 <= count; i += 2) work.template operator()<2>(i, key, end);
            if constexpr (most > 1)
                if (i < count) work.template operator()<1>(i, key, end);
        }
    }

    bool finite(const Row& row) const
    {
        V difference = set<Arch, T>(T(0));  // of each number from itself: 0, or NaN
        for (std::int64_t c = 0; c < block.d_v; c += n) {
            const V x = load<Arch, T>(row.o + c);
            difference = difference + (x - x);
        }
        return xsimd::all(difference == set<Arch, T>(T(0)));
    }

    /// The row again, V touched only at keys that the mask includes. In the order of step_rows, so that what an excluded
    /// row of V holds changes no bit.
    __attribute__((noinline)) void redo_carefully(Row& row) const
    {
        const VisibleKeys<Arch, T, E> visible(block);
        reset(row);
        for (std::int64_t tile = row.given->first_key / key_tile * key_tile; tile < row.given->end_key;
             tile += key_tile) {
            const Tile k(block.k, tile, block.d_k), v(block.v, tile, block.d_v);
            enter(row, tile);
            weigh_keys(&row, 1, k);
            const auto add = [&](std::int64_t j) {
                if (visible.sees(*row.given, tile + j)) blend_few<Arch, T, E, 1, 1>(&row, v, {j, 0, 1});
            };
            const std::int64_t distance = row.to > row.from ? (row.to - row.from) / blend_streams : 0;
            for (std::int64_t step = 0; step < distance; ++step)
                for (int stream = 0; stream < blend_streams; ++stream) add(row.from + step + stream * distance);
            for (std::int64_t j = row.from + blend_streams * distance; j < row.to; ++j) add(j);
        }
    }

    T first_maximum(const AttendRow<T>& row) const
    {
        return block.has_sinks ? row.sink * (block.natural ? T(1) : log2e<T>) : -infinity<T>;
    }

    /// What scores are taken against: -inf would make a NaN of -inf.
    static T finite_maximum(T maximum) { return maximum == -infinity<T> ? T(0) : maximum; }

    /// exp(difference) of two scores.
    T power(T difference) const
    {
        alignas(64) T numbers[n];
        write(numbers, power_of_two<Arch, T>(set<Arch, T>(block.natural ? difference * log2e<T> : difference)));
        return numbers[0];
    }

    /// s = exp2(s - m), l = l * correction + their sum, o = o * correction. As in softmax.hpp.
    void weigh(Row& row, T new_maximum) const
    {
        const T before = row.maximum;
        row.maximum = new_maximum;
        const T maximum = finite_maximum(row.maximum);
        const std::int64_t first = row.from / n * n;
        V sum = set<Arch, T>(T(0));
        const auto weigh_all = [&](const auto& in_log2) __attribute__((always_inline)) {
            for (std::int64_t key = first; key < row.to; key += n) {
                const V p = power_of_two<Arch, T>(in_log2(load<Arch, T>(row.s + key) - set<Arch, T>(maximum)));
                write(row.s + key, p);
                sum = sum + p;
            }
        };
        if (block.natural) weigh_all([](V difference) { return difference * set<Arch, T>(log2e<T>); });
        else weigh_all([](V difference) { return difference; });
        const T correction = power(before - maximum);
        for (std::int64_t c = 0; c < block.d_v; c += n)
            write(row.o + c, load<Arch, T>(row.o + c) * set<Arch, T>(correction));
        row.sum *= correction;
        alignas(64) T numbers[n];
        write(numbers, sum);
        T total = numbers[0];
        for (int i = 1; i < n; ++i) total += numbers[i];
        row.sum += total;
        if (!block.work) return;
        const std::int64_t padded = rounded(row.to - first);
        block.work->issued.score += padded * block.d_k;
        block.work->issued.exponentials += padded + n;
        block.work->issued.blend += (row.to - row.from) * block.d_v;
    }

    void leave(const Row& row, T* partial) const
    {
        partial[0] = row.maximum;
        partial[1] = row.sum;
        for (std::int64_t c = 0; c < block.d_v; ++c) partial[2 + c] = row.o[c];
    }

    void finish(const T* o, T maximum, T sum, const AttendRow<T>& to) const
    {
        const bool weightless = sum == T(0);  // no key, or scores of -inf only: a zero row whatever V holds
        const T inverse = T(1) / sum;
        E* y = static_cast<E*>(to.y);
        for (std::int64_t c = 0; c < block.d_v; ++c)
            y[c * block.y_stride] = static_cast<E>(weightless ? T(0) : o[c] * inverse);
        if (!to.log_sum_exp) return;
        const auto q_at = [&](std::int64_t c) {
            return widened<Arch, double>(static_cast<const E*>(to.q)[c * block.q_stride]);
        };
        const double in_nats = static_cast<double>(maximum) * (block.natural ? 1 : 1 / log2e<double>);
        *to.log_sum_exp = static_cast<T>(VisibleKeys<Arch, T, E>(block).log_sum_exp(to, in_nats, sum, q_at));
    }
};

}  // namespace headwise::kernels
