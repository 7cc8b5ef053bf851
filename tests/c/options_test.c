// Each option of attention alone. One query of 1 over four keys of 0, values 1, 2, 4, 8: without options every key has
// weight 1/4 and the result is 15/4.
#include "check.h"

#include <math.h>
#include <stdbool.h>

static float q[1], k[4], v[4], y[1];
static headwise_tensor Q, K, V, Y;

static void set_up(void)
{
    for (int j = 0; j < 4; ++j) {
        k[j] = 0;
        v[j] = (float)(1 << j);
    }
    q[0] = 1;
    y[0] = -1;
    Q = tensor(q, HEADWISE_FLOAT32, 4, 1, 1, 1, 1);
    K = tensor(k, HEADWISE_FLOAT32, 4, 1, 1, 4, 1);
    V = tensor(v, HEADWISE_FLOAT32, 4, 1, 1, 4, 1);
    Y = tensor(y, HEADWISE_FLOAT32, 4, 1, 1, 1, 1);
}

static double result(headwise_attention_options options)
{
    options.struct_size = sizeof options;
    y[0] = -1;
    CHECK_OK(headwise_attention(&Q, &K, &V, &Y, &options));
    return y[0];
}

static void test_positions(void)
{
    set_up();
    CHECK_NEAR(result((headwise_attention_options){0}), 15.0 / 4, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.causal = 1}), 1, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.causal = 1, .query_offset = 1}), 3.0 / 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.causal = 1, .query_offset = -1}), 0, 0);
    CHECK_NEAR(result((headwise_attention_options){.has_left_window = 1, .query_offset = 2}), 12.0 / 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_left_window = 1, .left_window = 1, .query_offset = 2}),
               14.0 / 3, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_left_window = 1, .left_window = -1, .query_offset = 2}),
               15.0 / 4, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_right_window = 1, .query_offset = 1}), 3.0 / 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_right_window = 1, .right_window = 2}), 7.0 / 3, 1e-5);

    int64_t two[] = {2};
    const headwise_tensor per_item = tensor(two, HEADWISE_INT64, 1, 1, 0, 0, 0);
    CHECK_NEAR(result((headwise_attention_options){.causal = 1, .query_offsets = &per_item}), 7.0 / 3, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.kv_lengths = &per_item}), 3.0 / 2, 1e-5);
}

static void test_scores(void)
{
    set_up();
    k[3] = 100;
    CHECK_NEAR(result((headwise_attention_options){0}), 8, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_scale = 1}), 15.0 / 4, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_scale = 1, .scale = log(3) / 100}), 31.0 / 6, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.has_scale = 1, .scale = -1}), 7.0 / 3, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.softcap = log(3)}), 31.0 / 6, 1e-5);

    set_up();
    float four[] = {logf(4)}, two[] = {logf(2)};
    const headwise_tensor sinks = tensor(four, HEADWISE_FLOAT32, 1, 1, 0, 0, 0);
    const headwise_tensor alibi = tensor(two, HEADWISE_FLOAT32, 1, 1, 0, 0, 0);
    CHECK_NEAR(result((headwise_attention_options){.sinks = &sinks}), 15.0 / 8, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.alibi = &alibi}), 85.0 / 15, 1e-5);

    float slopes[3] = {0, 0, -1};
    CHECK_OK(headwise_alibi_slopes(2, slopes));
    CHECK(slopes[0] == 0.0625f && slopes[1] == 0.00390625f && slopes[2] == -1);
}

static void test_masks(void)
{
    set_up();
    bool odd[] = {false, true, false, true};
    float middle[] = {-INFINITY, 0, 0, -INFINITY};
    const headwise_tensor boolean = tensor(odd, HEADWISE_BOOLEAN, 2, 1, 4, 0, 0);
    const headwise_tensor additive = tensor(middle, HEADWISE_FLOAT32, 4, 1, 1, 1, 4);
    const headwise_tensor shorter = tensor(odd, HEADWISE_BOOLEAN, 1, 2, 0, 0, 0);
    CHECK_NEAR(result((headwise_attention_options){.mask = &boolean}), 10.0 / 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.mask = &additive}), 6.0 / 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.mask = &shorter}), 2, 1e-5);
    CHECK_NEAR(result((headwise_attention_options){.mask = &boolean, .causal = 1, .query_offset = 2}), 2, 1e-5);
}

