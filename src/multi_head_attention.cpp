// The layer: checks the arguments and hands them to the forward (layer_forward.hpp).
#include <headwise/multi_head_attention.hpp>

#include <headwise/target.hpp>

#include "check.hpp"
#include "check_options.hpp"
#include "layer_forward.hpp"
#include "packed_matrix.hpp"

namespace headwise {

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
    LayerForward<T>{p.W_q, p.W_k, p.W_v, p.W_o, kernel_table<T>(active_target()), sizes, options}.run(X, X_kv, Y);
}

template class BasicMultiHeadAttention<float>;
template class BasicMultiHeadAttention<double>;

}  // namespace headwise
