#include "options.hpp"

#include <array>
#include <string>
#include <utility>

namespace headwise::cases {

namespace {

/// in.NAME, a vector of integers for the batch items; empty where it is missing.
std::vector<std::int64_t> read_item_integers(const Case& test, const std::string& name, std::int64_t b)
{
    const Tensor* const tensor = test.input(name);
    if (tensor == nullptr) return {};
    if (tensor->type() != DType::i64 && tensor->type() != DType::i32)
        throw NotSupported("in." + name + " of " + std::string(cases::name(tensor->type())));
    require_shape(*tensor, {b}, "in." + name);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < b; ++i)
        numbers.push_back(tensor->type() == DType::i64 ? tensor->data<std::int64_t>()[i]
                                                       : tensor->data<std::int32_t>()[i]);
    return numbers;
}

/// in.NAME, a number for each head, in the type the library takes it in; empty where it is missing.
template <class Number>
std::vector<Number> read_head_numbers(const Case& test, const std::string& name, std::int64_t h)
{
    const Tensor* const tensor = test.input(name);
    if (tensor == nullptr) return {};
    require_shape(*tensor, {h}, "in." + name);
    std::vector<Number> numbers;
    for (std::int64_t i = 0; i < h; ++i) numbers.push_back(static_cast<Number>(tensor->number(i)));
    return numbers;
}

template <class U>
VectorView<const U> vector_view(const std::vector<U>& numbers)
{
    if (numbers.empty()) return {};
    return {numbers.data(), {static_cast<std::int64_t>(numbers.size())}};
}

/// Rank 1 to 4, aligned at the last dimension; each extent is 1 or the full one, the last may be shorter.
void check_mask_shape(const Tensor& mask, const CallSizes& sizes)
{
    const std::array<std::int64_t, 4> full{sizes.b, sizes.h, sizes.n_q, sizes.n_kv};
    bool fits = mask.rank() >= 1 && mask.rank() <= 4;
    for (std::size_t back = 1; fits && back <= mask.rank(); ++back) {
        const std::int64_t extent = mask.shape()[mask.rank() - back];
        const std::int64_t wanted = full[4 - back];
        fits = extent == 1 || extent == wanted || (back == 1 && extent < wanted);
    }
    if (!fits)
        throw BadCase("in.attn_mask is " + describe(mask) + ", expected one that broadcasts to " + describe(full));
}

Mask read_mask(const Case& test, const CallSizes& sizes)
{
    const Tensor* const mask = test.input("attn_mask");
    if (mask == nullptr) return {};
    check_mask_shape(*mask, sizes);
    const auto of_type = [mask]<class U>() -> Mask {
        // Rank by rank and not as rank 4, so that Mask's own broadcast of missing dimensions is what runs.
        switch (mask->rank()) {
            case 1: return view<U, 1>(*mask, "in.attn_mask");
            case 2: return view<U, 2>(*mask, "in.attn_mask");
            case 3: return view<U, 3>(*mask, "in.attn_mask");
            default: return view<U, 4>(*mask, "in.attn_mask");
        }
    };
    if (mask->type() == DType::boolean) return of_type.template operator()<bool>();
    return with_element_type(mask->type(), of_type);
}

/// Where query 0 of each batch item stands; with a past the call knows that itself.
///
/// onnx: with lengths, so that the last query stands at the last valid key (windows count from there too). The other
/// kinds: query_offset; the lengths decide only where the case is causal.
template <class T>
void read_positions(const Case& test, const CallSizes& sizes, CallOptions<T>& call)
{
    if (sizes.past) return;
    const bool onnx = test.op() == "onnx";
    if (!onnx) call.options.query_offset = test.integer("query_offset", 0);

    call.query_offsets = read_item_integers(test, "query_offsets", sizes.b);
    if (call.query_offsets.empty() && (onnx || call.options.causal))
        for (const std::int64_t length : call.kv_lengths) call.query_offsets.push_back(length - sizes.n_q);
    call.options.query_offsets = vector_view(call.query_offsets);
}

template <class T, int Rank>
TensorView<T, Rank> add_output(Outputs& outputs, const std::string& name, std::vector<std::int64_t> shape)
{
    Tensor& tensor = outputs.insert_or_assign(name, Tensor(DTypeOf<T>::value, std::move(shape))).first->second;
    return mutable_view<T, Rank>(tensor, "out." + name);
}

template <class T>
void request_outputs(const Case& test, const CallSizes& sizes, AttentionOptions<T>& options, Outputs& outputs)
{
    const auto pairs = sizes.with_batch({sizes.h, sizes.n_q, sizes.n_kv});
    if (test.expected("weights")) options.weights = add_output<T, 4>(outputs, "weights", pairs);
    if (test.expected("mean_weights"))
        options.mean_weights = add_output<T, 3>(outputs, "mean_weights", sizes.with_batch({sizes.n_q, sizes.n_kv}));

    const std::int64_t stage = test.integer("qk_matmul_output_mode", 0);
    if (stage < 0 || stage > 3) throw BadCase("attr.qk_matmul_output_mode is " + std::to_string(stage));
    if (test.expected("qk_matmul_output")) {
        options.scores = add_output<T, 4>(outputs, "qk_matmul_output", pairs);
        options.score_stage = static_cast<ScoreStage>(stage);
    }
    for (const char* name : {"lse", "log_sum_exp"})
        if (test.expected(name))
            options.log_sum_exp = add_output<compute_t<T>, 3>(outputs, name, sizes.with_batch({sizes.h, sizes.n_q}));
}

}  // namespace