/// Two heads of one query over keys 0 and ln 3; the second head's query is 0: weights 1/4, 3/4 and 1/2, 1/2.
static void test_outputs(void)
{
    float queries[] = {1, 0}, keys[] = {0, logf(3)}, values[] = {4, 8}, out[] = {-1, -1};
    const headwise_tensor two_heads = tensor(queries, HEADWISE_FLOAT32, 4, 1, 2, 1, 1);
    const headwise_tensor key_head = tensor(keys, HEADWISE_FLOAT32, 4, 1, 1, 2, 1);
    const headwise_tensor value_head = tensor(values, HEADWISE_FLOAT32, 4, 1, 1, 2, 1);
    const headwise_tensor outputs = tensor(out, HEADWISE_FLOAT32, 4, 1, 2, 1, 1);
    float weights[4], mean[2], scores[4], lse[2];
    const headwise_tensor W = tensor(weights, HEADWISE_FLOAT32, 4, 1, 2, 1, 2);
    const headwise_tensor M = tensor(mean, HEADWISE_FLOAT32, 3, 1, 1, 2, 0);
    const headwise_tensor S = tensor(scores, HEADWISE_FLOAT32, 4, 1, 2, 1, 2);
    const headwise_tensor L = tensor(lse, HEADWISE_FLOAT32, 3, 1, 2, 1, 0);
    headwise_work_report work = {.struct_size = sizeof work};
    headwise_attention_options options = {.struct_size = sizeof options,
                                          .softcap = 2,
                                          .causal = 1,
                                          .query_offset = 1,
                                          .weights = &W,
                                          .mean_weights = &M,
                                          .scores = &S,
                                          .log_sum_exp = &L,
                                          .work = &work};
    const double capped = 2 * tanh(log(3) / 2);
    const double want_scores[4] = {log(3), capped, capped, exp(capped) / (1 + exp(capped))};
    for (headwise_score_stage stage = HEADWISE_SCORES_SCALED; stage <= HEADWISE_SCORES_WEIGHTS; ++stage) {
        options.score_stage = stage;
        CHECK_OK(headwise_attention(&two_heads, &key_head, &value_head, &outputs, &options));
        CHECK_NEAR(scores[1], want_scores[stage], 1e-6);
        CHECK_NEAR(weights[1], want_scores[3], 1e-6);
        CHECK_NEAR(weights[0], 1 - want_scores[3], 1e-6);
        CHECK_NEAR(mean[1], (want_scores[3] + 0.5) / 2, 1e-6);
        CHECK_NEAR(lse[0], log(1 + exp(capped)), 1e-6);
        CHECK_NEAR(lse[1], log(2), 1e-6);
        CHECK_NEAR(out[0], 4 + 4 * want_scores[3], 1e-5);
        CHECK_NEAR(out[1], 6, 1e-5);
    }
    options.score_stage = HEADWISE_SCORES_BIASED;
    options.query_offset = 0;
    CHECK_OK(headwise_attention(&two_heads, &key_head, &value_head, &outputs, &options));
    CHECK_NEAR(scores[1], -INFINITY, 0);
}

static void test_work(void)
{
    set_up();
    headwise_work_report work = {.struct_size = sizeof work};
    for (int64_t call = 1; call <= 2; ++call) {
        result((headwise_attention_options){.work = &work});
        CHECK(work.useful.score == 4 * call && work.useful.exponentials == 4 * call && work.useful.blend == 4 * call);
        CHECK(work.useful.project_q == 0 && work.useful.project_o == 0);
        CHECK(work.issued.score >= work.useful.score && work.issued.blend >= work.useful.blend);
    }
    CHECK(work.struct_size == sizeof work);
}

void test_options(void)
{
    test_positions();
    test_scores();
    test_masks();
    test_outputs();
    test_work();
}
