// From the structs of the C interface to the views and options of C++. What C++ checks is left to it; here is checked
// what its types rule out: null pointers, struct sizes, element types, ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include <headwise/headwise.h>
#include <headwise/attention.hpp>

#include "check.hpp"

namespace headwise::c_interface {

// Sizes that the first version's structs had: programs compiled with it send these whatever is added at the end later.
template <class S>
constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<headwise_attention_options> = 152;
template <>
inline constexpr std::size_t first_size<headwise_work_report> = 120;
template <>
inline constexpr std::size_t first_size<headwise_past_and_present> = 40;
template <>
inline constexpr std::size_t first_size<headwise_kv_cache_shape> = 56;
template <>
inline constexpr std::size_t first_size<headwise_kv_cache_views> = 328;
template <>
inline constexpr std::size_t first_size<headwise_layer_shape> = 56;
template <>
inline constexpr std::size_t first_size<headwise_layer_weights> = 72;
template <>
inline constexpr std::size_t first_size<headwise_packed_weights> = 40;

/// No version will have a larger struct: a size beyond it was never set.
constexpr std::size_t largest_size = 4096;

void check_pointer(const Check& check, std::string_view name, const void* pointer);

void check_struct_size(const Check& check, std::string_view name, std::size_t size, std::size_t least);

/// Fails unless the bytes [known, size) of a struct are 0: fields of a later version, at their defaults.
void check_unknown_fields(const Check& check, std::string_view name, const void* given, std::size_t known,
                          std::size_t size);

/// A struct that is only read, with zeroes for the fields that the caller's version lacks.
template <class S>
S read_struct(const Check& check, std::string_view name, const S* given)
{
    static_assert(first_size<S> > 0 && sizeof(S) >= first_size<S> && std::is_trivially_copyable_v<S>);
    if (given == nullptr) check.fail(name, "null", "a struct");
    const std::size_t size = given->struct_size;
    check_struct_size(check, name, size, first_size<S>);
    if (size > sizeof(S)) check_unknown_fields(check, name, given, sizeof(S), size);
    S copy{};
    std::memcpy(&copy, given, std::min(size, sizeof(S)));
    return copy;
}

/// Fills a struct of the caller's but for struct_size, as far as the caller's version knows its fields.
template <class S>
void write_struct(const Check& check, std::string_view name, S* given, S values)
{
    static_assert(first_size<S> > 0 && sizeof(S) >= first_size<S> && std::is_trivially_copyable_v<S>);
    check_pointer(check, name, given);
    check_struct_size(check, name, given->struct_size, first_size<S>);
    values.struct_size = given->struct_size;
    std::memcpy(given, &values, std::min(given->struct_size, sizeof(S)));
}

template <class T>
constexpr headwise_element_type element_type_of = 0;
template <>
inline constexpr headwise_element_type element_type_of<bool> = HEADWISE_BOOLEAN;
template <>
inline constexpr headwise_element_type element_type_of<float> = HEADWISE_FLOAT32;
template <>
inline constexpr headwise_element_type element_type_of<double> = HEADWISE_FLOAT64;
template <>
inline constexpr headwise_element_type element_type_of<bfloat16> = HEADWISE_BFLOAT16;
template <>
inline constexpr headwise_element_type element_type_of<float16> = HEADWISE_FLOAT16;
template <>
inline constexpr headwise_element_type element_type_of<std::int64_t> = HEADWISE_INT64;

/// "float32"; "7, which is none" for a number that is no element type.
std::string element_type_text(headwise_element_type type);

/// Fails unless the tensor is there and has a known element type.
void check_tensor(const Check& check, std::string_view name, const headwise_tensor* tensor);

/// Fails unless the tensor has this element type and a rank up to `largest_rank`.
void check_layout(const Check& check, std::string_view name, const headwise_tensor& tensor, headwise_element_type type,
                  std::int32_t largest_rank);

/// The tensor as a view of Rank dimensions, with leading ones where its own rank is lower.
template <class T, int Rank>
TensorView<T, Rank> view(const Check& check, std::string_view name, const headwise_tensor* tensor)
{
    check_tensor(check, name, tensor);
    check_layout(check, name, *tensor, element_type_of<std::remove_const_t<T>>, Rank);
    TensorView<T, Rank> view;
    view.data = static_cast<T*>(tensor->data);
    view.shape.fill(1);
    const auto missing = static_cast<std::size_t>(Rank - tensor->rank);
    for (std::size_t r = missing; r < Rank; ++r) {
        view.shape[r] = tensor->shape[r - missing];
        view.strides[r] = tensor->strides[r - missing];
    }
    return view;
}

/// As view; a null pointer is a tensor that is not given.
template <class T, int Rank>
TensorView<T, Rank> optional_view(const Check& check, std::string_view name, const headwise_tensor* tensor)
{
    if (tensor == nullptr) return {};
    auto given = view<T, Rank>(check, name, tensor);
    // To C++ null data with extents of 0 only would be "not given"; this tensor is given, and empty.
    static std::remove_const_t<T> nothing{};
    if (!given.given()) given.data = &nothing;
    return given;
}

/// A view as a tensor. What is const stays so by the caller's word.
template <class T, int Rank>
headwise_tensor tensor_from(const TensorView<const T, Rank>& view)
{
    headwise_tensor tensor{const_cast<T*>(view.data), element_type_of<T>, Rank, {}, {}};
    std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
    std::copy(view.strides.begin(), view.strides.end(), tensor.strides);
    return tensor;
}

/// run(T{}) with the T of tensors of this element type, one that attention is computed in.
template <class Run>
void with_element_type(const Check& check, std::string_view name, headwise_element_type type, const Run& run)
{
    switch (type) {
        case HEADWISE_FLOAT32: return run(float{});
        case HEADWISE_FLOAT64: return run(double{});
        case HEADWISE_BFLOAT16: return run(bfloat16{});
        case HEADWISE_FLOAT16: return run(float16{});
        default:
            check.fail(name, "of element type " + element_type_text(type), "float32, float64, bfloat16 or float16");
    }
}

Mask mask_from(const Check& check, const headwise_tensor* tensor);

/// Fails where a number without its flag, or the reserved field, is not 0.
void check_flags(const Check& check, const headwise_attention_options& options);

/// The options but for `work`.
template <class T>
AttentionOptions<T> options_from(const Check& check, const headwise_attention_options& given)
{
    check_flags(check, given);
    AttentionOptions<T> options;
    if (given.has_scale) options.scale = given.scale;
    options.softcap = given.softcap;
    options.causal = given.causal != 0;
    options.query_offset = given.query_offset;
    if (given.has_left_window) options.left_window = given.left_window;
    if (given.has_right_window) options.right_window = given.right_window;
    options.query_offsets = optional_view<const std::int64_t, 1>(check, "query_offsets", given.query_offsets);
    options.kv_lengths = optional_view<const std::int64_t, 1>(check, "kv_lengths", given.kv_lengths);
    options.mask = mask_from(check, given.mask);
    options.sinks = optional_view<const compute_t<T>, 1>(check, "sinks", given.sinks);
    options.alibi = optional_view<const compute_t<T>, 1>(check, "alibi", given.alibi);
    options.weights = optional_view<T, 4>(check, "weights", given.weights);
    options.mean_weights = optional_view<T, 3>(check, "mean_weights", given.mean_weights);
    options.scores = optional_view<T, 4>(check, "scores", given.scores);
    options.score_stage = static_cast<ScoreStage>(given.score_stage);
    options.log_sum_exp = optional_view<compute_t<T>, 3>(check, "log_sum_exp", given.log_sum_exp);
    return options;
}

/// given += work
void add_work(headwise_work_report& given, const WorkReport& work);

/// Calls run(options) with the C++ options, then hands the work over.
template <class T, class Run>
void run_with_options(const Check& check, const headwise_attention_options* given, const Run& run)
{
    if (given == nullptr) {
        run(AttentionOptions<T>{});
        return;
    }
    const headwise_attention_options read = read_struct(check, "options", given);
    AttentionOptions<T> options = options_from<T>(check, read);
    WorkReport work;
    if (read.work != nullptr) {
        check_struct_size(check, "work", read.work->struct_size, first_size<headwise_work_report>);
        options.work = &work;
    }
    run(options);
    if (read.work != nullptr) add_work(*read.work, work);
}

}  // namespace headwise::c_interface
