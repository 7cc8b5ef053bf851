// A forward of the layer has four phases, each a set of tasks over panels of tokens:
//   1. K and V of all tokens, from X_kv: rows (item, kv head, token, width), close together
//   then, for a limited number of tokens at a time, so that the memory of a long sequence stays bounded:
//   2. Q as panels, all heads below one another; where the limit does not matter and X is X_kv, together with 1, so that
//      the tokens are transposed once
//   3. the fused operator, panel to panel: head i writes its rows of the concatenated panel
//   4. the output projection of the concatenated panels, and the only transpose on the way out
//
// Short sequences would leave much of panels of their own empty. There Q and the heads' outputs are rows as well, and the
// projections take the tokens of all items one after another; only the operator takes each item for itself.
#pragma once

#include <algorithm>
#include <cstdint>

#include <headwise/attention.hpp>

#include "attend_plan.hpp"
#include "ceil_div.hpp"
#include "packed_matrix.hpp"
#include "project_tokens.hpp"
#include "scratch.hpp"

namespace headwise {

template <class T>
bool same(const TensorView<const T, 3>& x, const TensorView<const T, 3>& y)
{
    return x.data == y.data && x.shape == y.shape && x.strides == y.strides;
}

/// Whether the tokens of a tensor (items, tokens, width) or (items, heads, tokens, width) are as far apart from item to
/// item as within one.
template <class T>
bool in_one_row(const TensorView<T, 3>& x)
{
    return x.strides[0] == x.shape[1] * x.strides[1];
}
template <class T>
bool in_one_row(const TensorView<T, 4>& x)
{
    return x.strides[0] == x.shape[2] * x.strides[2];
}

/// The same tokens as those of one item.
template <class T>
TensorView<T, 3> as_one_item(const TensorView<T, 3>& x)
{
    return {x.data, {1, x.shape[0] * x.shape[1], x.shape[2]}, {0, x.strides[1], x.strides[2]}};
}
template <class T>
TensorView<T, 4> as_one_item(const TensorView<T, 4>& x)
{
    return {x.data, {1, x.shape[1], x.shape[0] * x.shape[2], x.shape[3]}, {0, x.strides[1], x.strides[2], x.strides[3]}};
}

/// Items first ... first + items - 1.
template <class T>
TensorView<T, 3> some_items(const TensorView<T, 3>& x, std::int64_t first, std::int64_t items)
{
    return {x.data + first * x.strides[0], {items, x.shape[1], x.shape[2]}, x.strides};
}

/// One forward whose arguments have been checked.
template <class T>
struct LayerForward {
    const PackedMatrix<T>& W_q;
    const PackedMatrix<T>& W_k;
    const PackedMatrix<T>& W_v;
    const PackedMatrix<T>& W_o;
    const KernelTable<T>& kernels;
    AttendSizes sizes;
    const AttentionOptions<T>& options;

    void run(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 3> Y) const
    {
        if (sizes.batch == 0 || sizes.n_q == 0) return;
        const std::int64_t kv_rows = sizes.batch * sizes.kv_heads * sizes.n_kv;
        Scratch scratch(Scratch::size<T>(kv_rows * sizes.d_k) + Scratch::size<T>(kv_rows * sizes.d_v));
        const auto K = keys_or_values(scratch.take<T>(kv_rows * sizes.d_k), sizes.d_k);
        const auto V = keys_or_values(scratch.take<T>(kv_rows * sizes.d_v), sizes.d_v);
        if (sizes.batch > 1 && is_short(sizes.n_q)) run_rows(X, X_kv, K, V, Y);
        else run_panels(X, X_kv, K, V, Y);
    }

private:
    /// Bytes of Q and of the heads' outputs that a forward holds at a time, unless one panel or short item needs more.
    static constexpr std::int64_t chunk_bytes = std::int64_t{8} << 20;

    /// Whole items, or a part of one.
    struct Chunk {
        std::int64_t items;
        std::int64_t tokens;
    };

    /// Where the product of a matrix goes: (items, heads, tokens, width).
    struct Destination {
        const PackedMatrix<T>& W;
        TensorView<T, 4> to;
        std::int64_t Work::* stage;
    };

    /// Whether panels of their own would make a sixteenth more work of the projections of so many tokens.
    bool is_short(std::int64_t tokens) const
    {
        const std::int64_t width = kernels.panel_tokens();
        return 16 * (ceil_div(tokens, width) * width - tokens) > tokens;
    }

    std::int64_t numbers_of_token() const { return sizes.heads * (sizes.d_k + sizes.d_v); }

    /// Memory as (items, heads, tokens, width), in one row.
    static TensorView<T, 4> heads_in_one_row(T* data, std::int64_t items, std::int64_t heads, std::int64_t tokens,
                                             std::int64_t width)
    {
        return {data, {items, heads, tokens, width}, {tokens * width, items * tokens * width, width, 1}};
    }

    TensorView<T, 4> keys_or_values(T* data, std::int64_t width) const
    {
        if (is_short(sizes.n_kv)) return heads_in_one_row(data, sizes.batch, sizes.kv_heads, sizes.n_kv, width);
        return {data, {sizes.batch, sizes.kv_heads, sizes.n_kv, width}};
    }

    /// X (items, tokens, depth) times the matrices: where X and all destinations allow it, all items as one.
    template <class... Destinations>
    void project_rows(TensorView<const T, 3> X, const Destinations&... d) const
    {
        const ProjectTokens<T> project{kernels, options.work};
        if ((in_one_row(X) && ... && in_one_row(d.to)))
            project.run(as_one_item(X), {0, 1, 0, X.shape[0] * X.shape[1]},
                        project.to_heads(d.W, as_one_item(d.to), d.stage)...);
        else
            project.run(X, {0, X.shape[0], 0, X.shape[1]}, project.to_heads(d.W, d.to, d.stage)...);
    }

