// The sizes of a layer, and its weights seen per head whatever matrices they come in.
#include <headwise/multi_head_attention.hpp>

#include "check.hpp"

namespace headwise {

namespace {

/// Columns [first, first + heads * width) of x W^T, W (rows, depth), as (heads, depth, width).
template <class T>
TensorView<const T, 3> per_head(const MatrixView<const T>& W, std::int64_t first, std::int64_t heads,
                                std::int64_t width)
{
    return {
        W.data + first * W.strides[0], {heads, W.shape[1], width}, {width * W.strides[0], W.strides[1], W.strides[0]}};
}

template <class T>
MatrixView<const T> bias_per_head(const VectorView<const T>& b, std::int64_t first, std::int64_t heads,
                                  std::int64_t width)
{
    if (!b.given()) return {};
    return {b.data + first * b.strides[0], {heads, width}, {width * b.strides[0], b.strides[0]}};
}

template <class T>
MatrixView<const T> transposed(const MatrixView<const T>& W)
{
    return {W.data, {W.shape[1], W.shape[0]}, {W.strides[1], W.strides[0]}};
}

template <class T>
void check_matrix(std::string_view name, const MatrixView<const T>& W, Extent rows, Extent columns)
{
    Check("weights_from_linear").input(any_view(name, W), std::array{rows, columns});
}

template <class T>
void check_bias(std::string_view name, const VectorView<const T>& b, Extent rows)
{
    if (b.given()) Check("weights_from_linear").input(any_view(name, b), std::array{rows});
}

}  // namespace

LayerShape resolved(LayerShape shape)
{
    const Check check("LayerShape");
    const auto at_least_one = [&](std::string_view name, std::int64_t size) {
        if (size < 1) check.fail(name, std::to_string(size), "1 or more");
        if (size > std::int64_t{1} << 31) check.fail(name, std::to_string(size), "at most 2^31");
    };
    at_least_one("d_model", shape.d_model);
    at_least_one("heads", shape.heads);
    if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
    at_least_one("kv_heads", shape.kv_heads);
    if (shape.heads % shape.kv_heads != 0)
        check.fail("kv_heads", std::to_string(shape.kv_heads), "a divisor of heads = " + std::to_string(shape.heads));
    if (shape.d_k == 0) {
        if (shape.d_model % shape.heads != 0)
            check.fail("heads", std::to_string(shape.heads),
                       "a divisor of d_model = " + std::to_string(shape.d_model) + ", or a d_k");
        shape.d_k = shape.d_model / shape.heads;
    }
    at_least_one("d_k", shape.d_k);
    if (shape.d_v == 0) shape.d_v = shape.d_k;
    at_least_one("d_v", shape.d_v);
    if (shape.d_model_kv == 0) shape.d_model_kv = shape.d_model;
    at_least_one("d_model_kv", shape.d_model_kv);
    if (shape.heads > (std::int64_t{1} << 31) / std::max(shape.d_k, shape.d_v))
        check.fail("heads", std::to_string(shape.heads), "h * d_k and h * d_v of at most 2^31");
    return shape;
}

template <class T>
LayerWeights<T> weights_from_linear(const LayerShape& shape, const LinearWeights<T>& linear)
{
    const LayerShape s = resolved(shape);
    const Extent d_model{s.d_model, "d_model"}, d_model_kv{s.d_model_kv, "d_model_kv"};
    const Extent q_rows{s.heads * s.d_k, "h * d_k"}, o_columns{s.heads * s.d_v, "h * d_v"};
    const Extent k_rows{s.kv_heads * s.d_k, "h_kv * d_k"}, v_rows{s.kv_heads * s.d_v, "h_kv * d_v"};
    check_matrix("W_q", linear.W_q, q_rows, d_model);
    check_matrix("W_k", linear.W_k, k_rows, d_model_kv);
    check_matrix("W_v", linear.W_v, v_rows, d_model_kv);
    check_matrix("W_o", linear.W_o, d_model, o_columns);
    check_bias("b_q", linear.b_q, q_rows);
    check_bias("b_k", linear.b_k, k_rows);
    check_bias("b_v", linear.b_v, v_rows);
    check_bias("b_o", linear.b_o, d_model);
    return {per_head(linear.W_q, 0, s.heads, s.d_k),         per_head(linear.W_k, 0, s.kv_heads, s.d_k),
            per_head(linear.W_v, 0, s.kv_heads, s.d_v),      transposed(linear.W_o),
            bias_per_head(linear.b_q, 0, s.heads, s.d_k),    bias_per_head(linear.b_k, 0, s.kv_heads, s.d_k),
            bias_per_head(linear.b_v, 0, s.kv_heads, s.d_v), linear.b_o};
}

template <class T>
LayerWeights<T> weights_from_linear(const LayerShape& shape, const PackedLinearWeights<T>& linear)
{
    const LayerShape s = resolved(shape);
    const std::int64_t k_first = s.heads * s.d_k;
    const std::int64_t v_first = k_first + s.kv_heads * s.d_k;
    const Extent d_model{s.d_model, "d_model"};
    const Extent rows{v_first + s.kv_heads * s.d_v, "h * d_k + h_kv * d_k + h_kv * d_v"};
    if (s.d_model_kv != s.d_model)
        Check("weights_from_linear")
            .fail("d_model_kv", std::to_string(s.d_model_kv), "d_model, since W_qkv has one width for all");
    check_matrix("W_qkv", linear.W_qkv, rows, d_model);
    check_matrix("W_o", linear.W_o, d_model, {s.heads * s.d_v, "h * d_v"});
    check_bias("b_qkv", linear.b_qkv, rows);
    check_bias("b_o", linear.b_o, d_model);
    return {per_head(linear.W_qkv, 0, s.heads, s.d_k),
            per_head(linear.W_qkv, k_first, s.kv_heads, s.d_k),
            per_head(linear.W_qkv, v_first, s.kv_heads, s.d_v),
            transposed(linear.W_o),
            bias_per_head(linear.b_qkv, 0, s.heads, s.d_k),
            bias_per_head(linear.b_qkv, k_first, s.kv_heads, s.d_k),
            bias_per_head(linear.b_qkv, v_first, s.kv_heads, s.d_v),
            linear.b_o};
}

template LayerWeights<float> weights_from_linear(const LayerShape&, const LinearWeights<float>&);
template LayerWeights<double> weights_from_linear(const LayerShape&, const LinearWeights<double>&);
template LayerWeights<float> weights_from_linear(const LayerShape&, const PackedLinearWeights<float>&);
template LayerWeights<double> weights_from_linear(const LayerShape&, const PackedLinearWeights<double>&);

}  // namespace headwise
