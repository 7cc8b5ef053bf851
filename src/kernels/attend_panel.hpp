// The state of a block of query rows while the fused kernel runs: its panels, and how they lie in the scratch memory.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// Rows of a full panel of the block: those of W tokens, or of one vector where that spares more than it costs. A panel
/// computes what any of its rows sees, so the further their bounds are apart, the more of it is in vain: half of that
/// distance for each row, half as much in a panel half as wide. (Zen 4, AVX-512, causal, d_k 64: n 33 to 64 1.09 to 1.14
/// times as fast, n 128 1.08, n 256 1.04, n 512 1.00 to 1.01; d_k 8 and 16, whose time is not the products', n 1024 1.05.)
template <class Arch, class T>
std::int64_t rows_of_panel(const AttendBlock<T>& b)
{
    using Shape = TileShape<Arch, T>;
    constexpr std::int64_t least_share = 5;  // a distance of a fifth of the keys
    if (!Shape::narrow_is_cheap || b.row_count <= Shape::lanes || b.q_panels.data || b.has_mean)
        return Shape::panel_tokens;
    const AttendRow<T>& first = b.rows[0];
    const AttendRow<T>& last = b.rows[b.row_count - 1];
    const std::int64_t keys = (first.end_key - first.first_key + last.end_key - last.first_key) / 2;
    const std::int64_t apart = last.end_key - first.end_key + last.first_key - first.first_key;  // of the whole block
    const std::int64_t panels = (b.row_count + Shape::panel_tokens - 1) / Shape::panel_tokens;
    const bool small_heads = b.d_k + b.d_v <= 2 * Shape::lanes;
    const bool narrow = apart > 0 && (small_heads || apart * least_share >= keys * panels);
    return narrow ? Shape::lanes : Shape::panel_tokens;
}

/// As many consecutive rows of the block as a panel has, and their state.
template <class Arch, class T>
struct Panel {
    std::int64_t index;
    const AttendRow<T>* rows;
    std::int64_t row_count;
    int vectors;
    T* q;        ///< d_k x W, scaled
    T* o;        ///< d_v x W, not yet normalised
    T* maximum;  ///< W
    T* sum;      ///< W
    struct State {
        std::int64_t first_key;  ///< keys that any row sees
        std::int64_t end_key;
        std::int64_t all_from;  ///< keys that every row sees, all_from <= all_to
        std::int64_t all_to;
        bool started;   ///< o has been written
        bool excluded;  ///< a key was excluded for some row, and not for all
    };
    State* state;

    int width() const { return vectors * lanes_of<Arch, T>; }
};

/// The scratch memory of one block, whose panels have `rows_of_panel` rows. A first pass without memory finds how much
/// there is to be.
template <class Arch, class T>
class AttendScratch {
public:
    const std::int64_t key_tile;
    const std::int64_t panel_tokens;

    AttendScratch(const AttendBlock<T>& b, T* memory, std::int64_t rows_of_panel)
        : key_tile(TileShape<Arch, T>::key_tile(b.d_k, b.d_v)),
          panel_tokens(rows_of_panel),
          block(b)
    {
        const auto take = [&](std::int64_t numbers) {
            T* at = memory ? memory + numbers_used : nullptr;
            numbers_used += rounded(numbers);
            return at;
        };
        const std::int64_t tile = block.n_kv < key_tile ? block.n_kv : key_tile;
        tiles = (block.n_kv + key_tile - 1) / key_tile;
        means = take(block.has_mean ? panel_count() * tiles * key_tile * panel_tokens : 0);
        panels = take(panel_count() * panel_size());
        scores = take((block.keeps_weights ? panel_count() * tiles * key_tile : tile) * panel_tokens);
        maxima = take(block.keeps_weights ? panel_count() * tiles * panel_tokens : 0);
        k = take(block.k.copied ? tile * block.d_k : 0);
        v = take(tile * block.d_v);
        non_finite = take(block.d_v * panel_tokens);
        maximum_before = take(panel_tokens);
        correction = take(panel_tokens);
    }

    std::int64_t size() const { return numbers_used; }

    std::int64_t panel_count() const { return (block.row_count + panel_tokens - 1) / panel_tokens; }

    Panel<Arch, T> panel(std::int64_t index) const
    {
        Panel<Arch, T> p;
        p.index = index;
        p.rows = block.rows + index * panel_tokens;
        const std::int64_t left = block.row_count - index * panel_tokens;
        p.row_count = left < panel_tokens ? left : panel_tokens;
        p.vectors = static_cast<int>((p.row_count + lanes_of<Arch, T> - 1) / lanes_of<Arch, T>);
        p.q = panels + index * panel_size();
        p.o = p.q + block.d_k * panel_tokens;
        p.maximum = p.o + block.d_v * panel_tokens;
        p.sum = p.maximum + panel_tokens;
        p.state = reinterpret_cast<typename Panel<Arch, T>::State*>(p.sum + panel_tokens);
        return p;
    }

    /// The key ranges of the panel's state.
    void find_keys(const Panel<Arch, T>& p) const
    {
        auto& state = *p.state;
        state.first_key = block.n_kv;
        state.end_key = 0;
        state.all_from = 0;
        state.all_to = block.n_kv;
        for (std::int64_t i = 0; i < p.row_count; ++i) {
            const std::int64_t first = p.rows[i].first_key, end = p.rows[i].end_key;
            const std::int64_t low = first < end ? first : block.n_kv;  // of rows that see a key
            const std::int64_t high = first < end ? end : 0;
            state.all_from = first > state.all_from ? first : state.all_from;
            state.all_to = end < state.all_to ? end : state.all_to;
            state.first_key = low < state.first_key ? low : state.first_key;
            state.end_key = high > state.end_key ? high : state.end_key;
        }
        if (state.all_to < state.all_from) state.all_to = state.all_from;
        if (block.gives_every_score()) {
            state.first_key = 0;
            state.end_key = block.n_kv;
        }
    }

    /// Scores of a tile; with keeps_weights every tile of every panel has a place of its own.
    T* tile_scores(const Panel<Arch, T>& panel, std::int64_t tile) const
    {
        return scores + (block.keeps_weights ? (panel.index * tiles + tile) * key_tile * panel_tokens : 0);
    }

    /// With keeps_weights: the maximum that a tile's weights were taken against, W numbers.
    T* history(const Panel<Arch, T>& panel, std::int64_t tile) const
    {
        return maxima + (panel.index * tiles + tile) * panel_tokens;
    }

    /// With has_mean: a tile's weights summed over the heads.
    T* mean(const Panel<Arch, T>& panel, std::int64_t tile) const
    {
        return means + (panel.index * tiles + tile) * key_tile * panel_tokens;
    }

private:
    const AttendBlock<T>& block;
    std::int64_t numbers_used = 0;
    std::int64_t tiles;  ///< of all keys
    T* means;
    T* panels;
    T* scores;
    T* maxima;

public:
    T* k;           ///< a tile of K, close rows
    T* v;           ///< a tile of V, close rows
    T* non_finite;  ///< d_v x W
    T* maximum_before;
    T* correction;

private:
    static std::int64_t rounded(std::int64_t numbers)
    {
        constexpr std::int64_t line = 64 / sizeof(T);
        return (numbers + line - 1) / line * line;
    }

    std::int64_t panel_size() const
    {
        constexpr std::int64_t state = (sizeof(typename Panel<Arch, T>::State) + sizeof(T) - 1) / sizeof(T);
        return rounded((block.d_k + block.d_v + 2) * panel_tokens + state);
    }
};

}  // namespace headwise::kernels
