// Ragged batches, past and present, and the cache. One query of 1 over keys of 0 gives the mean of the values it sees.
#include "check.h"

#include <string.h>

static headwise_attention_options causal(void)
{
    return (headwise_attention_options){.struct_size = sizeof(headwise_attention_options), .causal = 1};
}

static void test_ragged(void)
{
    // Sequences of 1, 0 and 2 queries over 2, 1 and 2 keys; a fourth query that is of none.
    float q[4] = {1, 1, 1, 1}, k[5] = {0}, v[5] = {2, 4, 100, 6, 10}, y[4] = {-1, -1, -1, -1}, lse[4];
    int64_t q_starts[4] = {0, 1, 1, 3}, kv_starts[4] = {0, 2, 3, 5};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT32, 3, 1, 4, 1, 0),
                          K = tensor(k, HEADWISE_FLOAT32, 3, 1, 5, 1, 0);
    const headwise_tensor V = tensor(v, HEADWISE_FLOAT32, 3, 1, 5, 1, 0),
                          Y = tensor(y, HEADWISE_FLOAT32, 3, 1, 4, 1, 0);
    headwise_tensor S = tensor(q_starts, HEADWISE_INT64, 1, 4, 0, 0, 0);
    const headwise_tensor T = tensor(kv_starts, HEADWISE_INT64, 1, 4, 0, 0, 0);
    CHECK_OK(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &T, NULL));
    CHECK_NEAR(y[0], 3, 1e-5);
    CHECK_NEAR(y[1], 8, 1e-5);
    CHECK_NEAR(y[2], 8, 1e-5);
    CHECK(y[3] == -1);
    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT32, 3, 1, 1, 4, 0);
    headwise_attention_options options = causal();
    options.log_sum_exp = &L;
    CHECK_OK(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &T, &options));
    CHECK_NEAR(y[0], 2, 1e-5);
    CHECK_NEAR(y[1], 6, 1e-5);
    CHECK_NEAR(y[2], 8, 1e-5);
    CHECK_NEAR(lse[1], 0, 1e-6);

    y[0] = -1;
    options.weights = &Y;
    CHECK_INVALID(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &T, &options), "weights is given");
    CHECK_INVALID(headwise_ragged_attention(NULL, &K, &V, &Y, &S, &T, NULL), "Q is null");
    CHECK_INVALID(headwise_ragged_attention(&Q, &K, &V, &Y, NULL, &T, NULL), "q_starts is null");
    CHECK_INVALID(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &Q, NULL), "kv_starts is of element type float32");
    S.shape[0] = 3;
    CHECK_INVALID(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &T, NULL), "kv_starts is of shape (4)");
    S.shape[0] = 4;
    q_starts[2] = 0;
    CHECK_INVALID(headwise_ragged_attention(&Q, &K, &V, &Y, &S, &T, NULL), "q_starts is 0 at index 2");
    CHECK(y[0] == -1);
}

static void test_past_and_present(void)
{
    double q[2] = {1, 1}, past_key[1] = {0}, past_value[1] = {3}, k[2] = {0, 0}, v[2] = {5, 10}, y[2] = {-1, -1};
    double present_key[3] = {7, 7, 7}, present_value[3] = {7, 7, 7};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT64, 4, 1, 1, 2, 1),
                          K = tensor(k, HEADWISE_FLOAT64, 4, 1, 1, 2, 1);
    const headwise_tensor V = tensor(v, HEADWISE_FLOAT64, 4, 1, 1, 2, 1),
                          Y = tensor(y, HEADWISE_FLOAT64, 4, 1, 1, 2, 1);
    const headwise_tensor past_K = tensor(past_key, HEADWISE_FLOAT64, 4, 1, 1, 1, 1),
                          past_V = tensor(past_value, HEADWISE_FLOAT64, 4, 1, 1, 1, 1);
    headwise_tensor present_K = tensor(present_key, HEADWISE_FLOAT64, 4, 1, 1, 3, 1),
                    present_V = tensor(present_value, HEADWISE_FLOAT64, 4, 1, 1, 3, 1);
    headwise_past_and_present cache = {sizeof cache, &past_K, &past_V, &present_K, &present_V};
    headwise_attention_options options = causal();
    CHECK_OK(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, &options));
    CHECK_NEAR(y[0], 4, 1e-12);
    CHECK_NEAR(y[1], 6, 1e-12);
    CHECK(present_value[0] == 3 && present_value[1] == 5 && present_value[2] == 10);
    CHECK(present_key[0] == 0 && present_key[2] == 0);

    memset(present_value, 0, sizeof present_value);
    y[0] = -1;
    options.query_offset = 1;
    CHECK_INVALID(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, &options), "query_offset is given");
    CHECK_INVALID(headwise_attention_with_past(&Q, &K, &V, NULL, &Y, NULL), "cache is null");
    cache.struct_size = 8;
    CHECK_INVALID(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, NULL), "cache->struct_size is 8");
    cache.struct_size = sizeof cache;
    cache.present_key = NULL;
    CHECK_INVALID(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, NULL), "present_key is null");
    cache.present_key = &present_K;
    cache.past_value = NULL;
    CHECK_INVALID(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, NULL), "past_value is of shape (0, 0, 0, 0)");
    CHECK(y[0] == -1 && present_value[0] == 0);

    // Neither past: the first call.
    cache.past_key = NULL;
    present_K.shape[2] = present_V.shape[2] = 2;
    CHECK_OK(headwise_attention_with_past(&Q, &K, &V, &cache, &Y, NULL));
    CHECK_NEAR(y[0], 7.5, 1e-12);
    CHECK(present_value[0] == 5 && present_value[1] == 10);
}

