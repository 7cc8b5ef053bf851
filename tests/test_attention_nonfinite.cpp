// NaN, infinities and extreme options: what takes no part has no influence, what takes part does.
#include "catch_compat.hpp"
#include "tolerance.hpp"

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::Target;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
constexpr auto highest = std::numeric_limits<std::int64_t>::max();

/// The ways in which a key can take no part for some queries only, or for all.
std::vector<Problem> exclusions()
{
    const Problem plain{.b = 2,
                        .h = 2,
                        .h_kv = 1,
                        .n_q = 19,
                        .n_kv = 210,
                        .d_k = 12,
                        .d_v = 9,
                        .weights = true,
                        .mean_weights = true,
                        .log_sum_exp = true};
    std::vector<Problem> problems;
    const auto with = [&](const auto& change) {
        Problem p = plain;
        change(p);
        problems.push_back(p);
    };
    with([](Problem& p) { p.causal = true, p.query_offset = 190; });
    with([](Problem& p) { p.left_window = 8, p.right_window = 3, p.query_offset = 180; });
    with([](Problem& p) { p.kv_lengths = true; });
    for (const MaskKind kind : {MaskKind::boolean, MaskKind::float32, MaskKind::element})
        with([&](Problem& p) { p.mask = kind, p.mask_shape = {2, 2, 19, 210}; });
    with([](Problem& p) { p.mask = MaskKind::boolean, p.mask_shape = {1, 1, 1, 190}; });
    with([](Problem& p) { p.causal = true, p.query_offset = 190, p.softcap = 5, p.alibi = true; });
    with([](Problem& p) {
        p.causal = true, p.query_offset = 190, p.scores = true, p.score_stage = headwise::ScoreStage::biased;
    });
    return problems;
}

/// Likewise for few rows, with a mask, in one piece and in several.
std::vector<Problem> exclusions_of_few_rows()
{
    std::vector<Problem> problems;
    for (const MaskKind kind : {MaskKind::boolean, MaskKind::float32, MaskKind::element})
        for (const std::int64_t n_kv : {210, 2500}) {
            Problem p{.b = 2, .h = 2, .h_kv = 1, .n_q = 1, .n_kv = n_kv, .d_k = 16, .d_v = 17, .mask = kind};
            p.mask_shape = {2, 2, 1, n_kv};
            p.log_sum_exp = true;
            problems.push_back(p);
            p.mask_layout = Layout::spread;
            p.softcap = 5;
            p.sinks = true;
            problems.push_back(p);
        }
    return problems;
}

/// The reference of `inputs` and the kernels have the same NaN and infinities, and all else within `limit`.
template <class E>
void check_same(const Inputs<E>& inputs, double limit)
{
    const Outputs<E> got = run_kernels(inputs);
    const auto want = run_oracle(inputs);
    INFO(inputs.problem.text());
    CHECK(max_error(got.Y.view(), want.Y.view()) <= limit);
    CHECK(max_error(got.scores.view(), want.scores.view()) <= 10 * limit);
    CHECK(max_error(got.log_sum_exp.view(), want.log_sum_exp.view()) <= 1e-5);
}

template <class E>
constexpr double limit_of = std::is_same_v<E, bfloat16>  ? 2e-2
                            : std::is_same_v<E, float16> ? 3e-3
                                                         : 3e-6;

}  // namespace

TEMPLATE_TEST_CASE("attention: NaN and infinity reach the rows whose keys they are, and no others",
                   "[attention][nonfinite]", float, double, bfloat16, float16)
{
    std::vector<Problem> problems = exclusions();
    for (const Problem& problem : exclusions_of_few_rows()) problems.push_back(problem);
    for_each_target([&](Target target) {
        for (const Problem& problem : problems)
            for (const double value : {not_a_number, infinity, -infinity})
                for (const std::int64_t key : {0, 100, 185, 195, 209}) {
                    INFO(headwise::name(target) << ": " << value << " at key " << key);
                    const Inputs<TestType> in_V(problem), in_K(problem);
                    in_V.V.view()(1, 0, key, 4) = element<TestType>(value);
                    check_same(in_V, limit_of<TestType>);
                    in_K.K.view()(1, 0, key, 4) = element<TestType>(value);
                    check_same(in_K, limit_of<TestType>);
                }
    });
}

