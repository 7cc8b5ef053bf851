// Arguments that headwise_attention and its helpers must refuse, each by its name and before anything is written.
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static float q[2] = {1, 1}, k[4], v[4], y[2];
static headwise_tensor Q, K, V, Y;

static void set_up(void)
{
    Q = tensor(q, HEADWISE_FLOAT32, 4, 1, 1, 1, 2);
    K = tensor(k, HEADWISE_FLOAT32, 4, 1, 1, 2, 2);
    V = tensor(v, HEADWISE_FLOAT32, 4, 1, 1, 2, 2);
    Y = tensor(y, HEADWISE_FLOAT32, 4, 1, 1, 1, 2);
    y[0] = y[1] = -1;
}

static void refuses_at(int line, const headwise_attention_options* options, const char* message)
{
    check_status(headwise_attention(&Q, &K, &V, &Y, options), HEADWISE_INVALID_ARGUMENT, message, __FILE__, line);
    check_true(y[0] == -1 && y[1] == -1, "nothing is written", __FILE__, line);
    set_up();
}

#define REFUSES(message) refuses_at(__LINE__, NULL, message)
#define REFUSES_OPTIONS(message, ...)                                                        \
    do {                                                                                     \
        const headwise_attention_options given = {.struct_size = sizeof given, __VA_ARGS__}; \
        refuses_at(__LINE__, &given, message);                                               \
    } while (0)

static void test_tensors(void)
{
    set_up();
    CHECK_INVALID(headwise_attention(NULL, &K, &V, &Y, NULL), "Q is null; expected a tensor");
    CHECK_INVALID(headwise_attention(&Q, NULL, &V, &Y, NULL), "K is null; expected a tensor");
    CHECK_INVALID(headwise_attention(&Q, &K, NULL, &Y, NULL), "V is null; expected a tensor");
    CHECK_INVALID(headwise_attention(&Q, &K, &V, NULL, NULL), "Y is null; expected a tensor");
    Q.element_type = 0;
    REFUSES("Q is of element type 0, which is none");
    K.element_type = 99;
    REFUSES("K is of element type 99, which is none");
    V.element_type = -1;
    REFUSES("V is of element type -1, which is none");
    Q.element_type = HEADWISE_INT64;
    REFUSES("Q is of element type int64");
    Q.element_type = HEADWISE_BOOLEAN;
    REFUSES("Q is of element type boolean");
    Y.element_type = HEADWISE_FLOAT64;
    REFUSES("Y is of element type float64; expected element type float32");
    Q.rank = 0;
    REFUSES("Q is of rank 0");
    K.rank = 5;
    REFUSES("K is of rank 5");
    V.rank = -1;
    REFUSES("V is of rank -1");
    V.data = NULL;
    REFUSES("V is null");
    K.data = (char*)k + 1;
    REFUSES("K is of misaligned data");
    K.shape[3] = 1;
    REFUSES("K is of shape (1, 1, 2, 1)");
    Y.strides[3] = 0;
    REFUSES("Y is of shape (1, 1, 1, 2) and strides");
    Y.data = v;
    REFUSES("Y is overlapping V");
    Q.shape[0] = INT64_MAX;
    Q.shape[2] = INT64_MAX;
    REFUSES("Q is of shape");
}

static void test_option_values(void)
{
    float small[4] = {0};
    int64_t three[] = {3};
    const headwise_tensor lengths = tensor(three, HEADWISE_INT64, 1, 1, 0, 0, 0);
    const headwise_tensor floats = tensor(small, HEADWISE_FLOAT32, 1, 1, 0, 0, 0);
    const headwise_tensor wide = tensor(small, HEADWISE_FLOAT64, 1, 1, 0, 0, 0);
    const headwise_tensor matrix = tensor(small, HEADWISE_FLOAT32, 2, 1, 1, 0, 0);
    const headwise_tensor unknown = {small, 42, 1, {2}, {1}};
    set_up();
    // A number whose flag was forgotten is an error, never another result.
    REFUSES_OPTIONS("scale is 0.5; expected 0, or has_scale set", .scale = 0.5);
    REFUSES_OPTIONS("scale is nan; expected 0, or has_scale set", .scale = (double)NAN);
    REFUSES_OPTIONS("left_window is 1; expected 0, or has_left_window set", .left_window = 1);
    REFUSES_OPTIONS("right_window is -1; expected 0, or has_right_window set", .right_window = -1);
    REFUSES_OPTIONS("reserved is 1", .reserved = 1);
    REFUSES_OPTIONS("scale is inf", .has_scale = 1, .scale = (double)INFINITY);
    REFUSES_OPTIONS("softcap is -1", .softcap = -1);
    REFUSES_OPTIONS("left_window is -2", .has_left_window = 1, .left_window = -2);
    REFUSES_OPTIONS("score_stage is 4", .score_stage = 4);
    REFUSES_OPTIONS("score_stage is -1", .score_stage = -1);
    REFUSES_OPTIONS("kv_lengths is 3 at index 0", .kv_lengths = &lengths);
    REFUSES_OPTIONS("kv_lengths is of element type float32; expected element type int64", .kv_lengths = &floats);
    REFUSES_OPTIONS("query_offset is 1", .query_offset = 1, .query_offsets = &lengths);
    REFUSES_OPTIONS("query_offsets is of rank 2; expected rank 1",
                    .query_offsets = &(headwise_tensor){three, HEADWISE_INT64, 2, {1, 1}, {1, 1}});
    REFUSES_OPTIONS("sinks is of element type float64; expected element type float32", .sinks = &wide);
    REFUSES_OPTIONS("alibi is of rank 2; expected rank 1", .alibi = &matrix);
    REFUSES_OPTIONS("mask is of element type int64", .mask = &lengths);
    REFUSES_OPTIONS("mask is of element type 42, which is none", .mask = &unknown);
    REFUSES_OPTIONS("mask is of another element type", .mask = &wide);
    REFUSES_OPTIONS("weights is of shape (1, 1, 1, 1)", .weights = &floats);
    REFUSES_OPTIONS("mean_weights is of element type float64", .mean_weights = &wide);
    REFUSES_OPTIONS("scores is overlapping Q", .scores = &Q);
    REFUSES_OPTIONS("log_sum_exp is of rank 4; expected rank 1 to 3", .log_sum_exp = &Q);
    headwise_work_report work = {.struct_size = 8};
    REFUSES_OPTIONS("work->struct_size is 8", .work = &work);
}

