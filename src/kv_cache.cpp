#include <headwise/kv_cache.hpp>

#include <algorithm>
#include <array>
#include <string>

#include "checked_attention.hpp"
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

std::int64_t product(const Check& check, std::initializer_list<std::int64_t> sizes)
{
    std::int64_t result = 1;
    for (const std::int64_t size : sizes)
        if (__builtin_mul_overflow(result, size, &result)) check.fail("shape", "too large", "fewer than 2^63 bytes");
    return result;
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
    const std::int64_t widest = std::max(shape_.d_k, shape_.d_v);
    product(check, {shape_.batch, shape_.kv_heads, shape_.capacity, widest, static_cast<std::int64_t>(sizeof(T))});
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
    check.disjoint(any_view("the cache", all_k), any_view("K", K));
    check.disjoint(any_view("the cache", all_v), any_view("V", V));
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
        copy_tokens(all_k, K, item, length, count_of(item));
        copy_tokens(all_v, V, item, length, count_of(item));
        offsets_[static_cast<std::size_t>(item)] = length;
        length += count_of(item);
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
    const Extent any_b{any_extent, "b"}, any_h{any_extent, "h_kv"}, any_n{any_extent, "n_new"},
        any_width{any_extent, "d"};
    check.input(any_view("K", K), std::array{any_b, any_h, any_n, any_width});
    const Extent b{K.shape[0], "b"}, h_kv{K.shape[1], "h_kv"}, d_k{K.shape[3], "d_k"}, n_new{K.shape[2], "n_new"};
    check.input(any_view("V", V), std::array{b, h_kv, n_new, any_width});
    const Extent d_v{V.shape[3], "d_v"};
    check.input(any_view("past_key", cache.past_key), std::array{b, h_kv, Extent{any_extent, "n_past"}, d_k});
    const std::int64_t n_past = cache.past_key.shape[2];
    check.input(any_view("past_value", cache.past_value), std::array{b, h_kv, Extent{n_past, "n_past"}, d_v});
    const Extent total{saturating_add(n_past, K.shape[2]), "n_past + n_new"};
    check.output(any_view("present_key", cache.present_key), std::array{b, h_kv, total, d_k});
    check.output(any_view("present_value", cache.present_value), std::array{b, h_kv, total, d_v});
    if (options.query_offset != 0 || options.query_offsets.given())
        check.fail("query_offset", "given", "none, since it is the length of the past");
    if (options.kv_lengths.given()) check.fail("kv_lengths", "given", "none, since the past has no padding");

    const std::array presents{any_view("present_key", cache.present_key),
                              any_view("present_value", cache.present_value)};
    check.disjoint(presents[0], presents[1]);
    for (const AnyView& present : presents) {
        for (const AnyView& input : {any_view("Q", Q), any_view("K", K), any_view("V", V),
                                     any_view("past_key", cache.past_key), any_view("past_value", cache.past_value)})
            check.disjoint(present, input);
        for_each_input(options, [&](const AnyView& input) { check.disjoint(present, input); });
    }
    const auto apart_from_sources = [&](const AnyView& output) {
        for (const AnyView& input : {any_view("K", K), any_view("V", V), any_view("past_key", cache.past_key),
                                     any_view("past_value", cache.past_value)})
            check.disjoint(output, input);
    };
    apart_from_sources(any_view("Y", Y));
    for_each_output(options, apart_from_sources);

    AttentionOptions<T> over_present = options;
    over_present.query_offset = n_past;
    attention_checked_before(Q, TensorView<const T, 4>(cache.present_key), TensorView<const T, 4>(cache.present_value),
                             Y, over_present, [&] {
                                 for (std::int64_t item = 0; item < K.shape[0]; ++item) {
                                     copy_tokens(cache.present_key, cache.past_key, item, 0, n_past);
                                     copy_tokens(cache.present_key, K, item, n_past, K.shape[2]);
                                     copy_tokens(cache.present_value, cache.past_value, item, 0, n_past);
                                     copy_tokens(cache.present_value, V, item, n_past, K.shape[2]);
                                 }
                             });
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