TEMPLATE_TEST_CASE("attention: what a row of V that no query sees holds changes no bit", "[attention][nonfinite]", float,
                   double, bfloat16, float16)
{
    for_each_target([](Target target) {
        for (const std::int64_t n_q : {1, 19})  // few rows and panels
            for (const std::int64_t n_kv : {9, 210, 2500})
                for (const std::int64_t d_v : {16, 29}) {
                    Problem problem{.b = 2, .h = 2, .h_kv = 1, .n_q = n_q, .n_kv = n_kv, .d_k = 16, .d_v = d_v};
                    problem.mask = MaskKind::boolean, problem.mask_shape = {1, 1, n_q, n_kv};
                    INFO(headwise::name(target) << ": " << problem.text());
                    const Inputs<TestType> inputs(problem);
                    const auto output_with = [&](double value) {
                        for (std::int64_t key = 0; key < n_kv; key += 7) {
                            for (std::int64_t i = 0; i < n_q; ++i) inputs.boolean_mask.view()(0, 0, i, key) = false;
                            inputs.V.view()(1, 0, key, 4) = element<TestType>(value);
                        }
                        return run_kernels(inputs);
                    };
                    const Outputs<TestType> of_zeros = output_with(0), of_infinities = output_with(infinity);
                    for_each_index(of_zeros.Y.shape(), [&](const auto& i) {
                        using Number = headwise::compute_t<TestType>;
                        REQUIRE(static_cast<Number>(at(of_zeros.Y.view(), i)) ==
                                static_cast<Number>(at(of_infinities.Y.view(), i)));
                    });
                }
    });
}

TEMPLATE_TEST_CASE("attention: a key that takes no part has the weight 0, even where the row's sum is NaN",
                   "[attention][nonfinite]", float, double, bfloat16, float16)
{
    for_each_target([](Target target) {
        for (const Problem& problem : exclusions())
            for (const double value : {not_a_number, infinity}) {
                const Inputs<TestType> inputs(problem);
                inputs.K.view()(1, 0, 185, 4) = element<TestType>(value);
                const Outputs<TestType> got = run_kernels(inputs);
                const auto want = run_oracle(inputs);
                INFO(headwise::name(target) << ": " << value << "; " << problem.text());
                REQUIRE(weights_agree(got.weights, want.weights, limit_of<TestType>));
                REQUIRE(weights_agree(got.mean_weights, want.mean_weights, limit_of<TestType>));
            }
    });
}

/// One query over many keys is done in pieces. NaN stands where no query sees it, -inf scores fill whole pieces.
TEST_CASE("attention: one query over many keys, most of them unseen or weightless", "[attention][nonfinite]")
{
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const Problem plain{.b = 2, .h = 4, .h_kv = 2, .n_q = 1, .n_kv = 3300, .d_k = 16, .d_v = 24};
    std::vector<Problem> problems(6, plain);
    problems[1].sinks = true;
    problems[2].causal = problems[2].sinks = true, problems[2].query_offset = 1500;
    problems[3].causal = true, problems[3].query_offset = 2900, problems[3].left_window = 40;
    problems[4].kv_lengths = problems[4].sinks = true;
    problems[5].causal = true, problems[5].query_offset = -5;  // no key at all
    for_each_target([&](Target target) {
        for (const Problem& problem : problems) {
            INFO(headwise::name(target) << ": " << problem.text());
            const Inputs<float> inputs(problem);
            for (std::int64_t key = 0; key < problem.n_kv; ++key) {
                const bool seen =
                    !problem.causal || (key <= problem.query_offset &&
                                        (problem.left_window < 0 || key >= problem.query_offset - problem.left_window));
                for (std::int64_t item = 0; item < problem.b; ++item)
                    for (std::int64_t head = 0; head < problem.h_kv; ++head)
                        for (std::int64_t c = 0; c < problem.d_v; ++c)
                            if (!seen) inputs.V.view()(item, head, key, c) = nan;
            }
            REQUIRE(compare<float>(inputs).failures == "");

            // Every score of the first two pieces is -inf, and so, at last, is every score.
            const auto scores_of_minus_infinity = [&](std::int64_t keys) {
                for_each_index(std::array{problem.b, problem.h, std::int64_t{1}},
                               [&](const auto& i) { inputs.Q.view()(i[0], i[1], i[2], 0) = 1; });
                for_each_index(std::array{problem.b, problem.h_kv, keys}, [&](const auto& i) {
                    inputs.K.view()(i[0], i[1], i[2], 0) = -std::numeric_limits<float>::infinity();
                });
            };
            scores_of_minus_infinity(2048);
            REQUIRE(compare<float>(inputs).failures == "");
            scores_of_minus_infinity(problem.n_kv);
            REQUIRE(compare<float>(inputs).failures == "");
        }
    });
}

