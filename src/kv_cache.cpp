#include <headwise/kv_cache.hpp>

#include <algorithm>
#include <array>
#include <string>

#include <headwise/target.hpp>

#include "attend_plan.hpp"
#include "check.hpp"
#include "check_options.hpp"
#include "checked_sizes.hpp"
#include "key_range.hpp"

namespace headwise {

namespace {

/// to(i, head, first + token, .) = from(i, head, token, .) for the first `count` tokens of item i.
template <class T>
void copy_tokens(const TensorView<T, 4>& to, const TensorView<const T, 4>& from, std::int64_t item, std::int64_t first,
                 std::int64_t count)
{
    for (std::int64_t head = 0; head < from.shape[1]; ++head)
        for (std::int64_t token = 0; token < count; ++token) {
            const T* const source = &from(item, head, token, 0);
            T* const target = &to(item, head, first + token, 0);
            if (from.strides[3] == 1 && to.strides[3] == 1) std::copy_n(source, from.shape[3], target);
            else
                for (std::int64_t c = 0; c < from.shape[3]; ++c)
                    target[c * to.strides[3]] = source[c * from.strides[3]];
        }
}

/// present(., ., 0 .. n_past - 1, .) = past and what follows = added, for every item.
template <class T>
void concatenate(const TensorView<T, 4>& present, const TensorView<const T, 4>& past,
                 const TensorView<const T, 4>& added)
{
    for (std::int64_t item = 0; item < present.shape[0]; ++item) {
        copy_tokens(present, past, item, 0, past.shape[2]);
        copy_tokens(present, added, item, past.shape[2], added.shape[2]);
    }
}

}  // namespace

template <class T>
KvCache<T>::KvCache(Shape shape) : shape_(shape)
{
    const Check check("KvCache");
    if (shape_.d_v == 0) shape_.d_v = shape_.d_k;
    const auto at_least = [&](std::string_view name, std::int64_t size, std::int64_t least) {
        if (size < least) check.fail(name, std::to_string(size), std::to_string(least) + " or more");
    };
    at_least("batch", shape_.batch, 0);
    at_least("kv_heads", shape_.kv_heads, 1);
    at_least("capacity", shape_.capacity, 0);
    at_least("d_k", shape_.d_k, 1);
    at_least("d_v", shape_.d_v, 1);
    // Extents of 0 count as 1: strides are products of the others.
    check.fewer_bytes("shape", sizeof(T),
                      std::array{std::max<std::int64_t>(shape_.batch, 1), shape_.kv_heads,
                                 std::max<std::int64_t>(shape_.capacity, 1), std::max(shape_.d_k, shape_.d_v)});
    check.fewer_bytes("batch", sizeof(std::int64_t), std::array{shape_.batch});
    const std::int64_t rows = shape_.batch * shape_.kv_heads * shape_.capacity;
    k_.resize(static_cast<std::size_t>(rows * shape_.d_k));
    v_.resize(static_cast<std::size_t>(rows * shape_.d_v));
    lengths_.resize(static_cast<std::size_t>(shape_.batch));
    offsets_.resize(static_cast<std::size_t>(shape_.batch));
}

template <class T>
void KvCache<T>::append(TensorView<const T, 4> K, TensorView<const T, 4> V, VectorView<const std::int64_t> counts)
{
    const Check check("KvCache::append");
    const Extent b{shape_.batch, "batch"}, h_kv{shape_.kv_heads, "kv_heads"};
    check.input(any_view("K", K), std::array{b, h_kv, Extent{any_extent, "n"}, Extent{shape_.d_k, "d_k"}});
    check.input(any_view("V", V), std::array{b, h_kv, Extent{K.shape[2], "n"}, Extent{shape_.d_v, "d_v"}});
    if (counts.given()) check.input(any_view("counts", counts), std::array{b});
    const std::array<std::int64_t, 4> whole{shape_.batch, shape_.kv_heads, shape_.capacity, shape_.d_k};
    const TensorView<T, 4> all_k(k_.data(), whole);
    const TensorView<T, 4> all_v(v_.data(), {whole[0], whole[1], whole[2], shape_.d_v});
    for (const AnyView& memory : {any_view("the cache", all_k), any_view("the cache", all_v)})
        for (const AnyView& input : {any_view("K", K), any_view("V", V)}) check.disjoint(input, memory);
    const auto count_of = [&](std::int64_t item) { return counts.given() ? counts(item) : K.shape[2]; };
    for (std::int64_t item = 0; item < shape_.batch; ++item) {
        const std::int64_t count = count_of(item);
        if (count < 0 || count > K.shape[2])
            check.fail("counts", std::to_string(count) + " at index " + std::to_string(item),
                       "0 to n = " + std::to_string(K.shape[2]));
        const std::int64_t length = lengths_[static_cast<std::size_t>(item)];
        if (count > shape_.capacity - length)
            check.fail("K", std::to_string(count) + " more tokens for item " + std::to_string(item),
                       "at most " + std::to_string(shape_.capacity - length) + ", the room left in the cache");
    }
    for (std::int64_t item = 0; item < shape_.batch; ++item) {
        std::int64_t& length = lengths_[static_cast<std::size_t>(item)];
        const std::int64_t count = count_of(item);  // before the lengths change: counts may be a view of them
        copy_tokens(all_k, K, item, length, count);
        copy_tokens(all_v, V, item, length, count);
        offsets_[static_cast<std::size_t>(item)] = length;
        length += count;
    }
}

template <class T>
void KvCache<T>::reset() noexcept
{
    std::fill(lengths_.begin(), lengths_.end(), 0);
    std::fill(offsets_.begin(), offsets_.end(), 0);
}

template <class T>
void KvCache<T>::reset(std::int64_t item)
{
    if (item < 0 || item >= shape_.batch)
        Check("KvCache::reset")
            .fail("item", std::to_string(item), "0 to batch - 1 = " + std::to_string(shape_.batch - 1));
    lengths_[static_cast<std::size_t>(item)] = 0;
    offsets_[static_cast<std::size_t>(item)] = 0;
}

template <class T>
std::int64_t KvCache<T>::longest() const noexcept
{
    return lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
}

template <class T>
TensorView<const T, 4> KvCache<T>::keys() const noexcept
{
    const std::int64_t head = shape_.capacity * shape_.d_k;
    return {k_.data(),
            {shape_.batch, shape_.kv_heads, longest(), shape_.d_k},
            {shape_.kv_heads * head, head, shape_.d_k, 1}};
}

template <class T>
TensorView<const T, 4> KvCache<T>::values() const noexcept
{
    const std::int64_t head = shape_.capacity * shape_.d_v;
    return {v_.data(),
            {shape_.batch, shape_.kv_heads, longest(), shape_.d_v},
            {shape_.kv_heads * head, head, shape_.d_v, 1}};
}

template <class T>
VectorView<const std::int64_t> KvCache<T>::lengths() const noexcept
{
    return {lengths_.data(), {shape_.batch}};
}

template <class T>
VectorView<const std::int64_t> KvCache<T>::offsets() const noexcept
{
    return {offsets_.data(), {shape_.batch}};
}

template <class T>
void attention_with_past(TensorView<const T, 4> Q, TensorView<const T, 4> K, TensorView<const T, 4> V,
                         const PastAndPresent<T>& cache, TensorView<T, 4> Y, const AttentionOptions<T>& options)
{
    const Check check("attention_with_past");
    AttendSizes sizes = checked_sizes(check, Q, K, V, Y);
    const Extent b{sizes.batch, "b"}, h_kv{sizes.kv_heads, "h_kv"}, d_k{sizes.d_k, "d_k"}, d_v{sizes.d_v, "d_v"};
    TensorView<const T, 4> past_key = cache.past_key, past_value = cache.past_value;
    if (!past_key.given() && !past_value.given()) {
        past_key.shape = {sizes.batch, sizes.kv_heads, 0, sizes.d_k};
        past_value.shape = {sizes.batch, sizes.kv_heads, 0, sizes.d_v};
    }
    check.input(any_view("past_key", past_key), std::array{b, h_kv, Extent{any_extent, "n_past"}, d_k});
    const std::int64_t n_past = past_key.shape[2];
    check.input(any_view("past_value", past_value), std::array{b, h_kv, Extent{n_past, "n_past"}, d_v});
    sizes.n_kv = saturating_add(n_past, sizes.n_kv);
    const Extent total{sizes.n_kv, "n_past + n_new"};
    check.output(any_view("present_key", cache.present_key), std::array{b, h_kv, total, d_k});
    check.output(any_view("present_value", cache.present_value), std::array{b, h_kv, total, d_v});

    const auto refuse = [&](bool given, std::string_view name, std::string_view reason) {
        if (given) check.fail(name, "given", reason);
    };
    refuse(options.query_offset != 0, "query_offset", "none: it is the length of the past");
    refuse(options.query_offsets.given(), "query_offsets", "none: they are the length of the past");
    refuse(options.kv_lengths.given(), "kv_lengths", "none: the past has no padding");
    AttentionOptions<T> over_present = options;
    over_present.query_offset = n_past;
    check_options(check, over_present, sizes);
    check_apart(check,
                std::array{any_view("Y", Y), any_view("present_key", cache.present_key),
                           any_view("present_value", cache.present_value)},
                std::array{any_view("Q", Q), any_view("K", K), any_view("V", V), any_view("past_key", past_key),
                           any_view("past_value", past_value)},
                options);

    const KernelTable<compute_t<T>>& kernels = kernel_table<compute_t<T>>(active_target());
    concatenate(cache.present_key, past_key, K);
    concatenate(cache.present_value, past_value, V);
    AttendPlan<T>(kernels, sizes, cache.present_key, cache.present_value, over_present).run(Q, Y);
}

#define HEADWISE_INSTANTIATE(T)                                                                                  \
    template class KvCache<T>;                                                                                   \
    template void attention_with_past<T>(TensorView<const T, 4>, TensorView<const T, 4>, TensorView<const T, 4>, \
                                         const PastAndPresent<T>&, TensorView<T, 4>, const AttentionOptions<T>&);
HEADWISE_INSTANTIATE(float)
HEADWISE_INSTANTIATE(double)
HEADWISE_INSTANTIATE(bfloat16)
HEADWISE_INSTANTIATE(float16)

}  // namespace headwise
