// The fused operator on one block of query rows: score, softmax and blend for each tile of keys, with a running maximum
// and sum, so that no more than one tile of scores exists at a time.
//
//     y[i] = sum over j of softmax_j(score(i, j)) v[j]       score(i, j): AttentionOptions in attention.hpp
//
// The block's rows are cut into panels of W query tokens, fewer where that pays (rows_of_panel). The loop over key
// tiles is outside, that over panels inside, so that a tile of K and V is read from near memory by all panels. What a
// row computes depends on its own keys and on the fixed grid of key tiles only, never on the block or on the panel's
// other rows: keys that only those see have the weight 0. That is why results do not depend on how the plan cuts the
// work, nor on how wide the panels are.
//
// Excluded keys. A panel's keys run from the first to the last that any of its rows sees; what single rows do not see
// becomes -inf after the product, hence a weight of exactly 0. But 0 * NaN is NaN: if V has NaN or infinity in a row
// that some lanes exclude, the blend spoils those lanes. That is found at the end, by looking for a non-finite result in
// a panel that excluded anything, and mended by doing that panel again with V's non-finite numbers taken out of the
// product and given to just the lanes that include their key (`careful`). So the ordinary case pays nothing.
#pragma once

#include "kernels/attend_few.hpp"
#include "kernels/attend_outputs.hpp"
#include "kernels/load_rows.hpp"
#include "kernels/mask_rows.hpp"
#include "kernels/products.hpp"
#include "kernels/read_ahead.hpp"
#include "kernels/score_terms.hpp"
#include "kernels/softmax.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class Attend {
public:
    explicit Attend(const AttendBlock<T>& b)
        : block(b),
          scratch(b, b.scratch, rows_of_panel<Arch, T>(b)),
          outputs(b, scratch),
          fetches_tiles(worth_fetching(b, scratch.key_tile))
    {
    }

    void run()
    {
        std::int64_t first = block.n_kv;
        std::int64_t end = 0;
        for (std::int64_t p = 0; p < scratch.panel_count(); ++p) {
            const Panel<Arch, T> panel = scratch.panel(p);
            prepare(panel);
            if (panel.state->first_key < first) first = panel.state->first_key;
            if (panel.state->end_key > end) end = panel.state->end_key;
        }
        const std::int64_t key_tile = scratch.key_tile;
        for (std::int64_t tile = first / key_tile * key_tile; tile < end; tile += key_tile) {
            const KeyTile keys = load_key_tile(tile, first, end, false);
            look_ahead(keys, end);
            for (std::int64_t p = 0; p < scratch.panel_count(); ++p) step(scratch.panel(p), keys, false);
            ahead.take_rest();  // of panels that had no key in this tile
        }
        for (std::int64_t p = 0; p < scratch.panel_count(); ++p) {
            const Panel<Arch, T> panel = scratch.panel(p);
            if (panel.state->excluded && !finite(panel)) redo_carefully(panel);
            outputs.finish(panel);
        }
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr std::int64_t rows_of_register_tile = TileShape<Arch, T>::rows(TileShape<Arch, T>::max_vectors);
    static constexpr std::int64_t near_bytes = 128 << 10;
    static constexpr std::int64_t max_tile_bytes = 192 << 10;

    /// Keys [first, end) and their rows of K and V; rows of key j at (j - first) * stride.
    struct KeyTile {
        std::int64_t of_grid;  ///< where the whole tile begins: a multiple of key_tile
        std::int64_t first;
        std::int64_t end;
        const T* k;
        std::ptrdiff_t k_stride;
        const T* v;
        std::ptrdiff_t v_stride;
        bool v_was_cleaned;  ///< careful only: v had numbers that are not finite, and has zeros in their place
    };

    const AttendBlock<T>& block;
    const AttendScratch<Arch, T> scratch;
    const AttendOutputs<Arch, T, E> outputs;
    const bool fetches_tiles;
    ReadAhead<Arch> ahead;

    /// q = scale * Q^T, and a state that has seen no key but the sink.
    void prepare(const Panel<Arch, T>& panel)
    {
        const T factor = block.natural ? block.scale : block.scale * log2e<T>;
        if (block.q_panels.data) {
            const T* from = block.q_panels.data + panel.index * block.q_panels.panel_stride +
                            block.q_panels.first_row * panel.width();
            for (std::int64_t i = 0; i < block.d_k * panel.width(); i += n)
                write(panel.q + i, load<Arch, T>(from + i) * set<Arch, T>(factor));
        } else {
            const E* from[TileShape<Arch, T>::panel_tokens];
            for (std::int64_t i = 0; i < panel.row_count; ++i) from[i] = static_cast<const E*>(panel.rows[i].q);
            gather_panel<Arch, T, E>(panel.q, panel.vectors, from, panel.row_count, block.q_stride, block.d_k, factor);
        }
        scratch.find_keys(panel);
        reset(panel);
        if (block.work) count_useful(panel);
    }

    void count_useful(const Panel<Arch, T>& panel)
    {
        const VisibleKeys<Arch, T, E> visible(block);
        std::int64_t pairs = 0;
        for (std::int64_t i = 0; i < panel.row_count; ++i) pairs += visible.count(panel.rows[i]);
        block.work->useful.score += (block.gives_every_score() ? panel.row_count * block.n_kv : pairs) * block.d_k;
        block.work->useful.exponentials += pairs;
        block.work->useful.blend += pairs * block.d_v;
    }

    void reset(const Panel<Arch, T>& panel)
    {
        for (int i = 0; i < panel.width(); i += n) {
            write(panel.maximum + i, set<Arch, T>(-infinity<T>));
            write(panel.sum + i, set<Arch, T>(T(0)));
        }
        for (std::int64_t i = 0; block.has_sinks && i < panel.row_count; ++i) {
            panel.maximum[i] = panel.rows[i].sink * (block.natural ? T(1) : log2e<T>);
            panel.sum[i] = panel.maximum[i] == -infinity<T> ? T(0) : T(1);
        }
        panel.state->started = false;
        panel.state->excluded = false;
    }

    /// While the panels use a tile, the next one is fetched; during the last one, what the plan has named.
    void look_ahead(const KeyTile& keys, std::int64_t end)
    {
        constexpr std::int64_t rows = rows_of_register_tile;
        const std::int64_t tiles_of_panel = (keys.end - keys.first + rows - 1) / rows + (block.d_v + rows - 1) / rows;
        ahead.start(tiles_of_panel * scratch.panel_count());
        const auto add = [&](const AttendMatrix& matrix, std::int64_t from, std::int64_t to, std::int64_t width) {
            ahead.add(rows_in_memory<E>(matrix, from, to - from, width));
        };
        const std::int64_t end_of_next = end - keys.end < scratch.key_tile ? end : keys.end + scratch.key_tile;
        // One panel comes to the tile's V when it has scored all of K, and so late that V can still be fetched.
        const bool v_is_next = scratch.panel_count() == 1;
        if (fetches_tiles) {
            if (v_is_next) add(block.v, keys.first, keys.end, block.d_v);
            if (keys.end < end) add(block.k, keys.end, end_of_next, block.d_k);
            if (keys.end < end && !v_is_next) add(block.v, keys.end, end_of_next, block.d_v);
        }
        if (keys.end < end) return;
        for (const MemoryRows& piece : block.ahead) ahead.add(piece);
    }

    /// Whether fetching tiles pays: not for one panel, which goes through them in one stream, unless they come from
    /// memory; not where K and V stay in the second-level cache, nor where it has no room for two tiles.
    static bool worth_fetching(const AttendBlock<T>& b, std::int64_t key_tile)
    {
        const std::int64_t bytes_of_key = (b.d_k + b.d_v) * std::int64_t{sizeof(E)};
        return (b.far || b.row_count > TileShape<Arch, T>::panel_tokens) && b.n_kv * bytes_of_key > near_bytes &&
               key_tile * bytes_of_key <= max_tile_bytes;
    }

    /// The part of the tile that begins at key `tile` and lies in [first, end).
    KeyTile load_key_tile(std::int64_t tile, std::int64_t first, std::int64_t end, bool careful)
    {
        KeyTile keys;
        keys.of_grid = tile;
        keys.first = tile < first ? first : tile;
        keys.end = tile + scratch.key_tile < end ? tile + scratch.key_tile : end;
        keys.k = rows_of(block.k, keys, block.d_k, block.k.copied, scratch.k, keys.k_stride);
        keys.v = rows_of(block.v, keys, block.d_v, block.v.copied || careful, scratch.v, keys.v_stride);
        keys.v_was_cleaned = false;
        if (careful) {
            for (std::int64_t i = 0; i < (keys.end - keys.first) * block.d_v; ++i) {
                if (scratch.v[i] - scratch.v[i] == T(0)) continue;
                scratch.v[i] = T(0);
                keys.v_was_cleaned = true;
            }
        }
        return keys;
    }

    const T* rows_of(const AttendMatrix& matrix, const KeyTile& keys, std::int64_t width, bool copied, T* copy,
                     std::ptrdiff_t& stride) const
    {
        stride = copied ? width : matrix.row_stride;
        if (!copied) return static_cast<const T*>(matrix.data) + keys.first * matrix.row_stride;
        load_rows<Arch, T, E>(copy, matrix, keys.first, keys.end - keys.first, width);
        return copy;
    }

    /// One tile of keys for one panel.
    void step(const Panel<Arch, T>& panel, const KeyTile& keys, bool careful)
    {
        ScoreTile<T> tile;
        tile.of_grid = keys.of_grid;
        tile.first = keys.first < panel.state->first_key ? panel.state->first_key : keys.first;
        const std::int64_t end = keys.end < panel.state->end_key ? keys.end : panel.state->end_key;
        if (tile.first >= end) return;
        tile.keys = end - tile.first;
        tile.vectors = panel.vectors;
        tile.rows = panel.rows;
        tile.row_count = panel.row_count;
        const std::int64_t index = block.keeps_weights ? keys.of_grid / scratch.key_tile : 0;
        tile.s = scratch.tile_scores(panel, index);

        const MaskKind mask = block.has_mask ? mask_of(panel).kind(tile.first, covered(tile)) : MaskKind::open;
        if (mask == MaskKind::excluded && !block.gives_scores_before_softmax()) {
            if (block.keeps_weights)
                for (std::int64_t i = 0; i < tile.keys * panel.width(); ++i) tile.s[i] = T(0);
        } else {
            compute(panel, keys, tile, mask, careful);
        }
        if (block.keeps_weights)
            for (int i = 0; i < panel.width(); ++i) scratch.history(panel, index)[i] = panel.maximum[i];
    }

    MaskRows<Arch, T> mask_of(const Panel<Arch, T>& panel) const
    {
        return {panel.rows, panel.row_count, block.mask_type, block.mask_stride};
    }

    /// Keys of the tile that the mask has elements for; the rest is past every row's end_key.
    std::int64_t covered(const ScoreTile<T>& tile) const { return clamped(block.mask_keys - tile.first, tile.keys); }

    static std::int64_t clamped(std::int64_t key, std::int64_t keys) { return key < 0 ? 0 : key > keys ? keys : key; }

    void compute(const Panel<Arch, T>& panel, const KeyTile& keys, const ScoreTile<T>& tile, MaskKind mask,
                 bool careful)
    {
        for (int i = 0; i < panel.width(); i += n) write(scratch.maximum_before + i, load<Arch, T>(panel.maximum + i));
        const std::int64_t all_from = clamped(panel.state->all_from - tile.first, tile.keys);
        const std::int64_t all_to = clamped(panel.state->all_to - tile.first, tile.keys);
        if (all_from > 0 || all_to < tile.keys || mask != MaskKind::open) panel.state->excluded = true;

        const bool plain = mask == MaskKind::open && block.softcap == T(0) && !block.has_alibi &&
                           !block.gives_scores_before_softmax();
        if (plain) {
            // Cut at whole register tiles, since small ones are slow.
            constexpr std::int64_t rows = rows_of_register_tile;
            const std::int64_t from = clamped((all_from + rows - 1) / rows * rows, tile.keys);
            const std::int64_t to =
                all_to == tile.keys || all_to <= from ? all_to : from + (all_to - from) / rows * rows;
            score_bounded(panel, keys, part_of<Arch, T>(tile, 0, from));
            if (to > from) score_keys(panel, keys, part_of<Arch, T>(tile, from, to), panel.maximum);
            score_bounded(panel, keys, part_of<Arch, T>(tile, to > from ? to : from, tile.keys));
        } else {
            score_keys(panel, keys, tile, scratch.correction);  // not in use yet: this maximum is not the one wanted
            add_terms(panel, tile, mask, all_from, all_to);
        }
        if (careful && keys.v_was_cleaned) add_non_finite(panel, tile);

        const SoftmaxState<T> state{scratch.maximum_before, panel.maximum, panel.sum, scratch.correction};
        if (block.natural) softmax_natural<Arch, T>(tile.s, tile.keys, panel.vectors, state);
        else softmax<Arch, T>(tile.s, tile.keys, panel.vectors, state);

        const T* v = keys.v + (tile.first - keys.first) * keys.v_stride;
        const Product<T> weighted{v, 1, keys.v_stride, tile.s, panel.o, block.d_v, tile.keys, panel.vectors};
        blend<Arch, T>(weighted, panel.state->started ? scratch.correction : nullptr, [&] { ahead.take_turn(); });
        panel.state->started = true;

        if (!block.work) return;
        const std::int64_t pairs = tile.keys * panel.width();
        block.work->issued.score += pairs * block.d_k;
        block.work->issued.exponentials += pairs + panel.width();
        block.work->issued.blend += pairs * block.d_v;
    }

    /// s = the products of keys and queries, and their maximum.
    void score_keys(const Panel<Arch, T>& panel, const KeyTile& keys, const ScoreTile<T>& tile, T* maximum)
    {
        const T* k = keys.k + (tile.first - keys.first) * keys.k_stride;
        score<Arch, T>({k, keys.k_stride, 1, panel.q, tile.s, tile.keys, block.d_k, panel.vectors}, maximum,
                       [&] { ahead.take_turn(); });
    }

    /// The same for keys that some rows do not see.
    void score_bounded(const Panel<Arch, T>& panel, const KeyTile& keys, const ScoreTile<T>& tile)
    {
        if (tile.keys == 0) return;
        score_keys(panel, keys, tile, scratch.correction);
        exclude_keys<Arch, T>(tile, panel.maximum);
    }

    /// Everything between the product and the softmax; hands out the scores of whichever stage is wanted.
    void add_terms(const Panel<Arch, T>& panel, const ScoreTile<T>& tile, MaskKind mask, std::int64_t all_from,
                   std::int64_t all_to) const
    {
        const bool bounded = all_from > 0 || all_to < tile.keys;
        if (block.gives(ScoreStage::scaled)) outputs.give_scores(panel, tile.s, tile.first, tile.keys);
        if (block.softcap != T(0)) apply_softcap<Arch, T>(tile, block.softcap);
        if (block.gives(ScoreStage::softcapped)) outputs.give_scores(panel, tile.s, tile.first, tile.keys);
        if (block.has_alibi) add_alibi<Arch, T>(tile);
        if (mask != MaskKind::open)
            mask_of(panel).add(part_of<Arch, T>(tile, 0, covered(tile)), bounded ? nullptr : panel.maximum);
        exclude_keys<Arch, T>(part_of<Arch, T>(tile, 0, all_from));
        exclude_keys<Arch, T>(part_of<Arch, T>(tile, all_to, tile.keys));
        if (block.gives(ScoreStage::biased)) outputs.give_scores(panel, tile.s, tile.first, tile.keys);
        if (bounded || mask == MaskKind::open) raise_maximum<Arch, T>(tile, panel.maximum);
    }

    /// Whether every number of o is, in the lanes of rows.
    bool finite(const Panel<Arch, T>& panel) const
    {
        if (!panel.state->started) return true;
        using V = Vec<Arch, T>;
        constexpr int chains = 8;  // side by side, to hide the latency of the additions
        const V zero = set<Arch, T>(T(0));
        for (int lane = 0; lane < panel.width(); lane += n) {
            V products[chains];  // sums of each number times 0: 0, or NaN
            for (V& product : products) product = zero;
            const T* o = panel.o + lane;
            std::int64_t c = 0;
            for (; c + chains <= block.d_v; c += chains, o += chains * panel.width()) {
                HEADWISE_UNROLL
                for (int i = 0; i < chains; ++i)
                    products[i] = multiply_add(load<Arch, T>(o + i * panel.width()), zero, products[i]);
            }
            for (; c < block.d_v; ++c, o += panel.width())
                products[0] = multiply_add(load<Arch, T>(o), zero, products[0]);
            HEADWISE_UNROLL
            for (int i = 1; i < chains; ++i) products[0] = products[0] + products[i];
            alignas(64) T sums[n];
            write(sums, products[0]);
            for (int i = 0; i < n && lane + i < panel.row_count; ++i)
                if (sums[i] != T(0)) return false;
        }
        return true;
    }

    void redo_carefully(const Panel<Arch, T>& panel)
    {
        reset(panel);
        for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) scratch.non_finite[i] = T(0);
        const auto& range = *panel.state;
        const std::int64_t key_tile = scratch.key_tile;
        for (std::int64_t tile = range.first_key / key_tile * key_tile; tile < range.end_key; tile += key_tile)
            step(panel, load_key_tile(tile, range.first_key, range.end_key, true), true);
        for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) panel.o[i] += scratch.non_finite[i];
    }

    /// fix[c][lane] += V(key, c) for each number of V that is not finite and each lane whose row includes its key: the
    /// product with its weight would be the same NaN or infinity.
    void add_non_finite(const Panel<Arch, T>& panel, const ScoreTile<T>& tile)
    {
        const VisibleKeys<Arch, T, E> visible(block);
        const E* v = static_cast<const E*>(block.v.data);
        for (std::int64_t key = 0; key < tile.keys; ++key)
            for (std::int64_t c = 0; c < block.d_v; ++c) {
                const T x = widened<Arch, T>(v[(tile.first + key) * block.v.row_stride + c * block.v.column_stride]);
                if (x - x == T(0)) continue;
                for (std::int64_t i = 0; i < panel.row_count; ++i) {
                    if (!visible.sees(panel.rows[i], tile.first + key)) continue;
                    // A key that takes part with a score of -inf has the weight 0, and 0 * inf is NaN.
                    const bool weightless = tile.s[key * panel.width() + i] == -infinity<T>;
                    scratch.non_finite[c * panel.width() + i] += weightless ? x * T(0) : x;
                }
            }
    }
};

template <class Arch, class T, class E>
void attend(const AttendBlock<T>& block)
{
    if (block.merged_chunks > 0) AttendFew<Arch, T, E>(block).merge();
    else if (AttendFew<Arch, T, E>::takes(block)) AttendFew<Arch, T, E>(block).run();
    else Attend<Arch, T, E>(block).run();
}

template <class Arch, class T>
bool attends_few(const AttendBlock<T>& block)
{
    return AttendFew<Arch, T, T>::takes(block);
}

template <class Arch, class T>
std::int64_t attend_scratch(const AttendBlock<T>& block)
{
    using Shape = TileShape<Arch, T>;
    std::int64_t most = AttendFew<Arch, T, T>::size(block);
    for (const std::int64_t rows : {Shape::panel_tokens, Shape::lanes}) {
        const std::int64_t panels = AttendScratch<Arch, T>(block, nullptr, rows).size();
        most = panels > most ? panels : most;
    }
    return most;
}

}  // namespace headwise::kernels
