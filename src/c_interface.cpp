// The C interface but for the layer and the cache: each function is one call of C++, and only a status leaves it.
#include <headwise/headwise.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <headwise/alibi.hpp>
#include <headwise/attention.hpp>
#include <headwise/scratch.hpp>
#include <headwise/target.hpp>
#include <headwise/version.hpp>

#include "c_status.hpp"
#include "c_views.hpp"

using namespace headwise;
using namespace headwise::c_interface;

namespace headwise::c_interface {

namespace {

/// An array, not a string: keeping a message must not allocate, and a thread that ends has nothing to destroy.
constinit thread_local std::array<char, 512> last_error{};

template <class T>
void run_attention(const Check& check, const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                   const headwise_tensor* Y, const headwise_attention_options* given)
{
    const auto q = view<const T, 4>(check, "Q", Q);
    const auto k = view<const T, 4>(check, "K", K);
    const auto v = view<const T, 4>(check, "V", V);
    const auto y = view<T, 4>(check, "Y", Y);
    run_with_options<T>(check, given, [&](const AttentionOptions<T>& options) { attention(q, k, v, y, options); });
}

template <class T>
void run_ragged_attention(const Check& check, const headwise_tensor* Q, const headwise_tensor* K,
                          const headwise_tensor* V, const headwise_tensor* Y, const RaggedStarts& starts,
                          const headwise_attention_options* given)
{
    const auto q = view<const T, 3>(check, "Q", Q);
    const auto k = view<const T, 3>(check, "K", K);
    const auto v = view<const T, 3>(check, "V", V);
    const auto y = view<T, 3>(check, "Y", Y);
    run_with_options<T>(check, given,
                        [&](const AttentionOptions<T>& options) { ragged_attention(q, k, v, y, starts, options); });
}

}  // namespace

void set_last_error(std::string_view text) noexcept
{
    const std::size_t length = std::min(text.size(), last_error.size() - 1);
    std::copy_n(text.data(), length, last_error.data());
    last_error[length] = '\0';
}

}  // namespace headwise::c_interface

const char* headwise_last_error(void)
{
    return last_error.data();
}

const char* headwise_version(void)
{
    return version();
}

headwise_status headwise_available_targets(const char** names, size_t capacity, size_t* count)
{
    return status_of([&] {
        const Check check("headwise_available_targets");
        if (capacity > 0) check_pointer(check, "names", names);
        check_pointer(check, "count", count);
        const std::vector<Target> targets = available_targets();
        *count = targets.size();
        // name() views a string literal, so its data ends in 0.
        for (std::size_t i = 0; i < std::min(capacity, targets.size()); ++i) names[i] = name(targets[i]).data();
    });
}

headwise_status headwise_active_target(const char** name)
{
    return status_of([&] {
        check_pointer(Check("headwise_active_target"), "name", name);
        *name = headwise::name(active_target()).data();
    });
}

headwise_status headwise_set_active_target(const char* name)
{
    return status_of([&] {
        check_pointer(Check("headwise_set_active_target"), "name", name);
        set_active_target(target_from_name(name));
    });
}

headwise_status headwise_dense_tensor(headwise_tensor* tensor, void* data, headwise_element_type element_type,
                                      int32_t rank, const int64_t* shape)
{
    return status_of([&] {
        const Check check("headwise_dense_tensor");
        check_pointer(check, "tensor", tensor);
        check_pointer(check, "shape", shape);
        headwise_tensor dense{data, element_type, rank, {}, {}};
        check_tensor(check, "tensor", &dense);
        if (rank < 1 || rank > 4) check.fail("rank", std::to_string(rank), "1 to 4");
        std::int64_t stride = 1;
        for (std::int32_t r = rank - 1; r >= 0; --r) {
            dense.shape[r] = shape[r];
            dense.strides[r] = stride;
            // A product that does not fit is left to the checks of the call, which see the shape itself.
            if (__builtin_mul_overflow(stride, shape[r], &stride)) stride = 0;
        }
        *tensor = dense;
    });
}

headwise_status headwise_attention_options_init(headwise_attention_options* options, size_t struct_size)
{
    return status_of([&] {
        const Check check("headwise_attention_options_init");
        check_pointer(check, "options", options);
        check_struct_size(check, "options", struct_size, first_size<headwise_attention_options>);
        // The caller's struct may be larger or smaller than this version's.
        std::memset(static_cast<void*>(options), 0, struct_size);
        options->struct_size = struct_size;
    });
}

headwise_status headwise_attention(const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                                   const headwise_tensor* Y, const headwise_attention_options* options)
{
    return status_of([&] {
        const Check check("headwise_attention");
        check_tensor(check, "Q", Q);
        with_element_type(check, "Q", Q->element_type,
                          [&]<class T>(T) { run_attention<T>(check, Q, K, V, Y, options); });
    });
}

headwise_status headwise_ragged_attention(const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                                          const headwise_tensor* Y, const headwise_tensor* q_starts,
                                          const headwise_tensor* kv_starts, const headwise_attention_options* options)
{
    return status_of([&] {
        const Check check("headwise_ragged_attention");
        check_tensor(check, "Q", Q);
        const RaggedStarts starts{view<const std::int64_t, 1>(check, "q_starts", q_starts),
                                  view<const std::int64_t, 1>(check, "kv_starts", kv_starts)};
        with_element_type(check, "Q", Q->element_type,
                          [&]<class T>(T) { run_ragged_attention<T>(check, Q, K, V, Y, starts, options); });
    });
}

headwise_status headwise_alibi_slopes(int64_t heads, float* slopes)
{
    return status_of([&] {
        check_pointer(Check("headwise_alibi_slopes"), "slopes", slopes);
        const std::vector<float> values = alibi_slopes(heads);
        std::copy(values.begin(), values.end(), slopes);
    });
}

size_t headwise_thread_scratch_bytes(void)
{
    return thread_scratch_bytes();
}

void headwise_release_thread_scratch(void)
{
    release_thread_scratch();
}
