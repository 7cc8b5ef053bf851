// Cases of the operator: sdpa and onnx.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <headwise/attention.hpp>
#include <headwise/kv_cache.hpp>
#include <headwise/reference.hpp>

#include "options.hpp"
#include "run_case.hpp"

namespace headwise::cases {

namespace {

/// (b, n, heads * width) seen as (b, heads, n, width), in place.
template <class U>
TensorView<U, 4> split_heads(const TensorView<U, 3>& rows, std::int64_t heads, const std::string& name)
{
    if (heads < 1 || rows.shape[2] % heads != 0)
        throw BadCase(name + " has rows of " + std::to_string(rows.shape[2]) + " for " + std::to_string(heads) +
                      " heads");
    const std::int64_t width = rows.shape[2] / heads;
    return {rows.data,
            {rows.shape[0], heads, rows.shape[1], width},
            {rows.strides[0], width * rows.strides[2], rows.strides[1], rows.strides[2]}};
}

/// in.NAME (b, heads, n, width), or of rank 3 with the number of heads in an attribute.
template <class T>
TensorView<const T, 4> read_heads(const Case& test, const std::string& name, const std::string& heads_attribute)
{
    const Tensor& tensor = test.required_input(name);
    const std::string what = "in." + name;
    const std::int64_t heads = test.integer(heads_attribute, 0);
    if (tensor.rank() == 3) return split_heads(view<T, 3>(tensor, what), heads, what);
    if (tensor.rank() != 4) throw BadCase(what + " is " + describe(tensor) + ", expected rank 3 or 4");
    if (test.has_attribute(heads_attribute) && heads != tensor.shape()[1])
        throw BadCase(what + " is " + describe(tensor) + ", attr." + heads_attribute + " is " + std::to_string(heads));
    return view<T, 4>(tensor, what);
}

/// in.past_NAME (b, h_kv, n_past, width), to lie before `added`; without tokens where there is no such input.
template <class T>
TensorView<const T, 4> read_past(const Case& test, const std::string& name, const TensorView<const T, 4>& added)
{
    auto shape = added.shape;
    shape[2] = 0;
    const Tensor* const tensor = test.input("past_" + name);
    if (tensor == nullptr) return {nullptr, shape};
    const auto past = view<T, 4>(*tensor, "in.past_" + name);
    shape[2] = past.shape[2];
    if (past.shape != shape)
        throw BadCase("in.past_" + name + " is " + describe(past.shape) + " before " + describe(added.shape));
    return past;
}

/// A new output present_NAME, with room for the tokens of `past` and `added`.
template <class T>
TensorView<T, 4> add_present(Outputs& outputs, const std::string& name, const TensorView<const T, 4>& past,
                             const TensorView<const T, 4>& added)
{
    const auto [b, heads, n, width] = added.shape;
    Tensor present(DTypeOf<T>::value, {b, heads, past.shape[2] + n, width});
    return mutable_view<T, 4>(outputs.insert_or_assign("present_" + name, std::move(present)).first->second, name);
}

/// Keys and values, and the cache that they are appended to where there is one.
template <class T>
struct KeysAndValues {
    TensorView<const T, 4> K;
    TensorView<const T, 4> V;
    std::optional<PastAndPresent<T>> cache;