TEST_CASE("attention: NaN in a query stays in its row", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        for (const Problem& problem : exclusions()) {
            INFO(headwise::name(target));
            const Inputs<float> inputs(problem);
            inputs.Q.view()(0, 1, 7, 3) = static_cast<float>(not_a_number);
            check_same(inputs, 3e-6);
        }
    });
}

TEST_CASE("attention: a NaN in an additive mask is a NaN in its row", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        Problem problem{.n_q = 19,
                        .n_kv = 40,
                        .d_k = 8,
                        .d_v = 5,
                        .mask = MaskKind::float32,
                        .mask_shape = {1, 1, 19, 40},
                        .weights = true,
                        .log_sum_exp = true};
        const Inputs<float> inputs(problem);
        inputs.float_mask.view()(0, 0, 3, 12) = static_cast<float>(not_a_number);
        INFO(headwise::name(target));
        check_same(inputs, 3e-6);
    });
}

/// As where a library makes masks of the lowest finite number: beside it no score counts, and all keys weigh alike.
TEST_CASE("attention: a row whose mask is the lowest finite number everywhere", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        for (const std::int64_t n_q : {1, 19}) {
            const Inputs<float> inputs(Problem{.b = 2,
                                               .n_q = n_q,
                                               .n_kv = 210,
                                               .d_k = 16,
                                               .d_v = 16,
                                               .mask = MaskKind::float32,
                                               .mask_shape = {2, 1, 1, 210}});
            fill(inputs.float_mask, [](const auto&) { return std::numeric_limits<float>::lowest(); });
            INFO(headwise::name(target));
            check_same(inputs, 3e-6);
            const Outputs<float> got = run_kernels(inputs);
            double mean = 0;
            for (std::int64_t key = 0; key < 210; ++key) mean += inputs.V.view()(1, 0, key, 3) / 210;
            CHECK(std::abs(got.Y.view()(1, 0, n_q - 1, 3) - mean) < 1e-6);
        }
    });
}

TEST_CASE("attention: scale and sinks at the end of their range", "[attention][nonfinite]")
{
    constexpr float largest = std::numeric_limits<float>::max();
    for_each_target([](Target target) {
        for (const std::int64_t n_q : {1, 19})
            for (const double scale : {2.3e38, 2.4e38, double{largest}, -double{largest}})
                for (const float sink : {0.0F, 2.4e38F, largest, -largest}) {
                    Problem p{.b = 2, .n_q = n_q, .n_kv = 210, .d_k = 16, .d_v = 16, .scale = scale};
                    p.sinks = sink != 0;
                    p.log_sum_exp = true;
                    const Inputs<float> inputs(p);
                    fill(inputs.Q, [](const auto& i) { return i[3] == 0 ? 1e-38F : 0.0F; });
                    fill(inputs.sinks, [&](const auto&) { return sink; });
                    INFO(headwise::name(target) << ", sink " << sink);
                    check_same(inputs, 3e-6);
                }
    });
}

// A key takes part though its score is -inf: its weight is 0, and 0 times an infinity of V is NaN. Where all scores of a
// row are -inf there is no weight at all, and the row is zeros whatever V holds.
TEST_CASE("attention: scores of -inf", "[attention][nonfinite]")
{
    std::vector<Problem> problems = exclusions();
    problems.push_back({.n_q = 19, .n_kv = 210, .d_k = 12, .d_v = 9, .log_sum_exp = true});
    problems.push_back({.b = 2, .h = 2, .n_q = 1, .n_kv = 210, .d_k = 16, .d_v = 17});
    for_each_target([&](Target target) {
        INFO(headwise::name(target));
        for (const Problem& problem : problems) {
            const Inputs<float> one(problem);
            fill(one.Q, [](const auto&) { return 0.5F; });
            one.K.view()(0, 0, 185, 3) = static_cast<float>(-infinity);
            one.V.view()(0, 0, 185, 2) = static_cast<float>(infinity);
            check_same(one, 3e-6);
            const Inputs<float> all(problem);
            fill(all.Q, [](const auto&) { return 0.5F; });
            fill(all.K, [](const auto&) { return static_cast<float>(-infinity); });
            fill(all.V, [](const auto&) { return static_cast<float>(not_a_number); });
            check_same(all, 3e-6);
        }
    });
}

