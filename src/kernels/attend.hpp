// The fused operator on one block of query rows: score, softmax and blend for each tile of keys, with a running maximum
// and sum, so that no more than one tile of scores exists at a time.
//
//     y[i] = sum over j of softmax_j(score(i, j)) v[j]       score(i, j): AttentionOptions in attention.hpp
//
// The block's rows are cut into panels of W query tokens. The loop over key tiles is outside, that over panels inside, so
// that a tile of K and V is read from near memory by all panels. Everything a panel computes depends on its own rows
// and on the fixed grid of key tiles only, never on the block: that is why results do not depend on how the plan cuts
// the work.
//
// Excluded keys. A panel's keys run from the first to the last that any of its rows sees; what single rows do not see
// becomes -inf after the product, hence a weight of exactly 0. But 0 * NaN is NaN: if V has NaN or infinity in a row
// that some lanes exclude, the blend spoils those lanes. That is found at the end, by looking for a non-finite result in
// a panel that excluded anything, and mended by doing that panel again with V's non-finite numbers taken out of the
// product and given to just the lanes that include their key (`careful`). So the ordinary case pays nothing.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/load_rows.hpp"
#include "kernels/mask_tile.hpp"
#include "kernels/panel_rows.hpp"
#include "kernels/products.hpp"
#include "kernels/score_terms.hpp"
#include "kernels/softmax.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class Attend {
public:
    explicit Attend(const AttendBlock<T>& b)
        : block(b),
          natural(b.softcap != T(0) || b.has_alibi || gives_scores(b) ||
                  (b.has_mask && b.mask_type != ElementType::boolean))
    {
        carve(b.scratch);
    }

    /// Numbers of scratch, see carve().
    static std::int64_t scratch_size(const AttendBlock<T>& b)
    {
        Attend sizes(b, nullptr);
        return sizes.used;
    }

    void run()
    {
        std::int64_t first = block.n_kv;
        std::int64_t end = 0;
        for (std::int64_t p = 0; p < panel_count(); ++p) {
            const Panel panel = panel_at(p);
            prepare(panel);
            if (panel.first_key < first) first = panel.first_key;
            if (panel.end_key > end) end = panel.end_key;
        }
        for (std::int64_t tile = first / key_tile * key_tile; tile < end; tile += key_tile) {
            const KeyTile keys = load_key_tile(tile, first, end, false);
            for (std::int64_t p = 0; p < panel_count(); ++p) step(panel_at(p), keys, false);
        }
        for (std::int64_t p = 0; p < panel_count(); ++p) {
            const Panel panel = panel_at(p);
            if (*panel.excluded != T(0) && !finite(panel)) redo_carefully(panel);
            finish(panel);
        }
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr int panel_tokens = TileShape<Arch, T>::panel_tokens;
    static constexpr std::int64_t key_tile = TileShape<Arch, T>::key_tile;
    static constexpr T log2e = T(1.4426950408889634074);

    /// W consecutive rows of the block and their state.
    struct Panel {
        std::int64_t index;
        const AttendRow<T>* rows;
        std::int64_t row_count;
        int vectors;
        std::int64_t first_key;  ///< keys that any row sees
        std::int64_t end_key;
        T* q;  ///< d_k x W, scaled
        T* o;  ///< d_v x W, not yet normalised
        T* maximum;  ///< W
        T* sum;  ///< W
        T* started;  ///< one number: 0 until o has been written
        T* excluded;  ///< one number: not 0 once a key was excluded for some row only

        int width() const { return vectors * n; }
    };

    /// Keys [first, end) and their rows of K and V; rows of key j at (j - first) * stride.
    struct KeyTile {
        std::int64_t first;
        std::int64_t end;
        const T* k;
        std::ptrdiff_t k_stride;
        const T* v;
        std::ptrdiff_t v_stride;
        bool v_has_non_finite;  ///< careful only: v is cleaned, the originals are in block.v
    };

    const AttendBlock<T>& block;
    const bool natural;  ///< scores in natural units, else in units of log2
    std::int64_t used = 0;
    T* panels_scratch;
    T* scores_scratch;
    T* history_scratch;  ///< keeps_weights: the maximum each tile of weights was taken against
    T* mask_scratch;
    T* k_scratch;
    T* v_scratch;
    T* fix_scratch;
    T* maximum_before;
    T* correction;

    Attend(const AttendBlock<T>& b, std::nullptr_t) : block(b), natural(false) { carve(nullptr); }

    /// Scores before the softmax are wanted.
    static bool gives_scores(const AttendBlock<T>& b) { return b.score_stage >= 0 && b.score_stage < 3; }

    static std::int64_t rounded(std::int64_t numbers)
    {
        constexpr std::int64_t line = 64 / sizeof(T);
        return (numbers + line - 1) / line * line;
    }

    std::int64_t panel_count() const { return (block.row_count + panel_tokens - 1) / panel_tokens; }
    std::int64_t panel_size() const { return rounded((block.d_k + block.d_v + 2) * panel_tokens + 2); }
    std::int64_t tile_count() const { return (block.n_kv + key_tile - 1) / key_tile; }

    void carve(T* scratch)
    {
        const auto take = [&](std::int64_t numbers) {
            T* at = scratch ? scratch + used : nullptr;
            used += rounded(numbers);
            return at;
        };
        const std::int64_t tile = block.n_kv < key_tile ? block.n_kv : key_tile;
        panels_scratch = take(panel_count() * panel_size());
        scores_scratch = take((block.keeps_weights ? tile_count() * key_tile : tile) * panel_tokens);
        history_scratch = take(block.keeps_weights ? tile_count() * panel_tokens : 0);
        mask_scratch = take(block.has_mask ? tile * panel_tokens : 0);
        k_scratch = take(block.k.copied ? tile * block.d_k : 0);
        v_scratch = take(tile * block.d_v);
        fix_scratch = take(block.d_v * panel_tokens);
        maximum_before = take(panel_tokens);
        correction = take(panel_tokens);
    }

    Panel panel_at(std::int64_t index) const
    {
        Panel panel;
        panel.index = index;
        panel.rows = block.rows + index * panel_tokens;
        const std::int64_t left = block.row_count - index * panel_tokens;
        panel.row_count = left < panel_tokens ? left : panel_tokens;
        panel.vectors = static_cast<int>((panel.row_count + n - 1) / n);
        T* at = panels_scratch + index * panel_size();
        panel.q = at;
        panel.o = panel.q + block.d_k * panel_tokens;
        panel.maximum = panel.o + block.d_v * panel_tokens;
        panel.sum = panel.maximum + panel_tokens;
        panel.started = panel.sum + panel_tokens;
        panel.excluded = panel.started + 1;
        if (block.score_stage == 0 || block.score_stage == 1) {  // scores are wanted of keys that take no part, too
            panel.first_key = 0;
            panel.end_key = block.n_kv;
            return panel;
        }
        panel.first_key = block.n_kv;
        panel.end_key = 0;
        for (std::int64_t i = 0; i < panel.row_count; ++i) {
            if (panel.rows[i].first_key >= panel.rows[i].end_key) continue;
            if (panel.rows[i].first_key < panel.first_key) panel.first_key = panel.rows[i].first_key;
            if (panel.rows[i].end_key > panel.end_key) panel.end_key = panel.rows[i].end_key;
        }
        return panel;
    }

    /// q = scale * Q^T, and a state that has seen no key but the sink.
    void prepare(const Panel& panel)
    {
        const T factor = natural ? block.scale : block.scale * log2e;
        if (block.q_panels.data) {
            const T* from = block.q_panels.data + panel.index * block.q_panels.panel_stride +
                            block.q_panels.first_row * panel.width();
            for (std::int64_t i = 0; i < block.d_k * panel.width(); i += n)
                write(panel.q + i, load<Arch, T>(from + i) * set<Arch, T>(factor));
        } else {
            const E* from[panel_tokens];
            for (std::int64_t i = 0; i < panel.row_count; ++i) from[i] = static_cast<const E*>(panel.rows[i].q);
            gather_panel<Arch, T, E>(panel.q, panel.vectors, from, panel.row_count, block.q_stride, block.d_k, factor);
        }
        reset(panel);
        if (!block.work) return;
        std::int64_t pairs = 0;
        for (std::int64_t i = 0; i < panel.row_count; ++i) {
            const std::int64_t keys = panel.rows[i].end_key - panel.rows[i].first_key;
            if (keys > 0) pairs += keys;
        }
        block.work->useful.score += pairs * block.d_k;
        block.work->useful.exponentials += pairs;
        block.work->useful.blend += pairs * block.d_v;
    }

    void reset(const Panel& panel)
    {
        for (int i = 0; i < panel.width(); ++i) {
            const bool has_sink = block.has_sinks && i < panel.row_count;
            panel.maximum[i] = has_sink ? panel.rows[i].sink * (natural ? T(1) : log2e) : -infinity<T>;
            panel.sum[i] = panel.maximum[i] == -infinity<T> ? T(0) : T(1);
        }
        *panel.started = T(0);
        *panel.excluded = T(0);
    }

    /// The part of the tile that begins at key `tile` and lies in [first, end).
    KeyTile load_key_tile(std::int64_t tile, std::int64_t first, std::int64_t end, bool careful)
    {
        KeyTile keys;
        keys.first = tile < first ? first : tile;
        keys.end = tile + key_tile < end ? tile + key_tile : end;
        keys.k = rows_of(block.k, keys, block.d_k, block.k.copied, k_scratch, keys.k_stride);
        keys.v = rows_of(block.v, keys, block.d_v, block.v.copied || careful, v_scratch, keys.v_stride);
        keys.v_has_non_finite = false;
        if (careful) {
            for (std::int64_t i = 0; i < (keys.end - keys.first) * block.d_v; ++i) {
                if (v_scratch[i] - v_scratch[i] == T(0)) continue;
                v_scratch[i] = T(0);
                keys.v_has_non_finite = true;
            }
        }
        return keys;
    }

    const T* rows_of(const AttendMatrix& matrix, const KeyTile& keys, std::int64_t width, bool copied, T* scratch,
                     std::ptrdiff_t& stride) const
    {
        stride = copied ? width : matrix.row_stride;
        if (!copied) return static_cast<const T*>(matrix.data) + keys.first * matrix.row_stride;
        load_rows<Arch, T, E>(scratch, matrix, keys.first, keys.end - keys.first, width);
        return scratch;
    }

    /// One tile of keys for one panel.
    void step(const Panel& panel, const KeyTile& keys, bool careful)
    {
        ScoreTile<T> tile;
        tile.first = keys.first < panel.first_key ? panel.first_key : keys.first;
        const std::int64_t end = keys.end < panel.end_key ? keys.end : panel.end_key;
        if (tile.first >= end) return;
        tile.keys = end - tile.first;
        tile.vectors = panel.vectors;
        tile.rows = panel.rows;
        tile.row_count = panel.row_count;
        const std::int64_t index = tile.first / key_tile;
        tile.s = scores_scratch + (block.keeps_weights ? index * key_tile * panel_tokens : 0);

        MaskKind mask = MaskKind::open;
        if (block.has_mask) {
            const MaskTile<Arch, T> bias{panel.rows, panel.row_count, block.mask_type, block.mask_stride,
                                         panel.vectors};
            std::int64_t covered = block.mask_keys - tile.first;
            covered = covered < 0 ? 0 : covered > tile.keys ? tile.keys : covered;
            bias.load(mask_scratch, tile.first, covered);
            for (std::int64_t i = covered * panel.width(); i < tile.keys * panel.width(); ++i)
                mask_scratch[i] = -infinity<T>;
            mask = bias.kind(mask_scratch, tile.keys);
        }
        if (mask == MaskKind::excluded && !gives_scores(block)) {
            if (block.keeps_weights)
                for (std::int64_t i = 0; i < tile.keys * panel.width(); ++i) tile.s[i] = T(0);
        } else {
            compute(panel, keys, tile, mask, careful);
        }
        if (block.keeps_weights)
            for (int i = 0; i < panel.width(); ++i) history_scratch[index * panel_tokens + i] = panel.maximum[i];
    }

    void compute(const Panel& panel, const KeyTile& keys, const ScoreTile<T>& tile, MaskKind mask, bool careful)
    {
        for (int i = 0; i < panel.width(); i += n) write(maximum_before + i, load<Arch, T>(panel.maximum + i));

        const CommonKeys common = common_keys<Arch, T>(tile);
        const bool bounded = common.all_from > 0 || common.all_to < tile.keys;
        const bool plain =
            !bounded && mask == MaskKind::open && block.softcap == T(0) && !block.has_alibi && !gives_scores(block);
        const T* k = keys.k + (tile.first - keys.first) * keys.k_stride;
        const Product<T> scores{k, keys.k_stride, 1, panel.q, tile.s, tile.keys, block.d_k, panel.vectors};
        score<Arch, T>(scores, plain ? panel.maximum : correction);  // correction: not in use yet
        if (!plain) {
            if (block.score_stage == 0) give_scores(panel, tile);
            if (block.softcap != T(0)) apply_softcap<Arch, T>(tile, block.softcap);
            if (block.score_stage == 1) give_scores(panel, tile);
            if (block.has_alibi) add_alibi<Arch, T>(tile);
            if (mask != MaskKind::open) add_mask<Arch, T>(tile, mask_scratch);
            if (bounded) exclude_keys<Arch, T>(tile, common);
            if (block.score_stage == 2) give_scores(panel, tile);
            raise_maximum<Arch, T>(tile, panel.maximum);
            if (bounded || mask != MaskKind::open) *panel.excluded = T(1);
        }
        if (careful && keys.v_has_non_finite) add_non_finite(panel, tile);

        const SoftmaxState<T> state{maximum_before, panel.maximum, panel.sum, correction};
        if (natural) softmax_natural<Arch, T>(tile.s, tile.keys, panel.vectors, state);
        else softmax<Arch, T>(tile.s, tile.keys, panel.vectors, state);

        const T* v = keys.v + (tile.first - keys.first) * keys.v_stride;
        const Product<T> weighted{v, 1, keys.v_stride, tile.s, panel.o, block.d_v, tile.keys, panel.vectors};
        blend<Arch, T>(weighted, *panel.started != T(0) ? correction : nullptr);
        *panel.started = T(1);

        if (!block.work) return;
        const std::int64_t pairs = tile.keys * panel.width();
        block.work->issued.score += pairs * block.d_k;
        block.work->issued.exponentials += pairs + panel.width();
        block.work->issued.blend += pairs * block.d_v;
    }

    void give_scores(const Panel& panel, const ScoreTile<T>& tile) const
    {
        alignas(64) T ones[panel_tokens];
        for (T& one : ones) one = T(1);
        give<&AttendRow<T>::scores>(panel, tile.s, tile.first, tile.keys, block.scores_stride, ones);
    }

    bool finite(const Panel& panel) const
    {
        for (std::int64_t c = 0; c < block.d_v; ++c)
            for (std::int64_t i = 0; i < panel.row_count; ++i) {
                const T x = panel.o[c * panel.width() + i];
                if (*panel.started != T(0) && !(x - x == T(0))) return false;
            }
        return true;
    }

    void redo_carefully(const Panel& panel)
    {
        reset(panel);
        for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) fix_scratch[i] = T(0);
        for (std::int64_t tile = panel.first_key / key_tile * key_tile; tile < panel.end_key; tile += key_tile)
            step(panel, load_key_tile(tile, panel.first_key, panel.end_key, true), true);
        for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) panel.o[i] += fix_scratch[i];
    }

    /// fix[c][lane] += V(key, c) for each number of V that is not finite and each lane whose row includes its key: the
    /// product with its weight would be the same NaN or infinity.
    void add_non_finite(const Panel& panel, const ScoreTile<T>& tile)
    {
        const E* v = static_cast<const E*>(block.v.data);
        for (std::int64_t key = 0; key < tile.keys; ++key)
            for (std::int64_t c = 0; c < block.d_v; ++c) {
                const T x = widened<Arch, T>(v[(tile.first + key) * block.v.row_stride + c * block.v.column_stride]);
                if (x - x == T(0)) continue;
                for (std::int64_t i = 0; i < panel.row_count; ++i)
                    if (tile.s[key * panel.width() + i] != -infinity<T>) fix_scratch[c * panel.width() + i] += x;
            }
    }

    /// Normalises and hands out what was asked for.
    void finish(const Panel& panel)
    {
        alignas(64) T inverse[panel_tokens];
        for (int i = 0; i < panel.width(); ++i) inverse[i] = panel.sum[i] == T(0) ? T(0) : T(1) / panel.sum[i];
        if (*panel.started == T(0))
            for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) panel.o[i] = T(0);
        if (block.y_panels.data) {
            T* to = block.y_panels.data + panel.index * block.y_panels.panel_stride +
                    block.y_panels.first_row * panel.width();
            for (std::int64_t c = 0; c < block.d_v * panel.width(); c += panel.width())
                for (int i = 0; i < panel.width(); i += n)
                    write(to + c + i, load<Arch, T>(panel.o + c + i) * load<Arch, T>(inverse + i));
        } else {
            give<&AttendRow<T>::y>(panel, panel.o, 0, block.d_v, block.y_stride, inverse);
        }
        if (block.keeps_weights) give_weights(panel, inverse);
        if (block.score_stage == 2) give_excluded_scores(panel);
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            if (panel.rows[i].log_sum_exp)
                *panel.rows[i].log_sum_exp =
                    static_cast<T>(static_cast<double>(panel.maximum[i]) * (natural ? 1.0 : 0.69314718055994530942) +
                                   __builtin_log(static_cast<double>(panel.sum[i])));
    }

    /// Scores of keys that no row of the panel sees.
    void give_excluded_scores(const Panel& panel) const
    {
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            for (std::int64_t key = 0; key < block.n_kv; ++key)
                if (key < panel.first_key || key >= panel.end_key)
                    static_cast<E*>(panel.rows[i].scores)[key * block.scores_stride] = static_cast<E>(-infinity<T>);
    }

    /// Each tile's weights were taken against the maximum of that time: they are brought to the last one.
    void give_weights(const Panel& panel, const T* inverse) const
    {
        alignas(64) T factor[panel_tokens];
        const auto exclude = [&](std::int64_t first, std::int64_t end) {
            for (std::int64_t i = 0; i < panel.row_count && first < end; ++i)
                exclude_weights(panel.rows[i], first, end);
        };
        exclude(0, panel.first_key < panel.end_key ? panel.first_key : 0);
        exclude(panel.end_key, block.n_kv);
        for (std::int64_t tile = panel.first_key / key_tile * key_tile; tile < panel.end_key; tile += key_tile) {
            const std::int64_t index = tile / key_tile;
            const std::int64_t first = tile < panel.first_key ? panel.first_key : tile;
            const std::int64_t end = tile + key_tile < panel.end_key ? tile + key_tile : panel.end_key;
            for (int i = 0; i < panel.width(); i += n) {
                const auto maximum = load<Arch, T>(panel.maximum + i);
                const auto minus_infinity = set<Arch, T>(-infinity<T>);
                const auto last = xsimd::select(maximum == minus_infinity, set<Arch, T>(T(0)), maximum);
                const auto power = (load<Arch, T>(history_scratch + index * panel_tokens + i) - last) *
                                   set<Arch, T>(natural ? log2e : T(1));
                write(factor + i, power_of_two<Arch, T>(power) * load<Arch, T>(inverse + i));
            }
            const T* s = scores_scratch + index * key_tile * panel_tokens;
            const std::int64_t keys = end - first;
            if (panel.rows->weights) give<&AttendRow<T>::weights>(panel, s, first, keys, block.weights_stride, factor);
            if (block.score_stage == 3) give<&AttendRow<T>::scores>(panel, s, first, keys, block.scores_stride, factor);
            if (!panel.rows->mean_weights) continue;
            for (int i = 0; i < panel.width(); ++i) factor[i] *= block.mean_factor;
            if (block.adds_to_mean)
                give<&AttendRow<T>::mean_weights, true>(panel, s, first, keys, block.mean_weights_stride, factor);
            else give<&AttendRow<T>::mean_weights>(panel, s, first, keys, block.mean_weights_stride, factor);
        }
    }

    /// For each row i of the panel and k < depth: element first + k of the output that `output` points to becomes (or
    /// grows by) factor[i] * from[k][i].
    template <void* AttendRow<T>::* output, bool adds = false>
    void give(const Panel& panel, const T* from, std::int64_t first, std::int64_t depth, std::ptrdiff_t stride,
              const T* factor) const
    {
        E* to[panel_tokens];
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            to[i] = static_cast<E*>(panel.rows[i].*output) + first * stride;
        scatter_panel<Arch, T, E, adds>(from, panel.vectors, to, panel.row_count, stride, depth, factor);
    }

    /// Weights of keys [first, end), which no row of the panel sees.
    void exclude_weights(const AttendRow<T>& row, std::int64_t first, std::int64_t end) const
    {
        const auto fill = [&](void* to, std::ptrdiff_t stride) {
            if (to)
                for (std::int64_t key = first; key < end; ++key)
                    static_cast<E*>(to)[key * stride] = static_cast<E>(T(0));
        };
        fill(row.weights, block.weights_stride);
        if (!block.adds_to_mean) fill(row.mean_weights, block.mean_weights_stride);
        if (block.score_stage == 3) fill(row.scores, block.scores_stride);
    }
};

template <class Arch, class T, class E>
void attend(const AttendBlock<T>& block)
{
    Attend<Arch, T, E>(block).run();
}

template <class Arch, class T>
std::int64_t attend_scratch(const AttendBlock<T>& block)
{
    return Attend<Arch, T, T>::scratch_size(block);
}

}  // namespace headwise::kernels
