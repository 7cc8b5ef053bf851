// headwise: the multi-head attention layer.
#pragma once

#include <cstdint>
#include <memory>

#include <headwise/attention.hpp>
#include <headwise/tensor_view.hpp>

namespace headwise {

/// The sizes of a layer. 0 stands for the default named beside the field.
struct LayerShape {
    std::int64_t d_model = 0;
    std::int64_t heads = 0;       ///< h, the query heads
    std::int64_t kv_heads = 0;    ///< h_kv, divides heads; default: heads
    std::int64_t d_k = 0;         ///< width of a query and key head; default: d_model / heads, which must divide
    std::int64_t d_v = 0;         ///< width of a value head; default: d_k
    std::int64_t d_model_kv = 0;  ///< width of X_kv in cross-attention; default: d_model
};

/// `shape` with every default filled in.
/// Throws std::invalid_argument for sizes below 1, for kv_heads that does not divide heads, and for a default d_k where
/// heads does not divide d_model.
LayerShape resolved(LayerShape shape);

/// The weights of a layer, per head. Any strides: matrices in other layouts are views, see weights_from_linear().
template <class T>
struct LayerWeights {
    TensorView<const T, 3> W_q{};  ///< (h, d_model, d_k)
    TensorView<const T, 3> W_k{};  ///< (h_kv, d_model_kv, d_k)
    TensorView<const T, 3> W_v{};  ///< (h_kv, d_model_kv, d_v)
    MatrixView<const T> W_o{};  ///< (h * d_v, d_model)
    MatrixView<const T> b_q{};  ///< optional (h, d_k)
    MatrixView<const T> b_k{};  ///< optional (h_kv, d_k)
    MatrixView<const T> b_v{};  ///< optional (h_kv, d_v)
    VectorView<const T> b_o{};  ///< optional (d_model)
};

/// Matrices as frameworks store them, y = x W^T + b: rows are outputs. torch.nn.Linear's weight, BERT's query.weight.
template <class T>
struct LinearWeights {
    MatrixView<const T> W_q{};  ///< (h * d_k, d_model)
    MatrixView<const T> W_k{};  ///< (h_kv * d_k, d_model_kv)
    MatrixView<const T> W_v{};  ///< (h_kv * d_v, d_model_kv)
    MatrixView<const T> W_o{};  ///< (d_model, h * d_v)
    VectorView<const T> b_q{};  ///< optional (h * d_k)
    VectorView<const T> b_k{};  ///< optional (h_kv * d_k)
    VectorView<const T> b_v{};  ///< optional (h_kv * d_v)
    VectorView<const T> b_o{};  ///< optional (d_model)
};

/// As LinearWeights, with Q, K and V stacked in one matrix: torch.nn.MultiheadAttention's in_proj_weight, GPT's c_attn
/// (transposed by its strides).
template <class T>
struct PackedLinearWeights {
    MatrixView<const T> W_qkv{};  ///< (h * d_k + h_kv * d_k + h_kv * d_v, d_model)
    MatrixView<const T> W_o{};  ///< (d_model, h * d_v)
    VectorView<const T> b_qkv{};  ///< optional (h * d_k + h_kv * d_k + h_kv * d_v)
    VectorView<const T> b_o{};  ///< optional (d_model)
};

/// The same weights seen per head; nothing is copied, the views point into `linear`'s memory.
/// Throws std::invalid_argument where a matrix has not the shape that `shape` asks for.
template <class T>
LayerWeights<T> weights_from_linear(const LayerShape& shape, const LinearWeights<T>& linear);
template <class T>
LayerWeights<T> weights_from_linear(const LayerShape& shape, const PackedLinearWeights<T>& linear);

/// A multi-head attention layer whose weights were packed for the kernels once.
///
///     Y = concat_i( attention(X W_q[i] + b_q[i], X_kv W_k[i'] + b_k[i'], X_kv W_v[i'] + b_v[i']) ) W_o + b_o
///
/// with i' = i / (h / h_kv). T is float or double. The object is immutable: forward may run from many threads at once.
///
/// Source: Vaswani et al., "Attention Is All You Need" (2017), 3.2.2.
template <class T>
class BasicMultiHeadAttention {
public:
    /// Copies and packs the weights; the views are not used afterwards.
    /// Throws std::invalid_argument, naming the argument, for shapes that do not fit `shape`.
    BasicMultiHeadAttention(LayerShape shape, const LayerWeights<T>& weights);
    BasicMultiHeadAttention(LayerShape shape, const LinearWeights<T>& weights);
    BasicMultiHeadAttention(LayerShape shape, const PackedLinearWeights<T>& weights);
    ~BasicMultiHeadAttention();
    BasicMultiHeadAttention(BasicMultiHeadAttention&&) noexcept;
    BasicMultiHeadAttention& operator=(BasicMultiHeadAttention&&) noexcept;

    /// The sizes, with defaults filled in.
    const LayerShape& shape() const noexcept;

    /// Self-attention. X (b, n, d_model) to Y (b, n, d_model), or (n, d_model) to (n, d_model); any strides.
    /// The options are those of attention(), for the h heads; weights and masks may leave out the batch dimension.
    ///
    /// Extra memory: K and V of the whole batch, and Q and the heads' outputs for a limited number of tokens at a time.
    /// Allocates nothing once the calling threads are warm. Y must not overlap X.
    void forward(TensorView<const T, 3> X, TensorView<T, 3> Y, const AttentionOptions<T>& options = {}) const;

    /// Cross-attention: queries from X (b, n, d_model), keys and values from X_kv (b, n_kv, d_model_kv).
    void forward(TensorView<const T, 3> X, TensorView<const T, 3> X_kv, TensorView<T, 3> Y,
                 const AttentionOptions<T>& options = {}) const;

private:
    struct Packed;
    std::unique_ptr<const Packed> packed_;
};

using MultiHeadAttention = BasicMultiHeadAttention<float>;

extern template class BasicMultiHeadAttention<float>;
extern template class BasicMultiHeadAttention<double>;

}  // namespace headwise