TEMPLATE_TEST_CASE("attention: a row without a key is zeros and -inf", "[attention][nonfinite]", float, double,
                   bfloat16, float16)
{
    for_each_target([](Target target) {
        for (const bool sinks : {false, true}) {
            const Problem p{.h = 2,
                            .n_q = 20,
                            .n_kv = 30,
                            .d_k = 8,
                            .d_v = 11,
                            .causal = true,
                            .query_offset = -7,
                            .sinks = sinks,
                            .weights = true,
                            .mean_weights = true,
                            .log_sum_exp = true};
            const Inputs<TestType> inputs(p);
            fill(inputs.V, [](const auto&) { return element<TestType>(not_a_number); });
            const Outputs<TestType> got = run_kernels(inputs);
            INFO(headwise::name(target) << (sinks ? ", sinks" : ""));
            for (std::int64_t i = 0; i < 7; ++i) {
                CHECK(number(got.Y.view()(0, 1, i, 4)) == 0);
                CHECK(number(got.weights.view()(0, 1, i, 9)) == 0);
                CHECK(number(got.mean_weights.view()(0, i, 9)) == 0);
                CHECK(got.log_sum_exp.view()(0, 1, i) == -infinity);
            }
            CHECK(std::isnan(number(got.Y.view()(0, 1, 7, 4))));
        }
    });
}

TEST_CASE("attention: offsets and windows at the ends of their type", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        for (const std::int64_t offset : {lowest, lowest + 5, highest - 5, highest})
            for (const std::int64_t window : {std::int64_t{-1}, std::int64_t{0}, highest}) {
                Problem p{.n_q = 9,
                          .n_kv = 12,
                          .d_k = 4,
                          .d_v = 5,
                          .causal = true,
                          .query_offset = offset,
                          .left_window = window,
                          .right_window = window,
                          .weights = true,
                          .log_sum_exp = true};
                INFO(headwise::name(target));
                check_same(Inputs<float>(p), 3e-6);
                p.causal = false;
                check_same(Inputs<float>(p), 3e-6);
                p.alibi = true;
                p.alibi_slope = 1e-18;
                check_same(Inputs<float>(p), 3e-6);
            }
    });
}

// Beyond position 2^24 a float cannot tell neighbours apart. Their distances are still rounded once, not once a key.
TEST_CASE("attention: ALiBi at far positions", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        const Problem p{.n_q = 5,
                        .n_kv = 180,
                        .d_k = 4,
                        .d_v = 5,
                        .query_offset = (std::int64_t{1} << 25) + 1,
                        .alibi = true,
                        .alibi_slope = 0.25,
                        .weights = true};
        const Inputs<float> inputs(p);
        const Outputs<float> got = run_kernels(inputs), plain = run_reference<float>(inputs), want = run_oracle(inputs);
        INFO(headwise::name(target));
        CHECK(max_error(got.weights.view(), want.weights.view()) <=
              2 * max_error(plain.weights.view(), want.weights.view()) + 1e-7);
    });
}

TEST_CASE("attention: every weight underflows but one", "[attention][nonfinite]")
{
    for_each_target([](Target target) {
        const Problem p{.n_q = 18, .n_kv = 200, .d_k = 8, .d_v = 5, .scale = 1e4, .weights = true, .log_sum_exp = true};
        const Inputs<float> inputs(p);
        const Outputs<float> got = run_kernels(inputs), want = run_oracle(inputs);
        INFO(headwise::name(target));
        CHECK(max_error(got.weights.view(), want.weights.view()) <= 0.05);
        CHECK(max_magnitude(got.weights.view()) == 1);
        CHECK(max_error(got.log_sum_exp.view(), want.log_sum_exp.view()) <=
              3e-7 * max_magnitude(want.log_sum_exp.view()));
    });
}
