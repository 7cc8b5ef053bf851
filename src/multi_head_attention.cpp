// The layer. A forward has four phases, each a set of tasks over panels of tokens:
//   1. K and V of all tokens, from X_kv: rows (item, kv head, token, width), close together
//   then, for a limited number of tokens at a time, so that the memory of a long sequence stays bounded:
//   2. Q as panels, all heads below one another; where the limit does not matter and X is X_kv, together with 1, so that
//      the tokens are transposed once
//   3. the fused operator, panel to panel: head i writes its rows of the concatenated panel
//   4. the output projection of the concatenated panels, and the only transpose on the way out
#include <headwise/multi_head_attention.hpp>

#include <headwise/target.hpp>

#include <algorithm>
#include <utility>

#include "attend_plan.hpp"
#include "ceil_div.hpp"
#include "check.hpp"
#include "check_options.hpp"
#include "packed_matrix.hpp"
#include "parallel.hpp"
#include "project_tokens.hpp"
#include "scratch.hpp"

namespace headwise {

namespace {

/// Bytes of Q and of the heads' outputs that a forward holds at a time, unless one panel needs more.
constexpr std::int64_t chunk_bytes = std::int64_t{8} << 20;

}  // namespace

template <class T>
struct BasicMultiHeadAttention<T>::Packed {
    LayerShape shape;
    PackedMatrix<T> W_q;
    PackedMatrix<T> W_k;
    PackedMatrix<T> W_v;
    PackedMatrix<T> W_o;
};

namespace {

template <class T>
bool same(const TensorView<const T, 3>& x, const TensorView<const T, 3>& y)
{
    return x.data == y.data && x.shape == y.shape && x.strides == y.strides;
}

/// One forward whose arguments have been checked.
template <class T>
struct Forward {
    const LayerShape& shape;
    const PackedMatrix<T>& W_q;
    const PackedMatrix<T>& W_k;
    const PackedMatrix<T>& W_v;
    const PackedMatrix<T>& W_o;
    const KernelTable<T>& kernels;
    AttendSizes sizes;
    const AttentionOptions<T>& options;

    /// Whole items, or a part of one.
    struct Chunk {
        std::int64_t items;
        std::int64_t tokens;
    };

    std::int64_t panel_numbers() const
    {
        return (sizes.heads * sizes.d_k + sizes.heads * sizes.d_v) * kernels.panel_tokens();
    }

    Chunk chunk() const
    {
        const std::int64_t width = kernels.panel_tokens();
        const std::int64_t panel_bytes = panel_numbers() * static_cast<std::int64_t>(sizeof(T));
        const std::int64_t panels = std::max<std::int64_t>(1, chunk_bytes / panel_bytes);
        const std::int64_t panels_of_item = ceil_div(sizes.n_q, width);
        if (panels_of_item > panels) return {1, panels * width};
        return {std::clamp<std::int64_t>(panels / panels_of_item, 1, sizes.batch), sizes.n_q};
    }