    void run_rows(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 4> K, TensorView<T, 4> V,
                  TensorView<T, 3> Y) const
    {
        const std::int64_t bytes_of_item = sizes.n_q * numbers_of_token() * static_cast<std::int64_t>(sizeof(T));
        const std::int64_t most = std::clamp<std::int64_t>(chunk_bytes / bytes_of_item, 1, sizes.batch);
        const std::int64_t q_numbers = most * sizes.n_q * sizes.heads * sizes.d_k;
        const std::int64_t width = sizes.heads * sizes.d_v;
        Scratch scratch(Scratch::size<T>(q_numbers) + Scratch::size<T>(most * sizes.n_q * width));
        T* const q = scratch.take<T>(q_numbers);
        T* const concatenated = scratch.take<T>(most * sizes.n_q * width);

        const Destination to_K{W_k, K, &Work::project_k}, to_V{W_v, V, &Work::project_v};
        const auto to_Q = [&](std::int64_t items) -> Destination {
            return {W_q, heads_in_one_row(q, items, sizes.heads, sizes.n_q, sizes.d_k), &Work::project_q};
        };
        const bool q_at_once = most == sizes.batch && same(X, X_kv);
        if (q_at_once) project_rows(X, to_K, to_V, to_Q(most));
        else project_rows(X_kv, to_K, to_V);
        const AttendPlan<T> attend(kernels, sizes, K, V, options);
        for (std::int64_t item = 0; item < sizes.batch; item += most) {
            const std::int64_t items = std::min(most, sizes.batch - item);
            if (!q_at_once) project_rows(some_items(X, item, items), to_Q(items));
            const TensorView<T, 4> by_head(concatenated, {items, sizes.heads, sizes.n_q, sizes.d_v},
                                           {sizes.n_q * width, sizes.d_v, width, 1});
            attend.run(to_Q(items).to, by_head, item);
            const TensorView<T, 3> y = some_items(Y, item, items);
            const TensorView<T, 4> to_Y(y.data, {items, 1, sizes.n_q, y.shape[2]},
                                        {y.strides[0], 0, y.strides[1], y.strides[2]});
            project_rows(TensorView<const T, 3>(concatenated, {items, sizes.n_q, width}),
                         Destination{W_o, to_Y, &Work::project_o});
        }
    }

    Chunk panel_chunk() const
    {
        const std::int64_t width = kernels.panel_tokens();
        const std::int64_t panel_bytes = numbers_of_token() * width * static_cast<std::int64_t>(sizeof(T));
        const std::int64_t panels = std::max<std::int64_t>(1, chunk_bytes / panel_bytes);
        const std::int64_t panels_of_item = ceil_div(sizes.n_q, width);
        if (panels_of_item > panels) return {1, panels * width};
        return {std::clamp<std::int64_t>(panels / panels_of_item, 1, sizes.batch), sizes.n_q};
    }

    void run_panels(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 4> K, TensorView<T, 4> V,
                    TensorView<T, 3> Y) const
    {
        const Chunk most = panel_chunk();
        const std::int64_t panels = most.items * ceil_div(most.tokens, kernels.panel_tokens());
        const std::int64_t numbers = panels * kernels.panel_tokens() * numbers_of_token();
        Scratch scratch(Scratch::size<T>(numbers));
        T* const q = scratch.take<T>(numbers);

        const ProjectTokens<T> project{kernels, options.work};
        const auto to_Q = project.to_panels(W_q, q, &Work::project_q);
        const bool q_at_once = most.items == sizes.batch && most.tokens == sizes.n_q && same(X, X_kv);
        if (q_at_once)
            project.run(X, {0, sizes.batch, 0, sizes.n_kv}, project.to_heads(W_k, K, &Work::project_k),
                        project.to_heads(W_v, V, &Work::project_v), to_Q);
        else
            project_rows(X_kv, Destination{W_k, K, &Work::project_k}, Destination{W_v, V, &Work::project_v});
        const AttendPlan<T> attend(kernels, sizes, K, V, options);
        for (std::int64_t item = 0; item < sizes.batch; item += most.items)
            for (std::int64_t token = 0; token < sizes.n_q; token += most.tokens) {
                const PanelRange range{item, std::min(most.items, sizes.batch - item), token,
                                       std::min(most.tokens, sizes.n_q - token)};
                if (!q_at_once) project.run(X, range, to_Q);
                run_chunk(project, attend, range, q, Y);
            }
    }

    /// Queries of the chunk in `q`, room for the heads' outputs behind them.
    void run_chunk(const ProjectTokens<T>& project, const AttendPlan<T>& attend, const PanelRange& range, T* q,
                   TensorView<T, 3> Y) const
    {
        const std::int64_t panels_of_item = ceil_div(range.tokens, kernels.panel_tokens());
        const std::int64_t q_panel = sizes.heads * sizes.d_k * kernels.panel_tokens();
        const std::int64_t y_panel = sizes.heads * sizes.d_v * kernels.panel_tokens();
        T* const concatenated = q + range.items * panels_of_item * q_panel;
        attend.run({q,
                    panels_of_item * q_panel,
                    q_panel,
                    concatenated,
                    panels_of_item * y_panel,
                    y_panel,
                    {range.first_item, range.items, range.first_token, range.tokens}});
        project.from_panels(W_o, concatenated, range, Y);
    }
};

}  // namespace headwise
