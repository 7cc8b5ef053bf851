// headwise: the naive reference. Attention and the layer as plain loops that read as their definition, to compare the
// kernels with; it shares no code with them. Header-only.
//
// `Number` is the type it computes in: double, the default, is the oracle; float is the plain evaluation that
// tolerances and speed-ups are measured against; Counted (counted.hpp) counts the work.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <headwise/attention.hpp>
#include <headwise/kv_cache.hpp>
#include <headwise/multi_head_attention.hpp>
#include <headwise/reference_passes.hpp>
#include <headwise/tensor_view.hpp>

namespace headwise::reference {

/// Y = softmax(scale * Q K^T) V: headwise::attention() with the same arguments, shapes and options, for any T.
///
///     reference::attention(Q, K, V, Y, {.causal = true});   // T is taken from Y
///     reference::attention<float, float>(Q, K, V, Y);       // computed in float
///
/// Only results are rounded to T: what lies between is kept in Number. A row whose scores are all -inf, though keys
/// take part, is treated as a row with no key. options.work is not written: count with Counted instead.
///
/// Does not check its arguments (headwise::attention() does) and reads each element by its strides. Serial; allocates
/// a few copies of one head. O(n_q n_kv (d_k + d_v)) time for each head.
template <class T, class Number = double>
void attention(std::type_identity_t<TensorView<const T, 4>> Q, std::type_identity_t<TensorView<const T, 4>> K,
               std::type_identity_t<TensorView<const T, 4>> V, TensorView<T, 4> Y,
               const std::type_identity_t<AttentionOptions<T>>& options = {})
{
    const std::int64_t b = Q.shape[0], h = Q.shape[1], n_q = Q.shape[2], d_k = Q.shape[3];
    const std::int64_t h_kv = K.shape[1], n_kv = K.shape[2], d_v = V.shape[3];
    for (std::int64_t item = 0; item < b; ++item) {
        Matrix<Number> weight_sum(options.mean_weights.given() ? n_q : 0, n_kv);
        for (std::int64_t head = 0; head < h; ++head) {
            const std::int64_t kv_head = head / (h / h_kv);
            const auto q = make_matrix<Number>(n_q, d_k, [&](auto i, auto k) { return Q(item, head, i, k); });
            const auto k_transposed =
                make_matrix<Number>(d_k, n_kv, [&](auto k, auto j) { return K(item, kv_head, j, k); });
            const auto v = make_matrix<Number>(n_kv, d_v, [&](auto j, auto c) { return V(item, kv_head, j, c); });
            const auto o = attend_head(Head{item, head}, q, k_transposed, v, options, weight_sum);
            for (std::int64_t i = 0; i < n_q; ++i)
                for (std::int64_t c = 0; c < d_v; ++c) Y(item, head, i, c) = to_element<T>(o.row(i)[c]);
        }
        write_mean_weights(options, item, weight_sum, h);
    }
}

/// Tokens first .. first + count - 1 of all heads, (heads, tokens, width) to (1, heads, count, width).
template <class T>
TensorView<T, 4> sequence(const TensorView<T, 3>& tensor, std::int64_t first, std::int64_t count)
{
    return {tensor.data + first * tensor.strides[1],
            {1, tensor.shape[0], count, tensor.shape[2]},
            {0, tensor.strides[0], tensor.strides[1], tensor.strides[2]}};
}

/// Each sequence as if it were alone: headwise::ragged_attention() with the same arguments, shapes and options. What is
/// said at attention() holds here too.
template <class T, class Number = double>
void ragged_attention(std::type_identity_t<TensorView<const T, 3>> Q, std::type_identity_t<TensorView<const T, 3>> K,
                      std::type_identity_t<TensorView<const T, 3>> V, TensorView<T, 3> Y, const RaggedStarts& starts,
                      const std::type_identity_t<AttentionOptions<T>>& options = {})
{
    for (std::int64_t i = 0; i + 1 < starts.q_starts.shape[0]; ++i) {
        const std::int64_t q = starts.q_starts(i), n_q = starts.q_starts(i + 1) - q;
        const std::int64_t kv = starts.kv_starts(i), n_kv = starts.kv_starts(i + 1) - kv;
        AttentionOptions<T> of_sequence = options;
        if (options.query_offsets.given()) {
            of_sequence.query_offsets = {};
            of_sequence.query_offset = options.query_offsets(i);
        }
        if (options.log_sum_exp.given()) {
            of_sequence.log_sum_exp.data += q * options.log_sum_exp.strides[2];
            of_sequence.log_sum_exp.shape[2] = n_q;
        }
        attention<T, Number>(sequence(Q, q, n_q), sequence(K, kv, n_kv), sequence(V, kv, n_kv), sequence(Y, q, n_q),
                             of_sequence);
    }
}

/// present = past followed by added, along the tokens. A past that is not given has none.
template <class T>
void concatenate(const TensorView<const T, 4>& past, const TensorView<const T, 4>& added,
                 const TensorView<T, 4>& present)
{
    const std::int64_t n_past = past.shape[2];
    for (std::int64_t item = 0; item < present.shape[0]; ++item)
        for (std::int64_t head = 0; head < present.shape[1]; ++head)
            for (std::int64_t token = 0; token < present.shape[2]; ++token)
                for (std::int64_t c = 0; c < present.shape[3]; ++c)
                    present(item, head, token, c) =
                        token < n_past ? past(item, head, token, c) : added(item, head, token - n_past, c);
}

/// Fills the present tensors, then attends over them: headwise::attention_with_past() with the same arguments, shapes
/// and options. What is said at attention() holds here too.
template <class T, class Number = double>
void attention_with_past(std::type_identity_t<TensorView<const T, 4>> Q, std::type_identity_t<TensorView<const T, 4>> K,
                         std::type_identity_t<TensorView<const T, 4>> V,
                         const std::type_identity_t<PastAndPresent<T>>& cache, TensorView<T, 4> Y,
                         const std::type_identity_t<AttentionOptions<T>>& options = {})
{
    concatenate(cache.past_key, K, cache.present_key);
    concatenate(cache.past_value, V, cache.present_value);
    AttentionOptions<T> over_present = options;
    over_present.query_offset = cache.past_key.shape[2];
    attention<T, Number>(Q, cache.present_key, cache.present_value, Y, over_present);
}

/// Throws std::invalid_argument where the shape of a matrix of `weights` is not what `sizes` asks for.
template <class T>
void check_weights(const LayerShape& sizes, const LayerWeights<T>& weights)
{
    const auto text = [](const auto& shape) {
        std::string extents;
        for (const std::int64_t extent : shape) extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
        return "(" + extents + ")";
    };
    const auto check = [&](const std::string& name, const auto& shape, const auto& expected) {
        if (shape != expected)
            throw std::invalid_argument(name + " has shape " + text(shape) + ", expected " + text(expected));
    };
    using Shape = std::array<std::int64_t, 3>;
    check("W_q", weights.W_q.shape, Shape{sizes.heads, sizes.d_model, sizes.d_k});
    check("W_k", weights.W_k.shape, Shape{sizes.kv_heads, sizes.d_model_kv, sizes.d_k});
    check("W_v", weights.W_v.shape, Shape{sizes.kv_heads, sizes.d_model_kv, sizes.d_v});
    check("W_o", weights.W_o.shape, std::array<std::int64_t, 2>{sizes.heads * sizes.d_v, sizes.d_model});
}

/// X W[head] + b[head]. X (n, d_in), W (heads, d_in, d_out), b (heads, d_out) or not given, to (n, d_out).
template <class T, class Number>
Matrix<Number> project_head(const Matrix<Number>& X, const TensorView<const T, 3>& W, const MatrixView<const T>& b,
                            std::int64_t head, std::int64_t Work::* stage)
{
    const auto w = make_matrix<Number>(W.shape[1], W.shape[2], [&](auto k, auto c) { return W(head, k, c); });
    const auto bias = make_matrix<Number>(1, b.shape[1], [&](auto, auto c) { return b(head, c); });
    return project(X, w, bias.numbers, stage);
}

/// Y = concat_i(attention(X W_q[i] + b_q[i], X_kv W_k[i'] + b_k[i'], X_kv W_v[i'] + b_v[i'])) W_o + b_o with
/// i' = i / (h / h_kv): BasicMultiHeadAttention<T>(shape, weights).forward(X, X_kv, Y, options).
///
/// X (b, n, d_model), X_kv (b, n_kv, d_model_kv), Y (b, n, d_model). T is taken from `weights`. As for attention(),
/// only results are rounded to T, and options.work is not written.
///
/// Throws std::invalid_argument as resolved(shape) does, and where the shape of W_q, W_k, W_v or W_o is not that of
/// `shape`; other arguments are not checked.
template <class T, class Number = double>
void multi_head_attention(const LayerShape& shape, const LayerWeights<T>& weights,
                          std::type_identity_t<TensorView<const T, 3>> X,
                          std::type_identity_t<TensorView<const T, 3>> X_kv, std::type_identity_t<TensorView<T, 3>> Y,
                          const std::type_identity_t<AttentionOptions<T>>& options = {})
{
    const LayerShape sizes = resolved(shape);
    check_weights(sizes, weights);
    const std::int64_t n = X.shape[1], n_kv = X_kv.shape[1], d_model = sizes.d_model, d_v = sizes.d_v;
    const std::int64_t group = sizes.heads / sizes.kv_heads;
    const auto W_o = make_matrix<Number>(sizes.heads * d_v, d_model, [&](auto k, auto c) { return weights.W_o(k, c); });
    const auto b_o = make_matrix<Number>(1, weights.b_o.shape[0], [&](auto, auto c) { return weights.b_o(c); });
    for (std::int64_t item = 0; item < X.shape[0]; ++item) {
        const auto x = make_matrix<Number>(n, d_model, [&](auto t, auto k) { return X(item, t, k); });
        const auto x_kv = make_matrix<Number>(n_kv, sizes.d_model_kv, [&](auto t, auto k) { return X_kv(item, t, k); });
        Matrix<Number> concatenated(n, sizes.heads * d_v);
        Matrix<Number> weight_sum(options.mean_weights.given() ? n : 0, n_kv);
        for (std::int64_t kv_head = 0; kv_head < sizes.kv_heads; ++kv_head) {
            const auto K = project_head(x_kv, weights.W_k, weights.b_k, kv_head, &Work::project_k);
            const auto V = project_head(x_kv, weights.W_v, weights.b_v, kv_head, &Work::project_v);
            const auto K_transposed = transposed(K);
            for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                const auto Q = project_head(x, weights.W_q, weights.b_q, head, &Work::project_q);
                const auto O = attend_head(Head{item, head}, Q, K_transposed, V, options, weight_sum);
                for (std::int64_t t = 0; t < n; ++t)
                    for (std::int64_t c = 0; c < d_v; ++c) concatenated.row(t)[head * d_v + c] = O.row(t)[c];
            }
        }
        const auto result = project(concatenated, W_o, b_o.numbers, &Work::project_o);
        for (std::int64_t t = 0; t < n; ++t)
            for (std::int64_t c = 0; c < d_model; ++c) Y(item, t, c) = to_element<T>(result.row(t)[c]);
        write_mean_weights(options, item, weight_sum, sizes.heads);
    }
}

/// Self-attention: X_kv is X.
template <class T, class Number = double>
void multi_head_attention(const LayerShape& shape, const LayerWeights<T>& weights,
                          std::type_identity_t<TensorView<const T, 3>> X, std::type_identity_t<TensorView<T, 3>> Y,
                          const std::type_identity_t<AttentionOptions<T>>& options = {})
{
    multi_head_attention<T, Number>(shape, weights, X, X, Y, options);
}

}  // namespace headwise::reference
