// What the calls allocate, and what happens where they cannot.
#include "check.h"

#include <string.h>

static float q[6], y[6], weight[4] = {1, 0, 0, 1};

static headwise_status create(headwise_layer** layer)
{
    const headwise_layer_shape shape = {.struct_size = sizeof shape, .d_model = 2, .heads = 1};
    const headwise_tensor W = tensor(weight, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_layer_weights weights = {.struct_size = sizeof weights, .W_q = &W, .W_k = &W, .W_v = &W, .W_o = &W};
    return headwise_layer_create(&shape, &weights, layer);
}

static void test_warm_calls(const headwise_layer* layer)
{
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT32, 4, 1, 1, 3, 2),
                          Y = tensor(y, HEADWISE_FLOAT32, 4, 1, 1, 3, 2);
    const headwise_tensor X = tensor(q, HEADWISE_FLOAT32, 2, 3, 2, 0, 0),
                          Z = tensor(y, HEADWISE_FLOAT32, 2, 3, 2, 0, 0);
    headwise_work_report work = {.struct_size = sizeof work};
    headwise_attention_options options = {.struct_size = sizeof options, .causal = 1, .work = &work};
    long before = 0;
    for (int call = 0; call < 20; ++call) {
        if (call == 10) before = allocation_count();
        CHECK_OK(headwise_attention(&Q, &Q, &Q, &Y, &options));
        CHECK_OK(headwise_layer_forward(layer, &X, &Z, &options));
    }
    CHECK(before > 0);
    CHECK(allocation_count() == before);
}

static void test_failing_creation(void)
{
    headwise_layer* layer = (headwise_layer*)q;
    fail_next_allocation(THROWS_BAD_ALLOC);
    CHECK(create(&layer) == HEADWISE_OUT_OF_MEMORY);
    CHECK(layer == NULL && strcmp(headwise_last_error(), "out of memory") == 0);
    layer = (headwise_layer*)q;
    fail_next_allocation(THROWS_ANOTHER_TYPE);
    CHECK(create(&layer) == HEADWISE_INTERNAL_ERROR);
    CHECK(layer == NULL && strcmp(headwise_last_error(), "unknown error") == 0);
}

static void test_failing_scratch(const headwise_layer* layer)
{
    const headwise_tensor X = tensor(q, HEADWISE_FLOAT32, 2, 3, 2, 0, 0),
                          Z = tensor(y, HEADWISE_FLOAT32, 2, 3, 2, 0, 0);
    CHECK_OK(headwise_layer_forward(layer, &X, &Z, NULL));
    CHECK(headwise_thread_scratch_bytes() > 0);
    headwise_release_thread_scratch();
    CHECK(headwise_thread_scratch_bytes() == 0);
    fail_next_allocation(THROWS_BAD_ALLOC);
    CHECK(headwise_layer_forward(layer, &X, &Z, NULL) == HEADWISE_OUT_OF_MEMORY);
    fail_next_allocation(THROWS_NOTHING);
    CHECK_OK(headwise_layer_forward(layer, &X, &Z, NULL));
    CHECK(headwise_thread_scratch_bytes() > 0);
}

void test_allocations(void)
{
    headwise_layer* layer = NULL;
    CHECK_OK(create(&layer));
    test_warm_calls(layer);
    test_failing_creation();
    test_failing_scratch(layer);
    headwise_layer_destroy(layer);
}
