// Cases of the operator: sdpa and onnx.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <headwise/attention.hpp>
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

/// The rows of `past` (b, h_kv, n_past, width) followed by those of `added` (b, h_kv, n, width).
template <class T>
Tensor append(const TensorView<const T, 4>& past, const TensorView<const T, 4>& added, const std::string& name)
{
    const auto [b, heads, n, width] = added.shape;
    const std::int64_t n_past = past.shape[2];
    if (past.shape != std::array{b, heads, n_past, width})
        throw BadCase("in.past_" + name + " is " + describe(past.shape) + " before " + describe(added.shape));
    Tensor present(DTypeOf<T>::value, {b, heads, n_past + n, width});
    T* to = present.data<T>();
    for (std::int64_t i = 0; i < b; ++i)
        for (std::int64_t head = 0; head < heads; ++head)
            for (std::int64_t token = 0; token < n_past + n; ++token)
                for (std::int64_t c = 0; c < width; ++c)
                    *to++ = token < n_past ? past(i, head, token, c) : added(i, head, token - n_past, c);
    return present;
}

/// Keys and values, those of a cache in front.
template <class T>
struct KeysAndValues {
    TensorView<const T, 4> K;
    TensorView<const T, 4> V;
    std::optional<std::int64_t> past;
};

/// Reads K, V and the cache; leaves present_key and present_value in `outputs` where there is a cache or the case
/// expects them.
template <class T>
KeysAndValues<T> read_keys_and_values(const Case& test, Outputs& outputs)
{
    KeysAndValues<T> result{read_heads<T>(test, "K", "kv_num_heads"), read_heads<T>(test, "V", "kv_num_heads"), {}};
    const Tensor* const past_key = test.input("past_key");
    const Tensor* const past_value = test.input("past_value");
    if ((past_key == nullptr) != (past_value == nullptr)) throw BadCase("past_key and past_value go together");
    const bool expected = test.expected("present_key") != nullptr;
    if (expected != (test.expected("present_value") != nullptr))
        throw BadCase("present_key and present_value go together");
    if (past_key == nullptr && !expected) return result;

    const auto with_past = [&outputs](const Tensor* past, TensorView<const T, 4>& added, const std::string& name) {
        auto before = added;
        before.shape[2] = 0;
        if (past != nullptr) before = view<T, 4>(*past, "in.past_" + name);
        const Tensor& present =
            outputs.insert_or_assign("present_" + name, append<T>(before, added, name)).first->second;
        added = view<T, 4>(present, "present_" + name);
        return before.shape[2];
    };
    const std::int64_t n_past = with_past(past_key, result.K, "key");
    with_past(past_value, result.V, "value");
    if (past_key != nullptr) result.past = n_past;
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
Outputs attention_of(const Case& test, Implementation implementation)
{
    Outputs outputs;
    const TensorView<const T, 4> Q = read_heads<T>(test, "Q", "q_num_heads");
    const KeysAndValues<T> kv = read_keys_and_values<T>(test, outputs);
    check_shapes(Q, kv);
    const auto [b, h, n_q, d_k] = Q.shape;
    const std::int64_t d_v = kv.V.shape[3];
    const CallSizes sizes{.b = b, .h = h, .n_q = n_q, .n_kv = kv.K.shape[2], .batched = true, .past = kv.past};
    const CallOptions<T> call = read_options<T>(test, sizes, outputs);

    const bool rows = test.required_input("Q").rank() == 3;
    Tensor Y(DTypeOf<T>::value, rows ? std::vector{b, n_q, h * d_v} : std::vector{b, h, n_q, d_v});
    const TensorView<T, 4> Y_heads =
        rows ? split_heads(mutable_view<T, 3>(Y, "out.Y"), h, "out.Y") : mutable_view<T, 4>(Y, "out.Y");
    test.expected("Y");
    test.require_all_used();

    if (implementation == Implementation::reference) reference::attention(Q, kv.K, kv.V, Y_heads, call.options);
    else attention(Q, kv.K, kv.V, Y_heads, call.options);
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