static headwise_kv_cache_views views_of(const headwise_kv_cache* cache)
{
    headwise_kv_cache_views views = {.struct_size = sizeof views};
    CHECK_OK(headwise_kv_cache_get_views(cache, &views));
    return views;
}

/// Two items that take in one token after the other, the second item one fewer.
static void test_cache(void)
{
    const headwise_kv_cache_shape shape = {.struct_size = sizeof shape,
                                           .batch = 2,
                                           .kv_heads = 1,
                                           .capacity = 3,
                                           .d_k = 1,
                                           .element_type = HEADWISE_FLOAT32};
    headwise_kv_cache* cache = NULL;
    CHECK_OK(headwise_kv_cache_create(&shape, &cache));
    headwise_kv_cache_shape told = {.struct_size = sizeof told};
    CHECK_OK(headwise_kv_cache_get_shape(cache, &told));
    CHECK(told.struct_size == sizeof told && told.batch == 2 && told.kv_heads == 1 && told.capacity == 3 &&
          told.d_k == 1 && told.d_v == 1 && told.element_type == HEADWISE_FLOAT32);

    float q[2] = {1, 1}, k[4] = {0}, v[4] = {2, 4, 6, 8}, y[2];
    int64_t counts[2] = {2, 1};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT32, 4, 2, 1, 1, 1),
                          Y = tensor(y, HEADWISE_FLOAT32, 4, 2, 1, 1, 1);
    headwise_tensor K = tensor(k, HEADWISE_FLOAT32, 4, 2, 1, 2, 1), V = tensor(v, HEADWISE_FLOAT32, 4, 2, 1, 2, 1);
    headwise_tensor C = tensor(counts, HEADWISE_INT64, 1, 2, 0, 0, 0);
    CHECK_OK(headwise_kv_cache_append(cache, &K, &V, &C));  // 2, 4; 6
    headwise_kv_cache_views views = views_of(cache);
    CHECK(views.keys.rank == 4 && views.keys.shape[2] == 2 && views.values.element_type == HEADWISE_FLOAT32);
    const int64_t *lengths = views.lengths.data, *offsets = views.offsets.data;
    CHECK(lengths[0] == 2 && lengths[1] == 1 && offsets[0] == 0 && offsets[1] == 0);

    // A newer view of the same memory after one more token for each: 2, 4, 6 and 6, 8.
    const headwise_tensor last = {v + 2, HEADWISE_FLOAT32, 4, {2, 1, 1, 1}, {1, 1, 1, 1}};
    CHECK_OK(headwise_kv_cache_append(cache, &last, &last, NULL));
    CHECK(lengths[0] == 3 && lengths[1] == 2 && offsets[0] == 2 && offsets[1] == 1);
    views = views_of(cache);
    CHECK(views.values.shape[2] == 3);
    headwise_attention_options options = causal();
    options.query_offsets = &views.offsets;
    options.kv_lengths = &views.lengths;
    options.has_scale = 1;  // 0: every key weighs the same
    CHECK_OK(headwise_attention(&Q, &views.keys, &views.values, &Y, &options));
    CHECK_NEAR(y[0], 4, 1e-5);
    CHECK_NEAR(y[1], 7, 1e-5);

    CHECK_INVALID(headwise_kv_cache_append(cache, &last, &last, NULL), "1 more tokens for item 0");
    CHECK_INVALID(headwise_kv_cache_append(cache, NULL, &V, NULL), "K is null");
    CHECK_INVALID(headwise_kv_cache_append(cache, &K, &V, &V), "counts is of element type float32");
    counts[0] = 0;
    counts[1] = 3;
    CHECK_INVALID(headwise_kv_cache_append(cache, &K, &V, &C), "counts is 3 at index 1");
    V.element_type = HEADWISE_FLOAT64;
    CHECK_INVALID(headwise_kv_cache_append(cache, &K, &V, NULL), "V is of element type float64");
    CHECK(lengths[0] == 3 && lengths[1] == 2);

    CHECK_INVALID(headwise_kv_cache_reset_item(cache, 2), "item is 2");
    CHECK_OK(headwise_kv_cache_reset_item(cache, 0));
    CHECK(lengths[0] == 0 && lengths[1] == 2);
    CHECK_OK(headwise_kv_cache_reset(cache));
    CHECK(lengths[1] == 0 && views_of(cache).keys.shape[2] == 0);
    headwise_kv_cache_destroy(cache);
}

