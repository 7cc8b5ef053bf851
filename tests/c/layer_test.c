// The layer, made of the same weights in three forms. W_q is 0, so that every key has the same weight and
//     Y = (mean(X) W_v + b_v) W_o + b_o,   W_v = [1 2; 0 1], b_v = [1 0], W_o = [1 1; 0 1], b_o = [10 20].
#include "check.h"

static float zero[4], key[] = {5, 6, 7, 8}, key_bias[] = {5, 5};
static float value[] = {1, 0, 2, 1};  // both (h, d_model, d_v) and (h * d_v, d_model)
static float value_bias[] = {1, 0}, output[] = {1, 1, 0, 1}, output_bias[] = {10, 20};

static headwise_layer_shape shape(void)
{
    return (headwise_layer_shape){.struct_size = sizeof(headwise_layer_shape), .d_model = 2, .heads = 2};
}

static headwise_layer* make_per_head(void)
{
    const headwise_tensor W_q = tensor(zero, HEADWISE_FLOAT32, 3, 2, 2, 1, 0);
    const headwise_tensor W_k = tensor(key, HEADWISE_FLOAT32, 3, 2, 2, 1, 0);
    const headwise_tensor W_v = tensor(value, HEADWISE_FLOAT32, 3, 2, 2, 1, 0);
    const headwise_tensor W_o = tensor(output, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor b_q = tensor(zero, HEADWISE_FLOAT32, 2, 2, 1, 0, 0);
    const headwise_tensor b_k = tensor(key_bias, HEADWISE_FLOAT32, 2, 2, 1, 0, 0);
    const headwise_tensor b_v = tensor(value_bias, HEADWISE_FLOAT32, 2, 2, 1, 0, 0);
    const headwise_tensor b_o = tensor(output_bias, HEADWISE_FLOAT32, 1, 2, 0, 0, 0);
    const headwise_layer_weights weights = {sizeof weights, &W_q, &W_k, &W_v, &W_o, &b_q, &b_k, &b_v, &b_o};
    const headwise_layer_shape sizes = shape();
    headwise_layer* layer = NULL;
    CHECK_OK(headwise_layer_create(&sizes, &weights, &layer));
    return layer;
}

static headwise_layer* make_linear(void)
{
    float output_rows[] = {1, 0, 1, 1};
    const headwise_tensor W_q = tensor(zero, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor W_k = tensor(key, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor W_v = tensor(value, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor W_o = tensor(output_rows, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor b_v = tensor(value_bias, HEADWISE_FLOAT32, 1, 2, 0, 0, 0);
    const headwise_tensor b_o = tensor(output_bias, HEADWISE_FLOAT32, 1, 2, 0, 0, 0);
    const headwise_layer_weights weights = {
        .struct_size = sizeof weights, .W_q = &W_q, .W_k = &W_k, .W_v = &W_v, .W_o = &W_o, .b_v = &b_v, .b_o = &b_o};
    const headwise_layer_shape sizes = shape();
    headwise_layer* layer = NULL;
    CHECK_OK(headwise_layer_create_from_linear(&sizes, &weights, &layer));
    return layer;
}

static headwise_layer* make_packed(void)
{
    float stacked[] = {0, 0, 0, 0, 5, 6, 7, 8, 1, 0, 2, 1}, stacked_bias[] = {0, 0, 5, 5, 1, 0};
    float output_rows[] = {1, 0, 1, 1};
    const headwise_tensor W_qkv = tensor(stacked, HEADWISE_FLOAT32, 2, 6, 2, 0, 0);
    const headwise_tensor W_o = tensor(output_rows, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor b_qkv = tensor(stacked_bias, HEADWISE_FLOAT32, 1, 6, 0, 0, 0);
    const headwise_tensor b_o = tensor(output_bias, HEADWISE_FLOAT32, 1, 2, 0, 0, 0);
    const headwise_packed_weights weights = {sizeof weights, &W_qkv, &W_o, &b_qkv, &b_o};
    const headwise_layer_shape sizes = shape();
    headwise_layer* layer = NULL;
    CHECK_OK(headwise_layer_create_from_packed(&sizes, &weights, &layer));
    return layer;
}

static void check_layer(const headwise_layer* layer)
{
    headwise_layer_shape sizes = {.struct_size = sizeof sizes};
    CHECK_OK(headwise_layer_get_shape(layer, &sizes));
    CHECK(sizes.struct_size == sizeof sizes && sizes.d_model == 2 && sizes.heads == 2 && sizes.kv_heads == 2);
    CHECK(sizes.d_k == 1 && sizes.d_v == 1 && sizes.d_model_kv == 2);

    // mean(X) = (2, 3): (3, 7) after W_v, (3, 10) after W_o
    float x[] = {1, 2, 3, 4}, y[] = {-1, -1, -1, -1};
    const headwise_tensor X = tensor(x, HEADWISE_FLOAT32, 2, 2, 2, 0, 0),
                          Y = tensor(y, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    CHECK_OK(headwise_layer_forward(layer, &X, &Y, NULL));
    for (int token = 0; token < 2; ++token) {
        CHECK_NEAR(y[2 * token], 13, 1e-5);
        CHECK_NEAR(y[2 * token + 1], 30, 1e-5);
    }

    // causal: the first token sees itself only, (1, 2): (2, 4), (2, 6)
    headwise_work_report work = {.struct_size = sizeof work};
    headwise_attention_options options = {.struct_size = sizeof options, .causal = 1, .work = &work};
    CHECK_OK(headwise_layer_forward(layer, &X, &Y, &options));
    CHECK_NEAR(y[0], 12, 1e-5);
    CHECK_NEAR(y[1], 26, 1e-5);
    CHECK_NEAR(y[2], 13, 1e-5);
    CHECK_NEAR(y[3], 30, 1e-5);
    CHECK(work.useful.project_q == 8 && work.useful.project_k == 8 && work.useful.project_v == 8);
    CHECK(work.useful.project_o == 8 && work.useful.score == 6);

    // keys and values from one token, (3, 4): (4, 10), (4, 14)
    float x_kv[] = {3, 4};
    const headwise_tensor X_kv = tensor(x_kv, HEADWISE_FLOAT32, 3, 1, 1, 2, 0);
    CHECK_OK(headwise_layer_forward_cross(layer, &X, &X_kv, &Y, NULL));
    for (int token = 0; token < 2; ++token) {
        CHECK_NEAR(y[2 * token], 14, 1e-5);
        CHECK_NEAR(y[2 * token + 1], 34, 1e-5);
    }

    double wide[4];
    const headwise_tensor float64 = tensor(wide, HEADWISE_FLOAT64, 2, 2, 2, 0, 0);
    CHECK_INVALID(headwise_layer_forward(layer, &X, &float64, NULL), "Y is of element type float64");
    CHECK_INVALID(headwise_layer_forward(layer, NULL, &Y, NULL), "X is null");
    CHECK_INVALID(headwise_layer_forward(layer, &X, NULL, NULL), "Y is null");
    CHECK_INVALID(headwise_layer_forward_cross(layer, &X, NULL, &Y, NULL), "X_kv is null");
    CHECK_INVALID(headwise_layer_forward(NULL, &X, &Y, NULL), "layer is null");
    CHECK_INVALID(headwise_layer_get_shape(layer, NULL), "shape is null");
    sizes.struct_size = 0;
    CHECK_INVALID(headwise_layer_get_shape(layer, &sizes), "shape->struct_size is 0");
}

static void test_float64(void)
{
    double q[] = {0}, one[] = {1}, three[] = {3}, x[] = {2}, y[] = {-1};
    const headwise_tensor W_q = tensor(q, HEADWISE_FLOAT64, 3, 1, 1, 1, 0),
                          W_k = tensor(one, HEADWISE_FLOAT64, 3, 1, 1, 1, 0);
    const headwise_tensor W_o = tensor(three, HEADWISE_FLOAT64, 2, 1, 1, 0, 0);
    const headwise_layer_weights weights = {
        .struct_size = sizeof weights, .W_q = &W_q, .W_k = &W_k, .W_v = &W_k, .W_o = &W_o};
    const headwise_layer_shape sizes = {.struct_size = sizeof sizes, .d_model = 1, .heads = 1};
    headwise_layer* layer = NULL;
    CHECK_OK(headwise_layer_create(&sizes, &weights, &layer));
    const headwise_tensor X = tensor(x, HEADWISE_FLOAT64, 2, 1, 1, 0, 0),
                          Y = tensor(y, HEADWISE_FLOAT64, 2, 1, 1, 0, 0);
    CHECK_OK(headwise_layer_forward(layer, &X, &Y, NULL));
    CHECK_NEAR(y[0], 6, 1e-14);
    headwise_layer_destroy(layer);
}

static void test_creation_errors(void)
{
    const headwise_tensor W_q = tensor(zero, HEADWISE_FLOAT32, 3, 2, 2, 1, 0);
    const headwise_tensor W_o = tensor(output, HEADWISE_FLOAT32, 2, 2, 2, 0, 0);
    const headwise_tensor half = tensor(zero, HEADWISE_FLOAT16, 3, 2, 2, 1, 0);
    const headwise_layer_weights good = {
        .struct_size = sizeof good, .W_q = &W_q, .W_k = &W_q, .W_v = &W_q, .W_o = &W_o};
    const headwise_layer_shape sizes = shape();
    headwise_layer* const canary = (headwise_layer*)zero;
    headwise_layer* layer = canary;

    CHECK_INVALID(headwise_layer_create(&sizes, &good, NULL), "layer is null");
    CHECK_INVALID(headwise_layer_create(NULL, &good, &layer), "shape is null");
    CHECK(layer == NULL);
    CHECK_INVALID(headwise_layer_create(&sizes, NULL, &layer), "weights is null");
    CHECK_INVALID(headwise_layer_create_from_linear(&sizes, NULL, &layer), "weights is null");
    CHECK_INVALID(headwise_layer_create_from_packed(&sizes, NULL, &layer), "weights is null");

    headwise_layer_weights weights = good;
    weights.struct_size = 8;
    CHECK_INVALID(headwise_layer_create(&sizes, &weights, &layer), "weights->struct_size is 8");
    weights = good;
    weights.W_q = &half;
    CHECK_INVALID(headwise_layer_create(&sizes, &weights, &layer), "W_q is of element type float16");
    weights = good;
    weights.W_k = &half;
    CHECK_INVALID(headwise_layer_create(&sizes, &weights, &layer), "W_k is of element type float16");
    weights = good;
    weights.W_v = NULL;
    CHECK_INVALID(headwise_layer_create(&sizes, &weights, &layer), "W_v is null");
    weights = good;
    weights.b_o = &W_o;
    CHECK_INVALID(headwise_layer_create(&sizes, &weights, &layer), "b_o is of rank 2");
    CHECK_INVALID(headwise_layer_create_from_linear(&sizes, &good, &layer), "W_q is of rank 3");

    headwise_layer_shape bad = shape();
    bad.heads = 3;
    layer = canary;
    CHECK_INVALID(headwise_layer_create(&bad, &good, &layer), "heads is 3");
    CHECK(layer == NULL);
    bad = shape();
    bad.struct_size = 1 << 20;
    CHECK_INVALID(headwise_layer_create(&bad, &good, &layer), "shape->struct_size is 1048576");
    CHECK(layer == NULL);
    headwise_layer_destroy(NULL);
}

void test_layer(void)
{
    headwise_layer* const layers[] = {make_per_head(), make_linear(), make_packed()};
    for (int i = 0; i < 3; ++i) {
        check_layer(layers[i]);
        headwise_layer_destroy(layers[i]);
    }
    test_float64();
    test_creation_errors();
}