    std::optional<std::int64_t> past() const
    {
        if (cache) return cache->past_key.shape[2];
        return {};
    }
    std::int64_t all_keys() const { return past().value_or(0) + K.shape[2]; }
};

/// Reads K, V and the cache; creates present_key and present_value in `outputs` where there is a cache or the case
/// expects them.
template <class T>
KeysAndValues<T> read_keys_and_values(const Case& test, Outputs& outputs)
{
    KeysAndValues<T> result{read_heads<T>(test, "K", "kv_num_heads"), read_heads<T>(test, "V", "kv_num_heads"), {}};
    const bool past = test.input("past_key") != nullptr;
    if (past != (test.input("past_value") != nullptr)) throw BadCase("past_key and past_value go together");
    const bool present = test.expected("present_key") != nullptr;
    if (present != (test.expected("present_value") != nullptr))
        throw BadCase("present_key and present_value go together");
    if (!past && !present) return result;

    PastAndPresent<T> cache{.past_key = read_past(test, "key", result.K),
                            .past_value = read_past(test, "value", result.V)};
    cache.present_key = add_present(outputs, "key", cache.past_key, result.K);
    cache.present_value = add_present(outputs, "value", cache.past_value, result.V);
    result.cache = cache;
    return result;
}

template <class T>
void check_shapes(const TensorView<const T, 4>& Q, const KeysAndValues<T>& kv)
{
    const auto& K = kv.K.shape;
    if (K != std::array{Q.shape[0], K[1], K[2], Q.shape[3]} || K[1] < 1 || Q.shape[1] % K[1] != 0)
        throw BadCase("in.K as heads is " + describe(K) + ", in.Q " + describe(Q.shape));
    if (kv.V.shape != std::array{K[0], K[1], K[2], kv.V.shape[3]})
        throw BadCase("in.V as heads is " + describe(kv.V.shape) + ", in.K " + describe(K));
}

template <class T>
void run_call(const TensorView<const T, 4>& Q, const KeysAndValues<T>& kv, const TensorView<T, 4>& Y,
              const AttentionOptions<T>& options, Implementation implementation)
{
    if (implementation == Implementation::reference) {
        if (kv.cache) reference::attention_with_past(Q, kv.K, kv.V, *kv.cache, Y, options);
        else reference::attention(Q, kv.K, kv.V, Y, options);
    } else {
        if (kv.cache) attention_with_past(Q, kv.K, kv.V, *kv.cache, Y, options);
        else attention(Q, kv.K, kv.V, Y, options);
    }
}

template <class T>
Outputs attention_of(const Case& test, Implementation implementation)
{
    Outputs outputs;
    const TensorView<const T, 4> Q = read_heads<T>(test, "Q", "q_num_heads");
    const KeysAndValues<T> kv = read_keys_and_values<T>(test, outputs);
    check_shapes(Q, kv);
    const auto [b, h, n_q, d_k] = Q.shape;
    const std::int64_t d_v = kv.V.shape[3];
    const CallSizes sizes{.b = b, .h = h, .n_q = n_q, .n_kv = kv.all_keys(), .batched = true, .past = kv.past()};
    const CallOptions<T> call = read_options<T>(test, sizes, outputs);

    const bool rows = test.required_input("Q").rank() == 3;
    Tensor Y(DTypeOf<T>::value, rows ? std::vector{b, n_q, h * d_v} : std::vector{b, h, n_q, d_v});
    const TensorView<T, 4> Y_heads =
        rows ? split_heads(mutable_view<T, 3>(Y, "out.Y"), h, "out.Y") : mutable_view<T, 4>(Y, "out.Y");
    test.expected("Y");
    test.require_all_used();

    run_call(Q, kv, Y_heads, call.options, implementation);
    outputs.insert_or_assign("Y", std::move(Y));
    return outputs;
}

/// The numbers of ONNX's TensorProto.DataType that softmax_precision may have.
enum class SoftmaxPrecision : std::int64_t { none = 0, float32 = 1, float16 = 10, float64 = 11, bfloat16 = 16 };

/// Whether the softmax must be computed in double though the tensors are narrower. The library computes in float or
/// double, which is as precise as any other type that can be asked for.
bool wants_double(const Case& test, DType type)
{
    switch (const std::int64_t number = test.integer("softmax_precision", 0); static_cast<SoftmaxPrecision>(number)) {
        case SoftmaxPrecision::none:
        case SoftmaxPrecision::float32:
        case SoftmaxPrecision::float16:
        case SoftmaxPrecision::bfloat16: return false;
        case SoftmaxPrecision::float64: return type != DType::f64;
        default: throw NotSupported("attr.softmax_precision " + std::to_string(number));
    }
}

}  // namespace

Outputs run_attention(const Case& test, Implementation implementation)
{
    const DType type = test.required_input("Q").type();
    if (wants_double(test, type)) return run_attention(test.widened(), implementation);
    return with_element_type(type, [&]<class T>() { return attention_of<T>(test, implementation); });
}

}  // namespace headwise::cases