std::vector<std::int64_t> CallSizes::with_batch(std::vector<std::int64_t> shape) const
{
    if (batched) shape.insert(shape.begin(), b);
    return shape;
}

void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, const std::string& name)
{
    if (tensor.shape() != shape)
        throw BadCase(name + " is " + describe(tensor) + ", expected shape " + describe(shape));
}

template <class T>
CallOptions<T> read_options(const Case& test, const CallSizes& sizes, Outputs& outputs)
{
    CallOptions<T> call;
    AttentionOptions<T>& options = call.options;
    options.scale = test.real("scale");
    options.softcap = test.real("softcap").value_or(0);
    options.causal = test.flag("is_causal");
    options.left_window = test.integer("left_window_size", -1);
    options.right_window = test.integer("right_window_size", -1);

    call.kv_lengths = read_item_integers(test, "nonpad_kv_seqlen", sizes.b);
    for (const std::int64_t length : call.kv_lengths)
        if (length < 0 || length > sizes.n_kv)
            throw BadCase("in.nonpad_kv_seqlen has " + std::to_string(length) + ", expected 0 to " +
                          std::to_string(sizes.n_kv));
    options.kv_lengths = vector_view(call.kv_lengths);
    read_positions(test, sizes, call);

    options.mask = read_mask(test, sizes);
    call.sinks = read_head_numbers<compute_t<T>>(test, "sinks", sizes.h);
    options.sinks = vector_view(call.sinks);
    for (const char* name : {"alibi", "alibi_slopes"})
        if (auto slopes = read_head_numbers<compute_t<T>>(test, name, sizes.h); !slopes.empty())
            call.alibi = std::move(slopes);
    options.alibi = vector_view(call.alibi);

    request_outputs(test, sizes, options, outputs);
    return call;
}

template CallOptions<float> read_options(const Case&, const CallSizes&, Outputs&);
template CallOptions<double> read_options(const Case&, const CallSizes&, Outputs&);
template CallOptions<float16> read_options(const Case&, const CallSizes&, Outputs&);
template CallOptions<bfloat16> read_options(const Case&, const CallSizes&, Outputs&);

}  // namespace headwise::cases