/// The struct that a later version might have.
struct later_options {
    headwise_attention_options known;
    int64_t later;
};

static void test_struct_sizes(void)
{
    struct later_options later = {.known = {.struct_size = sizeof later}};
    set_up();
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &later.known));
    CHECK(y[0] == 0 && y[1] == 0);
    set_up();
    later.later = 1;
    refuses_at(__LINE__, &later.known, "fields that this version lacks");
    later.known.struct_size = 0;
    refuses_at(__LINE__, &later.known, "options->struct_size is 0");
    later.known.struct_size = sizeof later.known - 1;
    refuses_at(__LINE__, &later.known, "options->struct_size is ");
    later.known.struct_size = SIZE_MAX;
    refuses_at(__LINE__, &later.known, "options->struct_size is 18446744073709551615");

    memset(&later, 0x55, sizeof later);
    CHECK_OK(headwise_attention_options_init(&later.known, sizeof later));
    CHECK(later.known.struct_size == sizeof later && later.known.mask == NULL && later.later == 0);
    later.later = 7;
    CHECK_OK(headwise_attention_options_init(&later.known, sizeof later.known));
    CHECK(later.known.struct_size == sizeof later.known && later.later == 7);
    CHECK_INVALID(headwise_attention_options_init(&later.known, 8), "struct_size is 8");
    CHECK_INVALID(headwise_attention_options_init(NULL, sizeof later), "options is null");
}

static void test_helpers(void)
{
    const int64_t shape[4] = {2, 3, 4, 5};
    headwise_tensor made;
    CHECK_OK(headwise_dense_tensor(&made, q, HEADWISE_FLOAT16, 3, shape));
    CHECK(made.data == q && made.element_type == HEADWISE_FLOAT16 && made.rank == 3);
    CHECK(made.shape[0] == 2 && made.shape[1] == 3 && made.shape[2] == 4 && made.shape[3] == 0);
    CHECK(made.strides[0] == 12 && made.strides[1] == 4 && made.strides[2] == 1 && made.strides[3] == 0);
    CHECK_INVALID(headwise_dense_tensor(NULL, q, HEADWISE_FLOAT32, 4, shape), "tensor is null");
    CHECK_INVALID(headwise_dense_tensor(&made, q, HEADWISE_FLOAT32, 4, NULL), "shape is null");
    CHECK_INVALID(headwise_dense_tensor(&made, q, HEADWISE_FLOAT32, 5, shape), "rank is 5");
    CHECK_INVALID(headwise_dense_tensor(&made, q, HEADWISE_FLOAT32, 0, shape), "rank is 0");
    CHECK_INVALID(headwise_dense_tensor(&made, q, 7, 4, shape), "element type 7");
    CHECK(made.rank == 3);
    CHECK_INVALID(headwise_alibi_slopes(0, q), "heads is 0");
    CHECK_INVALID(headwise_alibi_slopes(1, NULL), "slopes is null");
}

static void* fail_on_another_thread(void* message)
{
    CHECK(strcmp(headwise_last_error(), "") == 0);
    CHECK_INVALID(headwise_alibi_slopes(-5, q), "heads is -5");
    snprintf(message, 512, "%s", headwise_last_error());
    return NULL;
}

/// Messages are each thread's own, stay while calls succeed, and are cut where they are too long.
static void test_messages(void)
{
    char message[512] = "";
    CHECK_INVALID(headwise_alibi_slopes(-1, q), "heads is -1");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_on_another_thread, message) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(strstr(message, "heads is -5") != NULL);
    set_up();
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, NULL));
    CHECK(strstr(headwise_last_error(), "heads is -1") != NULL);

    char name[2000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK_INVALID(headwise_set_active_target(name), "xxxx");
    CHECK(strlen(headwise_last_error()) == 511);
}

void test_errors(void)
{
    test_tensors();
    test_option_values();
    test_struct_sizes();
    test_helpers();
    test_messages();
}
