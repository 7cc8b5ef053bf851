// Cases of the layer.
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headwise/multi_head_attention.hpp>
#include <headwise/reference.hpp>

#include "options.hpp"
#include "run_case.hpp"

namespace headwise::cases {

namespace {

const Tensor& input_of_rank(const Case& test, const std::string& name, std::size_t rank)
{
    const Tensor& tensor = test.required_input(name);
    if (tensor.rank() != rank)
        throw BadCase("in." + name + " is " + describe(tensor) + ", expected rank " + std::to_string(rank));
    return tensor;
}

LayerShape read_shape(const Case& test)
{
    const auto W_q = input_of_rank(test, "W_q", 3).shape();
    const auto W_k = input_of_rank(test, "W_k", 3).shape();
    const auto W_v = input_of_rank(test, "W_v", 3).shape();
    const LayerShape shape{
        .d_model = W_q[1], .heads = W_q[0], .kv_heads = W_k[0], .d_k = W_q[2], .d_v = W_v[2], .d_model_kv = W_k[1]};
    require_shape(test.required_input("W_k"), {shape.kv_heads, shape.d_model_kv, shape.d_k}, "in.W_k");
    require_shape(test.required_input("W_v"), {shape.kv_heads, shape.d_model_kv, shape.d_v}, "in.W_v");
    require_shape(test.required_input("W_o"), {shape.heads * shape.d_v, shape.d_model}, "in.W_o");
    return shape;
}

template <class T, int Rank>
TensorView<const T, Rank> read_bias(const Case& test, const std::string& name, const std::vector<std::int64_t>& shape)
{
    const Tensor* const tensor = test.input(name);
    if (tensor == nullptr) return {};
    require_shape(*tensor, shape, "in." + name);
    return view<T, Rank>(*tensor, "in." + name);
}

template <class T>
LayerWeights<T> read_weights(const Case& test, const LayerShape& shape)
{
    return {.W_q = view<T, 3>(test.required_input("W_q"), "in.W_q"),
            .W_k = view<T, 3>(test.required_input("W_k"), "in.W_k"),
            .W_v = view<T, 3>(test.required_input("W_v"), "in.W_v"),
            .W_o = view<T, 2>(test.required_input("W_o"), "in.W_o"),
            .b_q = read_bias<T, 2>(test, "b_q", {shape.heads, shape.d_k}),
            .b_k = read_bias<T, 2>(test, "b_k", {shape.kv_heads, shape.d_k}),
            .b_v = read_bias<T, 2>(test, "b_v", {shape.kv_heads, shape.d_v}),
            .b_o = read_bias<T, 1>(test, "b_o", {shape.d_model})};
}

/// X (n, d_model) or (b, n, d_model), and X_kv of the same rank, which is X in self-attention.
CallSizes read_sizes(const Case& test, const LayerShape& shape)
{
    const Tensor& X = test.required_input("X");
    if (X.rank() != 2 && X.rank() != 3) throw BadCase("in.X is " + describe(X) + ", expected rank 2 or 3");
    const Tensor* const given = test.input("X_kv");
    const Tensor& X_kv = given == nullptr ? X : *given;
    if (X_kv.rank() != X.rank()) throw BadCase("in.X is " + describe(X) + ", in.X_kv " + describe(X_kv));

    const bool batched = X.rank() == 3;
    CallSizes sizes{.b = batched ? X.shape()[0] : 1,
                    .h = shape.heads,
                    .n_q = X.shape()[X.rank() - 2],
                    .n_kv = X_kv.shape()[X.rank() - 2],
                    .batched = batched,
                    .past = {}};
    require_shape(X, sizes.with_batch({sizes.n_q, shape.d_model}), "in.X");
    require_shape(X_kv, sizes.with_batch({sizes.n_kv, shape.d_model_kv}), given == nullptr ? "in.X" : "in.X_kv");
    return sizes;
}

template <class T>
Outputs layer_of(const Case& test, Implementation implementation)
{
    const LayerShape shape = read_shape(test);
    const LayerWeights<T> weights = read_weights<T>(test, shape);
    const CallSizes sizes = read_sizes(test, shape);
    const TensorView<const T, 3> X = view<T, 3>(test.required_input("X"), "in.X");
    const Tensor* const given = test.input("X_kv");
    const TensorView<const T, 3> X_kv = given == nullptr ? X : view<T, 3>(*given, "in.X_kv");

    Outputs outputs;
    const CallOptions<T> call = read_options<T>(test, sizes, outputs);
    Tensor Y(DTypeOf<T>::value, sizes.with_batch({sizes.n_q, shape.d_model}));
    const TensorView<T, 3> Y_view = mutable_view<T, 3>(Y, "out.Y");
    test.expected("Y");
    test.require_all_used();

    if (implementation == Implementation::reference) {
        reference::multi_head_attention(shape, weights, X, X_kv, Y_view, call.options);
    } else {
        const BasicMultiHeadAttention<T> layer(shape, weights);
        if (given == nullptr) layer.forward(X, Y_view, call.options);
        else layer.forward(X, X_kv, Y_view, call.options);
    }
    outputs.insert_or_assign("Y", std::move(Y));
    return outputs;
}

}  // namespace

Outputs run_layer(const Case& test, Implementation implementation)
{
    return with_element_type(test.required_input("X").type(), [&]<class T>() -> Outputs {
        if constexpr (std::is_floating_point_v<T>) return layer_of<T>(test, implementation);
        else throw NotSupported("a layer of " + std::string(name(DTypeOf<T>::value)));
    });
}

Outputs run_case(const Case& test, Implementation implementation)
{
    if (test.has_gradients() && test.expected_forward().empty()) throw NotSupported("gradients");
    const std::string op = test.op();
    if (op == "layer") return run_layer(test, implementation);
    if (op == "sdpa" || op == "onnx") return run_attention(test, implementation);
    throw NotSupported("op " + op);
}

}  // namespace headwise::cases
