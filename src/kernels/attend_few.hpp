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
// (`careful`). Scores are in units of log2, or in natural units where something is added to them.
//
// So that one key/value head keeps more than one thread busy, the plan cuts long key ranges into chunks, each of which
// leaves (m, l, o); with M the largest m, y = sum of exp2(m - M) o / sum of exp2(m - M) l.
//
// Tiles are cut at multiples of key_tile and a row's sums run in order, whatever other rows the block has.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/exp2.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/visible_keys.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class AttendFew {
public:
    /// Rows up to which this beats a panel of one vector: a panel's cost does not depend on how many of its lanes are in
    /// use. (AVX2, d_k 64: 20 cycles a row and key against 76 a key.)
    static constexpr std::int64_t max_rows = lanes_of<Arch, T> / 2;

    /// Whether the block is one for this kernel: few rows, and no output that has a number for each key.
    static bool takes(const AttendBlock<T>& b)
    {
        return b.unit_rows <= max_rows && b.d_k >= n && b.d_v >= n && b.k.column_stride == 1 &&
               b.v.column_stride == 1 && !b.q_panels.data && !b.keeps_weights && b.score_stage < 0;
    }

    /// Numbers of scratch.
    static std::int64_t size(const AttendBlock<T>& b)
    {
        return max_rows * (rounded(b.d_k) + rounded(b.d_v) + max_key_tile);
    }

    explicit AttendFew(const AttendBlock<T>& b)
        : block(b),
          key_tile(keys_of_tile(b)),
          natural(b.softcap != T(0) || b.has_alibi || (b.has_mask && b.mask_type != ElementType::boolean))
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
            const T maximum = finite_maximum(largest(top));
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
    static constexpr std::int64_t max_key_tile = 512;
    static constexpr int chains = 8;  ///< accumulators side by side, to hide the latency of the multiply-adds
    static constexpr int max_together = 4;  ///< rows that share what is loaded of K and V
    static constexpr std::uintptr_t bytes_ahead = 8 << 10;  ///< fetched of K: 4 to 16 KiB do alike
    using V = Vec<Arch, T>;

    struct Row {
        const AttendRow<T>* given;
        T* q;  ///< d_k, scaled
        T* o;  ///< d_v, not yet normalised
        T* s;  ///< key_tile scores, then weights
        T maximum;
        T sum;
        // Of the tile at work, counted from its first key: keys from ... to - 1 are seen.
        std::int64_t from;
        std::int64_t to;
    };

    /// The rows of K or V of the keys from `key` on.
    struct Tile {
        std::int64_t key;
        const E* rows;
        std::ptrdiff_t stride;
    };

    const AttendBlock<T>& block;
    const std::int64_t key_tile;
    const bool natural;  ///< scores in natural units, else in units of log2
    Row rows[max_rows];

    /// As many as make long streams of K and V, while a tile of both stays in the second-level cache.
    static std::int64_t keys_of_tile(const AttendBlock<T>& b)
    {
        constexpr std::int64_t tile_numbers = 32 << 10;  // of K, likewise of V
        const std::int64_t width = b.d_k > b.d_v ? b.d_k : b.d_v;
        return clamped(tile_numbers / width / n * n, n, max_key_tile);
    }

    static std::int64_t rounded(std::int64_t numbers) { return (numbers + n - 1) / n * n; }

    static std::int64_t clamped(std::int64_t x, std::int64_t low, std::int64_t high)
    {
        return x < low ? low : x > high ? high : x;
    }

    Row prepared(std::int64_t i) const
    {
        const AttendRow<T>& from = block.rows[i];
        Row row;
        row.given = &from;
        row.s = block.scratch + i * (key_tile + rounded(block.d_k) + rounded(block.d_v));
        row.q = row.s + key_tile;
        row.o = row.q + rounded(block.d_k);
        const E* q = static_cast<const E*>(from.q);
        const T factor = natural ? block.scale : block.scale * log2e<T>;
        for (std::int64_t c = 0; c < block.d_k; ++c) row.q[c] = widened<Arch, T>(q[c * block.q_stride]) * factor;
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
        for (std::int64_t c = 0; c < rounded(block.d_v); ++c) row.o[c] = T(0);
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

    static Tile tile_of(const AttendMatrix& matrix, std::int64_t key)
    {
        return {key, static_cast<const E*>(matrix.data) + key * matrix.row_stride, matrix.row_stride};
    }

    /// The keys of one tile.
    void step(std::int64_t tile)
    {
        bool alike = true;  // all rows see the same keys of the tile
        for (std::int64_t i = 0; i < block.row_count; ++i) {
            enter(rows[i], tile);
            alike = alike && rows[i].from == rows[0].from && rows[i].to == rows[0].to;
        }
        const Tile k = tile_of(block.k, tile), v = tile_of(block.v, tile);
        std::int64_t i = 0;
        if (alike) {
            for (; i + max_together <= block.row_count; i += max_together) step_rows<max_together>(rows + i, k, v);
            for (; i + 2 <= block.row_count; i += 2) step_rows<2>(rows + i, k, v);
        }
        for (; i < block.row_count; ++i) step_rows<1>(rows + i, k, v);
    }

    /// The same for some rows, which see the same keys.
    template <int count>
    void step_rows(Row* some, const Tile& k, const Tile& v) const
    {
        if (some[0].from >= some[0].to) return;
        weigh_keys<count>(some, k, v);
        blend<count>(some, v);
    }

    /// s = the weights of the tile's keys.
    template <int count>
    void weigh_keys(Row* some, const Tile& k, const Tile& v) const
    {
        const std::int64_t from = some[0].from, to = some[0].to;
        V top[count];
        for (int r = 0; r < count; ++r) top[r] = set<Arch, T>(some[r].maximum);
        for (std::int64_t key = from / n * n; key < to; key += n) score_keys<count>(some, k, v, key, top);
        for (int r = 0; r < count; ++r) weigh(some[r], block.has_mask ? add_mask(some[r], k.key) : largest(top[r]));
    }

    /// s += mask for the keys of the tile that begins at `tile`; returns the new maximum.
    __attribute__((noinline)) T add_mask(const Row& row, std::int64_t tile) const
    {
        return with_mask_type(block.mask_type,
                              [&]<class Element>(const Element*) { return add_mask_of<Element>(row, tile); });
    }

    template <class Element>
    T add_mask_of(const Row& row, std::int64_t tile) const
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
                                     : -infinity<T>;
                m = load<Arch, T>(numbers);
            }
            const V s = Mask::masked(load<Arch, T>(row.s + key), m);
            write(row.s + key, s);
            top = raised(top, s);
        }
        return largest(top);
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

    /// The row again, V touched only at keys that the mask includes.
    __attribute__((noinline)) void redo_carefully(Row& row) const
    {
        const VisibleKeys<Arch, T, E> visible(block);
        reset(row);
        for (std::int64_t tile = row.given->first_key / key_tile * key_tile; tile < row.given->end_key;
             tile += key_tile) {
            const Tile k = tile_of(block.k, tile), v = tile_of(block.v, tile);
            enter(row, tile);
            weigh_keys<1>(&row, k, v);
            for (std::int64_t j = row.from; j < row.to; ++j) {
                if (!visible.sees(*row.given, tile + j)) continue;
                for (std::int64_t c = 0; c < block.d_v; ++c)
                    row.o[c] += row.s[j] * widened<Arch, T>(v.rows[j * v.stride + c]);
            }
        }
    }

    /// s[j] = q . K[j] for the n keys from `key` on, -inf for those that are not seen. A single row goes through K nearly
    /// as it lies, a stream that the hardware's prefetchers follow. Rows that share K compute long enough on each line of
    /// it for others to be fetched meanwhile: the same one of V, and one of K further on.
    template <int count>
    void score_keys(Row* some, const Tile& k, const Tile& v, std::int64_t key, V* top) const
    {
        constexpr int together = count == 1 ? 2 : chains / count < n ? chains / count : n;  // keys
        constexpr int vectors_of_line = 64 / int{sizeof(E)} / n;
        const std::int64_t from = some[0].from - key, to = some[0].to - key;
        const bool all = from <= 0 && to >= n;
        if constexpr (count == 1) fetch_page_ahead(k.rows + key * k.stride);
        V sums[count][n];
        const std::int64_t whole = block.d_k / n * n;
        for (int first = 0; first < n; first += together) {
            const E* at[together];
            const E* ahead[together];
            V part[count][together];
            HEADWISE_UNROLL
            for (int j = 0; j < together; ++j) {
                const std::int64_t seen = all ? first + j : clamped(first + j, from, to - 1);
                at[j] = k.rows + (key + seen) * k.stride;
                ahead[j] = v.rows + (key + seen) * v.stride;
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) part[r][j] = set<Arch, T>(T(0));
            }
            for (std::int64_t c = 0; c < whole; c += n) {
                V q[count];
                HEADWISE_UNROLL
                for (int r = 0; r < count; ++r) q[r] = load<Arch, T>(some[r].q + c);
                HEADWISE_UNROLL
                for (int j = 0; j < together; ++j) {
                    const V x = load_widened<Arch, T>(at[j] + c);
                    HEADWISE_UNROLL
                    for (int r = 0; r < count; ++r) part[r][j] = multiply_add(x, q[r], part[r][j]);
                    if (count > 1 && c / n % vectors_of_line == 0) {
                        fetch(ahead[j] + c, 0);
                        fetch(at[j] + c, bytes_ahead);
                    }
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

    /// Into the second-level cache. The address may be past the matrix: it is no pointer.
    static HEADWISE_INLINE void fetch(const E* from, std::uintptr_t further)
    {
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + further), 0, 2);
    }

    /// The hardware's prefetchers follow a stream to the end of a page only: two lines start them on the next.
    static HEADWISE_INLINE void fetch_page_ahead(const E* from)
    {
        constexpr std::uintptr_t page = 4096, line = 64;
        fetch(from, page);
        fetch(from, page + line);
    }

    /// With the columns that fill no vector, for keys that are seen.
    V with_last_columns(V sums, const T* q, const Tile& k, std::int64_t key, std::int64_t from, std::int64_t to) const
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

    T first_maximum(const AttendRow<T>& row) const
    {
        return block.has_sinks ? row.sink * (natural ? T(1) : log2e<T>) : -infinity<T>;
    }

    /// What scores are taken against: -inf would make a NaN of -inf.
    static T finite_maximum(T maximum) { return maximum == -infinity<T> ? T(0) : maximum; }

    /// exp(difference) of two scores.
    T power(T difference) const
    {
        alignas(64) T numbers[n];
        write(numbers, power_of_two<Arch, T>(set<Arch, T>(natural ? difference * log2e<T> : difference)));
        return numbers[0];
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

    /// s = exp2(s - m), l = l * correction + their sum, o = o * correction. As in softmax.hpp.
    void weigh(Row& row, T new_maximum) const
    {
        const T before = row.maximum;
        row.maximum = new_maximum;
        const T maximum = finite_maximum(row.maximum);
        const std::int64_t first = row.from / n * n;
        V sum = set<Arch, T>(T(0));
        const auto weigh_keys = [&](const auto& factor) __attribute__((always_inline)) {
            for (std::int64_t key = first; key < row.to; key += n) {
                const V p = power_of_two<Arch, T>(factor(load<Arch, T>(row.s + key) - set<Arch, T>(maximum)));
                write(row.s + key, p);
                sum = sum + p;
            }
        };
        if (natural) weigh_keys([](V difference) { return difference * set<Arch, T>(log2e<T>); });
        else weigh_keys([](V difference) { return difference; });
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

    /// o += sum over the tile's keys of s[j] V[j].
    template <int count>
    void blend(Row* some, const Tile& v) const
    {
        std::int64_t c = 0;
        blend_vectors<count, chains / count>(some, v, c);
        for (; c < block.d_v; ++c) {
            for (int r = 0; r < count; ++r) {
                T sum = some[r].o[c];
                for (std::int64_t j = some[r].from; j < some[r].to; ++j)
                    sum += some[r].s[j] * widened<Arch, T>(v.rows[j * v.stride + c]);
                some[r].o[c] = sum;
            }
        }
    }

    /// Columns from c on, as many whole vectors as there are, in passes over the tile that are as wide as may be: a pass
    /// over part of each row is slow, since it jumps from row to row.
    template <int count, int vectors>
    HEADWISE_INLINE void blend_vectors(Row* some, const Tile& v, std::int64_t& c) const
    {
        for (; c + vectors * n <= block.d_v; c += vectors * n) blend_columns<count, vectors>(some, v, c);
        if constexpr (vectors > 1) blend_vectors<count, vectors / 2>(some, v, c);
    }

    /// Columns c .. c + vectors * n - 1.
    template <int count, int vectors>
    HEADWISE_INLINE void blend_columns(Row* some, const Tile& v, std::int64_t c) const
    {
        V sums[count][vectors];
        HEADWISE_UNROLL
        for (int r = 0; r < count; ++r) {
            HEADWISE_UNROLL
            for (int i = 0; i < vectors; ++i) sums[r][i] = load<Arch, T>(some[r].o + c + i * n);
        }
        for (std::int64_t j = some[0].from; j < some[0].to; ++j) {
            const E* of_key = v.rows + j * v.stride + c;
            if (count == 1 && j % n == 0) fetch_page_ahead(of_key);
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
        const double in_nats = static_cast<double>(maximum) * (natural ? 1 : 1 / log2e<double>);
        *to.log_sum_exp = static_cast<T>(VisibleKeys<Arch, T, E>(block).log_sum_exp(to, in_nats, sum, q_at));
    }
};

}  // namespace headwise::kernels