    void run(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 3> Y) const
    {
        if (sizes.batch == 0 || sizes.n_q == 0) return;
        const std::int64_t kv_rows = sizes.batch * sizes.kv_heads * sizes.n_kv;
        const Chunk most = chunk();
        const std::int64_t panels = most.items * ceil_div(most.tokens, kernels.panel_tokens());
        Scratch scratch(Scratch::size<T>(kv_rows * sizes.d_k) + Scratch::size<T>(kv_rows * sizes.d_v) +
                        Scratch::size<T>(panels * panel_numbers()));
        T* const k = scratch.take<T>(kv_rows * sizes.d_k);
        T* const v = scratch.take<T>(kv_rows * sizes.d_v);
        T* const q = scratch.take<T>(panels * panel_numbers());
        const TensorView<T, 4> K(k, {sizes.batch, sizes.kv_heads, sizes.n_kv, sizes.d_k});
        const TensorView<T, 4> V(v, {sizes.batch, sizes.kv_heads, sizes.n_kv, sizes.d_v});

        const ProjectTokens<T> project{kernels, options.work};
        const auto to_K = project.to_heads(W_k, K, &Work::project_k);
        const auto to_V = project.to_heads(W_v, V, &Work::project_v);
        const PanelRange all_keys{0, sizes.batch, 0, sizes.n_kv};
        const bool q_at_once = most.items == sizes.batch && most.tokens == sizes.n_q && same(X, X_kv);
        if (q_at_once) project.run(X, all_keys, to_K, to_V, project.to_panels(W_q, q, &Work::project_q));
        else project.run(X_kv, all_keys, to_K, to_V);
        const AttendPlan<T> attend(kernels, sizes, K, V, options);
        for (std::int64_t item = 0; item < sizes.batch; item += most.items)
            for (std::int64_t token = 0; token < sizes.n_q; token += most.tokens) {
                const PanelRange range{item, std::min(most.items, sizes.batch - item), token,
                                       std::min(most.tokens, sizes.n_q - token)};
                if (!q_at_once) project.run(X, range, project.to_panels(W_q, q, &Work::project_q));
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

template <class T>
LayerWeights<T> checked_weights(const LayerShape& s, const LayerWeights<T>& w)
{
    const Check check("MultiHeadAttention");
    const Extent h{s.heads, "h"}, h_kv{s.kv_heads, "h_kv"}, d_model{s.d_model, "d_model"};
    const Extent d_model_kv{s.d_model_kv, "d_model_kv"}, d_k{s.d_k, "d_k"}, d_v{s.d_v, "d_v"};
    check.input(any_view("W_q", w.W_q), std::array{h, d_model, d_k});
    check.input(any_view("W_k", w.W_k), std::array{h_kv, d_model_kv, d_k});
    check.input(any_view("W_v", w.W_v), std::array{h_kv, d_model_kv, d_v});
    check.input(any_view("W_o", w.W_o), std::array{Extent{s.heads * s.d_v, "h * d_v"}, d_model});
    if (w.b_q.given()) check.input(any_view("b_q", w.b_q), std::array{h, d_k});
    if (w.b_k.given()) check.input(any_view("b_k", w.b_k), std::array{h_kv, d_k});
    if (w.b_v.given()) check.input(any_view("b_v", w.b_v), std::array{h_kv, d_v});
    if (w.b_o.given()) check.input(any_view("b_o", w.b_o), std::array{d_model});
    return w;
}

}  // namespace

template <class T>
BasicMultiHeadAttention<T>::BasicMultiHeadAttention(LayerShape shape, const LayerWeights<T>& weights)
{
    const LayerShape s = resolved(shape);
    const LayerWeights<T> w = checked_weights(s, weights);
    // (h * d_v, d_model) read as one head of width d_model
    const TensorView<const T, 3> W_o(w.W_o);
    const MatrixView<const T> b_o(w.b_o);
    packed_ = std::make_unique<const Packed>(Packed{s, PackedMatrix<T>(w.W_q, w.b_q), PackedMatrix<T>(w.W_k, w.b_k),
                                                    PackedMatrix<T>(w.W_v, w.b_v), PackedMatrix<T>(W_o, b_o)});
}

template <class T>
BasicMultiHeadAttention<T>::BasicMultiHeadAttention(LayerShape shape, const LinearWeights<T>& weights)
    : BasicMultiHeadAttention(shape, weights_from_linear(shape, weights))
{
}

template <class T>
BasicMultiHeadAttention<T>::BasicMultiHeadAttention(LayerShape shape, const PackedLinearWeights<T>& weights)
    : BasicMultiHeadAttention(shape, weights_from_linear(shape, weights))
{
}

template <class T>
BasicMultiHeadAttention<T>::~BasicMultiHeadAttention() = default;
template <class T>
BasicMultiHeadAttention<T>::BasicMultiHeadAttention(BasicMultiHeadAttention&&) noexcept = default;
template <class T>
BasicMultiHeadAttention<T>& BasicMultiHeadAttention<T>::operator=(BasicMultiHeadAttention&&) noexcept = default;

template <class T>
const LayerShape& BasicMultiHeadAttention<T>::shape() const noexcept
{
    return packed_->shape;
}

template <class T>
void BasicMultiHeadAttention<T>::forward(TensorView<const T, 3> X, TensorView<T, 3> Y,
                                         const AttentionOptions<T>& options) const
{
    forward(X, X, Y, options);
}

template <class T>
void BasicMultiHeadAttention<T>::forward(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 3> Y,
                                         const AttentionOptions<T>& options) const
{
    const Check check("MultiHeadAttention::forward");
    const LayerShape& s = packed_->shape;
    const Extent any_b{any_extent, "b"}, any_n{any_extent, "n"}, d_model{s.d_model, "d_model"};
    check.input(any_view("X", X), std::array{any_b, any_n, d_model});
    const Extent b{X.shape[0], "b"};
    check.input(any_view("X_kv", X_kv), std::array{b, Extent{any_extent, "n_kv"}, Extent{s.d_model_kv, "d_model_kv"}});
    check.output(any_view("Y", Y), std::array{b, Extent{X.shape[1], "n"}, d_model});
    const AttendSizes sizes{X.shape[0], s.heads, s.kv_heads, X.shape[1], X_kv.shape[1], s.d_k, s.d_v};
    check.fewer_bytes("the projection of X_kv", sizeof(T),
                      std::array{sizes.batch, sizes.kv_heads, sizes.n_kv, sizes.d_k + sizes.d_v});
    check_options(check, options, sizes);
    check_apart(check, std::array{any_view("Y", Y)}, std::array{any_view("X", X), any_view("X_kv", X_kv)}, options);
    const Packed& p = *packed_;
    Forward<T>{s, p.W_q, p.W_k, p.W_v, p.W_o, kernel_table<T>(active_target()), sizes, options}.run(X, X_kv, Y);
}

template class BasicMultiHeadAttention<float>;
template class BasicMultiHeadAttention<double>;

}  // namespace headwise
