// Keys and values from call to call, in the C interface.
#include <headwise/headwise.h>

#include <variant>

#include <headwise/kv_cache.hpp>

#include "c_status.hpp"
#include "c_views.hpp"

using namespace headwise;
using namespace headwise::c_interface;

struct headwise_kv_cache {
    std::variant<KvCache<float>, KvCache<double>, KvCache<bfloat16>, KvCache<float16>> cache;
};

namespace {

template <class T>
void run_with_past(const Check& check, const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                   const headwise_past_and_present& cache, const headwise_tensor* Y,
                   const headwise_attention_options* given)
{
    const auto q = view<const T, 4>(check, "Q", Q);
    const auto k = view<const T, 4>(check, "K", K);
    const auto v = view<const T, 4>(check, "V", V);
    const auto y = view<T, 4>(check, "Y", Y);
    const PastAndPresent<T> tensors{optional_view<const T, 4>(check, "past_key", cache.past_key),
                                    optional_view<const T, 4>(check, "past_value", cache.past_value),
                                    view<T, 4>(check, "present_key", cache.present_key),
                                    view<T, 4>(check, "present_value", cache.present_value)};
    run_with_options<T>(check, given,
                        [&](const AttentionOptions<T>& options) { attention_with_past(q, k, v, tensors, y, options); });
}

template <class T>
void append(const Check& check, KvCache<T>& cache, const headwise_tensor* K, const headwise_tensor* V,
            const headwise_tensor* counts)
{
    cache.append(view<const T, 4>(check, "K", K), view<const T, 4>(check, "V", V),
                 optional_view<const std::int64_t, 1>(check, "counts", counts));
}

template <class T>
headwise_kv_cache_shape shape_of(const KvCache<T>& cache)
{
    const auto& s = cache.shape();
    return {0, s.batch, s.kv_heads, s.capacity, s.d_k, s.d_v, element_type_of<T>, 0};
}

template <class T>
headwise_kv_cache_views views_of(const KvCache<T>& cache)
{
    return {0, tensor_from(cache.keys()), tensor_from(cache.values()), tensor_from(cache.lengths()),
            tensor_from(cache.offsets())};
}

}  // namespace

headwise_status headwise_attention_with_past(const headwise_tensor* Q, const headwise_tensor* K,
                                             const headwise_tensor* V, const headwise_past_and_present* cache,
                                             const headwise_tensor* Y, const headwise_attention_options* options)
{
    return status_of([&] {
        const Check check("headwise_attention_with_past");
        check_tensor(check, "Q", Q);
        const headwise_past_and_present read = read_struct(check, "cache", cache);
        with_element_type(check, "Q", Q->element_type,
                          [&]<class T>(T) { run_with_past<T>(check, Q, K, V, read, Y, options); });
    });
}

headwise_status headwise_kv_cache_create(const headwise_kv_cache_shape* shape, headwise_kv_cache** cache)
{
    return status_of([&] {
        const Check check("headwise_kv_cache_create");
        check_pointer(check, "cache", cache);
        *cache = nullptr;
        const headwise_kv_cache_shape s = read_struct(check, "shape", shape);
        if (s.reserved != 0) check.fail("reserved", std::to_string(s.reserved), "0");
        with_element_type(check, "element_type", s.element_type, [&]<class T>(T) {
            *cache = new headwise_kv_cache{KvCache<T>({s.batch, s.kv_heads, s.capacity, s.d_k, s.d_v})};
        });
    });
}

void headwise_kv_cache_destroy(headwise_kv_cache* cache)
{
    delete cache;
}

headwise_status headwise_kv_cache_get_shape(const headwise_kv_cache* cache, headwise_kv_cache_shape* shape)
{
    return status_of([&] {
        const Check check("headwise_kv_cache_get_shape");
        check_pointer(check, "cache", cache);
        std::visit([&](const auto& c) { write_struct(check, "shape", shape, shape_of(c)); }, cache->cache);
    });
}

headwise_status headwise_kv_cache_append(headwise_kv_cache* cache, const headwise_tensor* K, const headwise_tensor* V,
                                         const headwise_tensor* counts)
{
    return status_of([&] {
        const Check check("headwise_kv_cache_append");
        check_pointer(check, "cache", cache);
        std::visit([&](auto& c) { append(check, c, K, V, counts); }, cache->cache);
    });
}

headwise_status headwise_kv_cache_get_views(const headwise_kv_cache* cache, headwise_kv_cache_views* views)
{
    return status_of([&] {
        const Check check("headwise_kv_cache_get_views");
        check_pointer(check, "cache", cache);
        std::visit([&](const auto& c) { write_struct(check, "views", views, views_of(c)); }, cache->cache);
    });
}

headwise_status headwise_kv_cache_reset(headwise_kv_cache* cache)
{
    return status_of([&] {
        check_pointer(Check("headwise_kv_cache_reset"), "cache", cache);
        std::visit([](auto& c) { c.reset(); }, cache->cache);
    });
}

headwise_status headwise_kv_cache_reset_item(headwise_kv_cache* cache, int64_t item)
{
    return status_of([&] {
        check_pointer(Check("headwise_kv_cache_reset_item"), "cache", cache);
        std::visit([&](auto& c) { c.reset(item); }, cache->cache);
    });
}
