// The layer of the C interface.
#include <headwise/headwise.h>

#include <string_view>
#include <variant>

#include <headwise/multi_head_attention.hpp>

#include "c_status.hpp"
#include "c_views.hpp"

using namespace headwise;
using namespace headwise::c_interface;

struct headwise_layer {
    std::variant<BasicMultiHeadAttention<float>, BasicMultiHeadAttention<double>> layer;
};

namespace {

/// X_kv: null in self-attention.
template <class T>
void run_forward(const Check& check, const BasicMultiHeadAttention<T>& layer, const headwise_tensor* X,
                 const headwise_tensor* X_kv, const headwise_tensor* Y, const headwise_attention_options* given)
{
    const auto x = view<const T, 3>(check, "X", X);
    const auto x_kv = X_kv == nullptr ? x : view<const T, 3>(check, "X_kv", X_kv);
    const auto y = view<T, 3>(check, "Y", Y);
    run_with_options<T>(check, given, [&](const AttentionOptions<T>& options) { layer.forward(x, x_kv, y, options); });
}

LayerShape shape_from(const Check& check, const headwise_layer_shape* given)
{
    const headwise_layer_shape s = read_struct(check, "shape", given);
    return {s.d_model, s.heads, s.kv_heads, s.d_k, s.d_v, s.d_model_kv};
}

template <class T>
LayerWeights<T> per_head_weights(const Check& check, const headwise_layer_weights& w)
{
    return {view<const T, 3>(check, "W_q", w.W_q),          view<const T, 3>(check, "W_k", w.W_k),
            view<const T, 3>(check, "W_v", w.W_v),          view<const T, 2>(check, "W_o", w.W_o),
            optional_view<const T, 2>(check, "b_q", w.b_q), optional_view<const T, 2>(check, "b_k", w.b_k),
            optional_view<const T, 2>(check, "b_v", w.b_v), optional_view<const T, 1>(check, "b_o", w.b_o)};
}

template <class T>
LinearWeights<T> linear_weights(const Check& check, const headwise_layer_weights& w)
{
    return {view<const T, 2>(check, "W_q", w.W_q),          view<const T, 2>(check, "W_k", w.W_k),
            view<const T, 2>(check, "W_v", w.W_v),          view<const T, 2>(check, "W_o", w.W_o),
            optional_view<const T, 1>(check, "b_q", w.b_q), optional_view<const T, 1>(check, "b_k", w.b_k),
            optional_view<const T, 1>(check, "b_v", w.b_v), optional_view<const T, 1>(check, "b_o", w.b_o)};
}

template <class T>
PackedLinearWeights<T> packed_weights(const Check& check, const headwise_packed_weights& w)
{
    return {view<const T, 2>(check, "W_qkv", w.W_qkv), view<const T, 2>(check, "W_o", w.W_o),
            optional_view<const T, 1>(check, "b_qkv", w.b_qkv), optional_view<const T, 1>(check, "b_o", w.b_o)};
}

/// *layer = a new layer of T. weights_of(T{}) gives the weights; `first` decides on T.
template <class WeightsOf>
void create_layer(const Check& check, const LayerShape& shape, std::string_view first_name,
                  const headwise_tensor* first, headwise_layer** layer, const WeightsOf& weights_of)
{
    check_tensor(check, first_name, first);
    switch (first->element_type) {
        case HEADWISE_FLOAT32:
            *layer = new headwise_layer{BasicMultiHeadAttention<float>(shape, weights_of(float{}))};
            return;
        case HEADWISE_FLOAT64:
            *layer = new headwise_layer{BasicMultiHeadAttention<double>(shape, weights_of(double{}))};
            return;
        default:
            check.fail(first_name, "of element type " + element_type_text(first->element_type), "float32 or float64");
    }
}

void check_layer_pointer(const Check& check, headwise_layer** layer)
{
    check_pointer(check, "layer", layer);
    *layer = nullptr;
}

}  // namespace

headwise_status headwise_layer_create(const headwise_layer_shape* shape, const headwise_layer_weights* weights,
                                      headwise_layer** layer)
{
    return status_of([&] {
        const Check check("headwise_layer_create");
        check_layer_pointer(check, layer);
        const LayerShape sizes = shape_from(check, shape);
        const headwise_layer_weights read = read_struct(check, "weights", weights);
        create_layer(check, sizes, "W_q", read.W_q, layer,
                     [&]<class T>(T) { return per_head_weights<T>(check, read); });
    });
}

headwise_status headwise_layer_create_from_linear(const headwise_layer_shape* shape,
                                                  const headwise_layer_weights* weights, headwise_layer** layer)
{
    return status_of([&] {
        const Check check("headwise_layer_create_from_linear");
        check_layer_pointer(check, layer);
        const LayerShape sizes = shape_from(check, shape);
        const headwise_layer_weights read = read_struct(check, "weights", weights);
        create_layer(check, sizes, "W_q", read.W_q, layer, [&]<class T>(T) { return linear_weights<T>(check, read); });
    });
}

headwise_status headwise_layer_create_from_packed(const headwise_layer_shape* shape,
                                                  const headwise_packed_weights* weights, headwise_layer** layer)
{
    return status_of([&] {
        const Check check("headwise_layer_create_from_packed");
        check_layer_pointer(check, layer);
        const LayerShape sizes = shape_from(check, shape);
        const headwise_packed_weights read = read_struct(check, "weights", weights);
        create_layer(check, sizes, "W_qkv", read.W_qkv, layer,
                     [&]<class T>(T) { return packed_weights<T>(check, read); });
    });
}

void headwise_layer_destroy(headwise_layer* layer)
{
    delete layer;
}

headwise_status headwise_layer_get_shape(const headwise_layer* layer, headwise_layer_shape* shape)
{
    return status_of([&] {
        const Check check("headwise_layer_get_shape");
        check_pointer(check, "layer", layer);
        const LayerShape& s = std::visit([](const auto& l) -> const LayerShape& { return l.shape(); }, layer->layer);
        write_struct(check, "shape", shape, {0, s.d_model, s.heads, s.kv_heads, s.d_k, s.d_v, s.d_model_kv});
    });
}

headwise_status headwise_layer_forward(const headwise_layer* layer, const headwise_tensor* X, const headwise_tensor* Y,
                                       const headwise_attention_options* options)
{
    return status_of([&] {
        const Check check("headwise_layer_forward");
        check_pointer(check, "layer", layer);
        std::visit([&](const auto& l) { run_forward(check, l, X, nullptr, Y, options); }, layer->layer);
    });
}

headwise_status headwise_layer_forward_cross(const headwise_layer* layer, const headwise_tensor* X,
                                             const headwise_tensor* X_kv, const headwise_tensor* Y,
                                             const headwise_attention_options* options)
{
    return status_of([&] {
        const Check check("headwise_layer_forward_cross");
        check_pointer(check, "layer", layer);
        check_tensor(check, "X_kv", X_kv);
        std::visit([&](const auto& l) { run_forward(check, l, X, X_kv, Y, options); }, layer->layer);
    });
}
