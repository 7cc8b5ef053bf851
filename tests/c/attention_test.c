// headwise_attention in its four element types, its layouts, and sizes of zero.
#include "check.h"

#include <math.h>
#include <string.h>

// One query, keys 0 and ln 3, so weights 1/4 and 3/4; values 4 and 8, so 7. In d = 1 the default scale is 1.

static void test_float32(void)
{
    float q[] = {1}, k[] = {0, logf(3)}, v[] = {4, 8}, y[] = {-1}, weights[] = {-1, -1}, lse[] = {-1};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT32, 4, 1, 1, 1, 1),
                          K = tensor(k, HEADWISE_FLOAT32, 4, 1, 1, 2, 1);
    const headwise_tensor V = tensor(v, HEADWISE_FLOAT32, 4, 1, 1, 2, 1),
                          Y = tensor(y, HEADWISE_FLOAT32, 4, 1, 1, 1, 1);
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, NULL));
    CHECK_NEAR(y[0], 7, 1e-5);

    const headwise_tensor W = tensor(weights, HEADWISE_FLOAT32, 4, 1, 1, 1, 2);
    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT32, 3, 1, 1, 1, 0);
    headwise_attention_options options;
    CHECK_OK(headwise_attention_options_init(&options, sizeof options));
    options.weights = &W;
    options.log_sum_exp = &L;
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &options));
    CHECK_NEAR(y[0], 7, 1e-5);
    CHECK_NEAR(weights[0], 0.25, 1e-6);
    CHECK_NEAR(weights[1], 0.75, 1e-6);
    CHECK_NEAR(lse[0], log(4), 1e-6);
}

static void test_float64(void)
{
    double q[] = {1}, k[] = {0, log(3)}, v[] = {4, 8}, y[] = {-1}, lse[] = {-1}, mask[] = {log(3), 0};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT64, 4, 1, 1, 1, 1),
                          K = tensor(k, HEADWISE_FLOAT64, 4, 1, 1, 2, 1);
    const headwise_tensor V = tensor(v, HEADWISE_FLOAT64, 4, 1, 1, 2, 1),
                          Y = tensor(y, HEADWISE_FLOAT64, 4, 1, 1, 1, 1);
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, NULL));
    CHECK_NEAR(y[0], 7, 1e-13);

    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT64, 3, 1, 1, 1, 0);
    const headwise_tensor M = tensor(mask, HEADWISE_FLOAT64, 1, 2, 0, 0, 0);
    headwise_attention_options options = {.struct_size = sizeof options, .mask = &M, .log_sum_exp = &L};
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &options));
    CHECK_NEAR(y[0], 6, 1e-13);
    CHECK_NEAR(lse[0], log(6), 1e-13);
}

/// The same with 16-bit elements; `bits` are those of 1, 0, ln 3, 4, 8, and of the result 7.
static void test_half(headwise_element_type type, const uint16_t bits[6])
{
    uint16_t q[] = {bits[0]}, k[] = {bits[1], bits[2]}, v[] = {bits[3], bits[4]}, y[] = {0x1234};
    float lse[] = {-1};
    const headwise_tensor Q = tensor(q, type, 4, 1, 1, 1, 1), K = tensor(k, type, 4, 1, 1, 2, 1);
    const headwise_tensor V = tensor(v, type, 4, 1, 1, 2, 1), Y = tensor(y, type, 4, 1, 1, 1, 1);
    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT32, 3, 1, 1, 1, 0);
    headwise_attention_options options = {.struct_size = sizeof options, .log_sum_exp = &L};
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &options));
    CHECK(y[0] == bits[5]);
    CHECK_NEAR(lse[0], log(4), 3e-3);
}

/// Values and results with strides: two heads of two queries in (b, n, h, d) order, the last dimension apart too.
static void test_strides(void)
{
    // k is 0 for every head, by strides of 0; the rows of V are the head's number + 1 and ten times that.
    float zero[] = {0}, v[] = {1, 2, 10, 20}, y[8];
    for (int i = 0; i < 8; ++i) y[i] = -1;
    const headwise_tensor Q = {zero, HEADWISE_FLOAT32, 4, {1, 2, 2, 1}, {0, 0, 0, 0}};
    const headwise_tensor V = {v, HEADWISE_FLOAT32, 4, {1, 2, 2, 1}, {4, 1, 2, 1}};
    const headwise_tensor Y = {y, HEADWISE_FLOAT32, 4, {1, 2, 2, 1}, {8, 2, 4, 1}};
    CHECK_OK(headwise_attention(&Q, &Q, &V, &Y, NULL));
    for (int token = 0; token < 2; ++token)
        for (int head = 0; head < 2; ++head) {
            CHECK_NEAR(y[token * 4 + head * 2], 5.5 * (head + 1), 1e-5);
            CHECK(y[token * 4 + head * 2 + 1] == -1);
        }
}

static void test_empty(void)
{
    // No key: a zero row, of log-sum-exp -inf. The tensors without elements may be null.
    float q[] = {1}, y[] = {-1}, lse[] = {-1};
    const headwise_tensor Q = tensor(q, HEADWISE_FLOAT32, 4, 1, 1, 1, 1),
                          Y = tensor(y, HEADWISE_FLOAT32, 4, 1, 1, 1, 1);
    const headwise_tensor none = tensor(NULL, HEADWISE_FLOAT32, 4, 1, 1, 0, 1);
    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT32, 3, 1, 1, 1, 0);
    headwise_attention_options options = {.struct_size = sizeof options, .log_sum_exp = &L};
    CHECK_OK(headwise_attention(&Q, &none, &none, &Y, &options));
    CHECK(y[0] == 0);
    CHECK(isinf(lse[0]) && lse[0] < 0);

    // A mask of no keys is a mask, though it has neither data nor extents: no key takes part.
    float k[] = {1}, v[] = {3};
    const headwise_tensor K = tensor(k, HEADWISE_FLOAT32, 4, 1, 1, 1, 1),
                          V = tensor(v, HEADWISE_FLOAT32, 4, 1, 1, 1, 1);
    const headwise_tensor M = tensor(NULL, HEADWISE_BOOLEAN, 1, 0, 0, 0, 0);
    headwise_attention_options masked = {.struct_size = sizeof masked, .mask = &M};
    y[0] = -1;
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, NULL));
    CHECK_NEAR(y[0], 3, 1e-6);
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &masked));
    CHECK(y[0] == 0);
}

void test_attention(void)
{
    const uint16_t bfloat16_bits[6] = {0x3f80, 0, 0x3f8d, 0x4080, 0x4100, 0x40e0};
    const uint16_t float16_bits[6] = {0x3c00, 0, 0x3c65, 0x4400, 0x4800, 0x4700};
    test_float32();
    test_float64();
    test_half(HEADWISE_BFLOAT16, bfloat16_bits);
    test_half(HEADWISE_FLOAT16, float16_bits);
    test_strides();
    test_empty();
}