static void test_cache_types(void)
{
    const headwise_element_type types[] = {HEADWISE_FLOAT32, HEADWISE_FLOAT64, HEADWISE_BFLOAT16, HEADWISE_FLOAT16};
    for (int i = 0; i < 4; ++i) {
        const headwise_kv_cache_shape shape = {.struct_size = sizeof shape,
                                               .batch = 1,
                                               .kv_heads = 1,
                                               .capacity = 1,
                                               .d_k = 1,
                                               .d_v = 2,
                                               .element_type = types[i]};
        headwise_kv_cache* cache = NULL;
        double numbers[2] = {0, 0};
        CHECK_OK(headwise_kv_cache_create(&shape, &cache));
        const headwise_tensor K = tensor(numbers, types[i], 4, 1, 1, 1, 1),
                              V = tensor(numbers, types[i], 4, 1, 1, 1, 2);
        CHECK_OK(headwise_kv_cache_append(cache, &K, &V, NULL));
        CHECK(views_of(cache).values.element_type == types[i] && views_of(cache).values.shape[3] == 2);
        headwise_kv_cache_destroy(cache);
    }
    headwise_kv_cache_destroy(NULL);
}

static void refuses_shape(int line, headwise_kv_cache_shape shape, const char* message)
{
    headwise_kv_cache* cache = (headwise_kv_cache*)&shape;
    check_status(headwise_kv_cache_create(&shape, &cache), HEADWISE_INVALID_ARGUMENT, message, __FILE__, line);
    check_true(cache == NULL, "no cache is left", __FILE__, line);
}

static void test_cache_errors(void)
{
    const headwise_kv_cache_shape good = {.struct_size = sizeof good,
                                          .batch = 1,
                                          .kv_heads = 1,
                                          .capacity = 4,
                                          .d_k = 2,
                                          .element_type = HEADWISE_FLOAT32};
    headwise_kv_cache_shape shape = good;
    shape.struct_size = 16;
    refuses_shape(__LINE__, shape, "shape->struct_size is 16");
    shape = good;
    shape.element_type = HEADWISE_INT64;
    refuses_shape(__LINE__, shape, "element_type is of element type int64");
    shape.element_type = 0;
    refuses_shape(__LINE__, shape, "0, which is none");
    shape = good;
    shape.reserved = 1;
    refuses_shape(__LINE__, shape, "reserved is 1");
    shape = good;
    shape.kv_heads = 0;
    refuses_shape(__LINE__, shape, "kv_heads is 0");
    shape = good;
    shape.capacity = INT64_MAX;
    refuses_shape(__LINE__, shape, "2^63 bytes");

    headwise_kv_cache* cache = NULL;
    CHECK_INVALID(headwise_kv_cache_create(NULL, &cache), "shape is null");
    CHECK_INVALID(headwise_kv_cache_create(&good, NULL), "cache is null");
    shape = good;
    shape.capacity = INT64_MAX / 16;
    CHECK(headwise_kv_cache_create(&shape, &cache) == HEADWISE_OUT_OF_MEMORY && cache == NULL);
    CHECK_OK(headwise_kv_cache_create(&good, &cache));
    CHECK_INVALID(headwise_kv_cache_get_shape(cache, NULL), "shape is null");
    CHECK_INVALID(headwise_kv_cache_get_shape(NULL, &shape), "cache is null");
    headwise_kv_cache_views views = {.struct_size = 9};
    CHECK_INVALID(headwise_kv_cache_get_views(cache, &views), "views->struct_size is 9");
    CHECK_INVALID(headwise_kv_cache_get_views(NULL, &views), "cache is null");
    CHECK_INVALID(headwise_kv_cache_append(NULL, NULL, NULL, NULL), "cache is null");
    CHECK_INVALID(headwise_kv_cache_reset(NULL), "cache is null");
    CHECK_INVALID(headwise_kv_cache_reset_item(NULL, 0), "cache is null");
    headwise_kv_cache_destroy(cache);
}

void test_caches(void)
{
    test_ragged();
    test_past_and_present();
    test_cache();
    test_cache_types();
    test_cache_errors();
}
