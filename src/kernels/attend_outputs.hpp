// What the fused kernel hands out: the rows of Y, and on request weights, scores and log-sum-exp.
#pragma once

#include "kernels/attend_panel.hpp"
#include "kernels/exp2.hpp"
#include "kernels/panel_rows.hpp"
#include "kernels/visible_keys.hpp"

namespace headwise::kernels {

/// Outputs of the panels of a block, elements of type E.
template <class Arch, class T, class E>
class AttendOutputs {
public:
    AttendOutputs(const AttendBlock<T>& b, const AttendScratch<Arch, T>& s) : block(b), scratch(s) {}

    /// A tile of scores, at whichever stage they are.
    void give_scores(const Panel<Arch, T>& panel, const T* s, std::int64_t first, std::int64_t keys) const
    {
        alignas(64) T ones[panel_tokens];
        for (T& one : ones) one = T(1);
        give<&AttendRow<T>::scores>(panel, s, first, keys, block.scores_stride, ones);
    }

    /// Everything else, once the panel has seen all its keys. panel.o is normalised on the way out.
    void finish(const Panel<Arch, T>& panel) const
    {
        alignas(64) T inverse[panel_tokens];
        bool weightless = false;  // some row is
        for (int i = 0; i < panel.width(); i += n) {
            const auto sum = load<Arch, T>(panel.sum + i);
            const auto zero = sum == set<Arch, T>(T(0));
            weightless = weightless || xsimd::any(zero);
            write(inverse + i, xsimd::select(zero, set<Arch, T>(T(0)), set<Arch, T>(T(1)) / sum));
        }
        if (!panel.state->started)
            for (std::int64_t i = 0; i < block.d_v * panel.width(); ++i) panel.o[i] = T(0);
        else if (weightless) clear_rows_without_weight(panel);
        if (block.y_panels.data) give_panel(panel, inverse);
        else give<&AttendRow<T>::y>(panel, panel.o, 0, block.d_v, block.y_stride, inverse);
        if (block.keeps_weights) give_weights(panel, inverse);
        if (block.gives(ScoreStage::biased)) give_excluded_scores(panel);
        if (panel.rows->log_sum_exp) give_log_sum_exp(panel);
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr int panel_tokens = TileShape<Arch, T>::panel_tokens;

    const AttendBlock<T>& block;
    const AttendScratch<Arch, T>& scratch;

    /// A row whose scores are all -inf has no weight to give, whatever V holds.
    void clear_rows_without_weight(const Panel<Arch, T>& panel) const
    {
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            if (panel.sum[i] == T(0))
                for (std::int64_t c = 0; c < block.d_v; ++c) panel.o[c * panel.width() + i] = T(0);
    }

    /// For each row i of the panel and k < depth: element first + k of the output that `output` points to becomes
    /// factor[i] * from[k][i].
    template <void* AttendRow<T>::* output, bool adds = false>
    void give(const Panel<Arch, T>& panel, const T* from, std::int64_t first, std::int64_t depth, std::ptrdiff_t stride,
              const T* factor) const
    {
        E* to[panel_tokens];
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            to[i] = static_cast<E*>(panel.rows[i].*output) + first * stride;
        scatter_panel<Arch, T, E>(from, panel.vectors, to, panel.row_count, stride, depth, factor);
    }

    void give_panel(const Panel<Arch, T>& panel, const T* inverse) const
    {
        T* const to =
            block.y_panels.data + panel.index * block.y_panels.panel_stride + block.y_panels.first_row * panel.width();
        for (std::int64_t c = 0; c < block.d_v * panel.width(); c += panel.width())
            for (int i = 0; i < panel.width(); i += n)
                write(to + c + i, load<Arch, T>(panel.o + c + i) * load<Arch, T>(inverse + i));
    }

    /// Each tile's weights were taken against the maximum of that time: they are brought to the last one.
    void give_weights(const Panel<Arch, T>& panel, const T* inverse) const
    {
        alignas(64) T factor[panel_tokens];
        const bool any_key = panel.state->first_key < panel.state->end_key;
        for (std::int64_t i = 0; i < panel.row_count; ++i) {
            exclude_weights(panel.rows[i], 0, any_key ? panel.state->first_key : block.n_kv);
            if (any_key) exclude_weights(panel.rows[i], panel.state->end_key, block.n_kv);
        }
        const std::int64_t key_tile = scratch.key_tile;
        for (std::int64_t tile = panel.state->first_key / key_tile; tile * key_tile < panel.state->end_key; ++tile) {
            const std::int64_t first =
                tile * key_tile < panel.state->first_key ? panel.state->first_key : tile * key_tile;
            const std::int64_t end =
                (tile + 1) * key_tile < panel.state->end_key ? (tile + 1) * key_tile : panel.state->end_key;
            for (int i = 0; i < panel.width(); i += n) {
                const auto maximum = load<Arch, T>(panel.maximum + i);
                const auto no_key = maximum == set<Arch, T>(-infinity<T>);
                const auto last = xsimd::select(no_key, set<Arch, T>(T(0)), maximum);
                const auto difference = load<Arch, T>(scratch.history(panel, tile) + i) - last;
                const auto power = power_of_two<Arch, T>(difference * set<Arch, T>(block.natural ? log2e<T> : T(1)));
                write(factor + i, power * load<Arch, T>(inverse + i));
            }
            T* const weights = scratch.tile_scores(panel, tile);
            keep_exclusions(panel, weights, first, end - first, factor);
            give_tile_of_weights(panel, weights, first, end - first, factor);
            if (block.has_mean) add_to_mean(panel, weights, tile, first, end - first, factor);
        }
    }

    /// In a row that a NaN has reached, factor is NaN and so are the weights, but those of excluded keys are 0 all the same.
    void keep_exclusions(const Panel<Arch, T>& panel, T* weights, std::int64_t first, std::int64_t keys,
                         T* factor) const
    {
        const VisibleKeys<Arch, T, E> visible(block);
        for (std::int64_t i = 0; i < panel.row_count; ++i) {
            if (factor[i] == factor[i]) continue;
            for (std::int64_t key = 0; key < keys; ++key)
                weights[key * panel.width() + i] = visible.sees(panel.rows[i], first + key) ? factor[i] : T(0);
            factor[i] = T(1);
        }
    }

    void give_tile_of_weights(const Panel<Arch, T>& panel, const T* s, std::int64_t first, std::int64_t keys,
                              T* factor) const
    {
        if (panel.rows->weights) give<&AttendRow<T>::weights>(panel, s, first, keys, block.weights_stride, factor);
        if (block.gives(ScoreStage::weights))
            give<&AttendRow<T>::scores>(panel, s, first, keys, block.scores_stride, factor);
    }

    void add_to_mean(const Panel<Arch, T>& panel, const T* weights, std::int64_t tile, std::int64_t first,
                     std::int64_t keys, const T* factor) const
    {
        T* const mean = scratch.mean(panel, tile);
        for (std::int64_t key = 0; key < keys; ++key)
            for (int i = 0; i < panel.width(); i += n) {
                const std::int64_t at = key * panel.width() + i;
                const auto weight = load<Arch, T>(weights + at) * load<Arch, T>(factor + i);
                write(mean + at, block.begins_mean ? weight : load<Arch, T>(mean + at) + weight);
            }
        if (!block.ends_mean) return;
        alignas(64) T share[panel_tokens];
        for (T& part : share) part = block.mean_factor;
        give<&AttendRow<T>::mean_weights>(panel, mean, first, keys, block.mean_weights_stride, share);
    }

    /// Weights of keys [first, end), which no row of the panel sees.
    void exclude_weights(const AttendRow<T>& row, std::int64_t first, std::int64_t end) const
    {
        const auto fill = [&](void* to, std::ptrdiff_t stride) {
            if (!to) return;
            for (std::int64_t key = first; key < end; ++key) static_cast<E*>(to)[key * stride] = static_cast<E>(T(0));
        };
        fill(row.weights, block.weights_stride);
        if (block.ends_mean) fill(row.mean_weights, block.mean_weights_stride);
        if (block.gives(ScoreStage::weights)) fill(row.scores, block.scores_stride);
    }

    /// Scores of keys that no row of the panel sees.
    void give_excluded_scores(const Panel<Arch, T>& panel) const
    {
        for (std::int64_t i = 0; i < panel.row_count; ++i)
            for (std::int64_t key = 0; key < block.n_kv; ++key)
                if (key < panel.state->first_key || key >= panel.state->end_key)
                    static_cast<E*>(panel.rows[i].scores)[key * block.scores_stride] = static_cast<E>(-infinity<T>);
    }

    void give_log_sum_exp(const Panel<Arch, T>& panel) const
    {
        const VisibleKeys<Arch, T, E> visible(block);
        for (std::int64_t i = 0; i < panel.row_count; ++i) {
            const AttendRow<T>& row = panel.rows[i];
            const auto q_at = [&](std::int64_t c) {
                if (!block.q_panels.data)
                    return widened<Arch, double>(static_cast<const E*>(row.q)[c * block.q_stride]);
                const T* q = block.q_panels.data + panel.index * block.q_panels.panel_stride;
                return static_cast<double>(q[(block.q_panels.first_row + c) * panel.width() + i]);
            };
            const double maximum = static_cast<double>(panel.maximum[i]) * (block.natural ? 1 : 1 / log2e<double>);
            *row.log_sum_exp = static_cast<T>(visible.log_sum_exp(row, maximum, panel.sum[i], q_at));
        }
    }
};

}  // namespace headwise::kernels
