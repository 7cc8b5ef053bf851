// The operator against the reference: shapes, element types and options, on every target.
#include "catch_compat.hpp"
#include "random_problem.hpp"
#include "tolerance.hpp"

#include <set>

#include "kernels/kernel_table.hpp"

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::ScoreStage;
using headwise::Target;

namespace {

constexpr std::array<std::int64_t, 7> widths{1, 8, 40, 59, 64, 111, 128};

/// 1, tile - 1, tile, tile + 1, 2 tile + 3.
std::array<std::int64_t, 5> around(std::int64_t tile)
{
    return {1, tile - 1, tile, tile + 1, 2 * tile + 3};
}

/// Every option alone, with the outputs that show it.
std::vector<Problem> single_options(std::int64_t n_q, std::int64_t n_kv)
{
    const Problem plain{.b = 2,
                        .h = 4,
                        .h_kv = 2,
                        .n_q = n_q,
                        .n_kv = n_kv,
                        .d_k = 24,
                        .d_v = 20,
                        .weights = true,
                        .log_sum_exp = true};
    std::vector<Problem> problems;
    const auto with = [&](const auto& change) {
        Problem p = plain;
        p.seed = problems.size() + 1;
        change(p);
        problems.push_back(p);
    };
    with([](Problem&) {});
    for (const double scale : {0.0, -0.3, 2.0}) with([&](Problem& p) { p.scale = scale; });
    for (const double softcap : {0.5, 30.0}) with([&](Problem& p) { p.softcap = softcap; });
    for (const std::int64_t offset : {std::int64_t{0}, n_kv - n_q, std::int64_t{-5}, n_kv + 9, -n_q - 9})
        with([&](Problem& p) { p.causal = true, p.query_offset = offset; });
    with([](Problem& p) { p.causal = true, p.query_offsets = true; });
    with([](Problem& p) { p.kv_lengths = true; });
    for (const std::int64_t window : {0, 1, 7, 1000}) {
        with([&](Problem& p) { p.left_window = window, p.query_offset = 3; });
        with([&](Problem& p) { p.right_window = window, p.query_offset = -3; });
        with([&](Problem& p) { p.left_window = p.right_window = window; });
    }
    for (const MaskKind kind : {MaskKind::boolean, MaskKind::float32})
        for (std::int64_t bits = 0; bits < 16; ++bits)
            with([&](Problem& p) {
                p.mask = kind;
                p.mask_shape = {bits & 1 ? p.b : 1, bits & 2 ? p.h : 1, bits & 4 ? p.n_q : 1, bits & 8 ? p.n_kv : 1};
            });
    if (n_kv > 4) with([&](Problem& p) { p.mask = MaskKind::boolean, p.mask_shape = {1, 1, p.n_q, n_kv - 2}; });
    with([](Problem& p) { p.sinks = true; });
    with([](Problem& p) { p.alibi = true; });
    with([](Problem& p) { p.weights = false, p.mean_weights = true; });
    for (int stage = 0; stage < 4; ++stage)
        with([&](Problem& p) {
            p.scores = true, p.score_stage = static_cast<ScoreStage>(stage);
            p.softcap = 2, p.causal = true, p.query_offset = 4, p.alibi = true;
        });
    return problems;
}

}  // namespace

/// What decoding asks for: few rows, and bounds, offsets, windows, lengths, sinks, masks and what is added to scores. The
/// others of them fall to the panels, whose side of the border is compared too.
TEMPLATE_TEST_CASE("attention: few query rows", "[attention]", float, double, bfloat16, float16)
{
    for_each_target([](Target target) {
        INFO(headwise::name(target));
        JointErrors all;
        std::uint64_t seed = 1;
        for (const std::int64_t n_kv : {0, 1, 7, 63, 65, 130, 257, 530, 1100})
            for (const std::int64_t group : {1, 2, 3, 4, n_kv == 63 ? 7 : 8})
                for (const std::int64_t n_q : {1, 2}) {
                    if (n_kv > 300 && group != (n_q == 1 ? 4 : 1)) continue;  // the reference takes long
                    // More rows are few where they are wide, and fewer keys are several tiles.
                    const bool wide = n_kv > 300 ? group == 4 : group * n_q > 4 && n_kv % 2 == 1;
                    const Problem plain{.b = 2,
                                        .h = 2 * group,
                                        .h_kv = 2,
                                        .n_q = n_q,
                                        .n_kv = n_kv,
                                        .d_k = wide ? 131 : widths[seed % widths.size()],
                                        .d_v = wide ? 128 : widths[seed / 2 % widths.size()],
                                        .seed = seed};
                    ++seed;
                    std::vector<Problem> problems(15, plain);
                    problems[1].causal = true, problems[1].query_offset = n_kv - n_q;
                    problems[2].kv_lengths = problems[2].sinks = true;
                    problems[3].left_window = 20, problems[3].query_offset = n_kv / 2;
                    problems[4].k_layout = problems[4].v_layout = Layout::tokens_first;
                    problems[5].k_layout = problems[5].q_layout = problems[5].y_layout = Layout::spread;
                    problems[6].alibi = problems[6].log_sum_exp = true, problems[6].query_offset = n_kv - n_q;
                    problems[7].softcap = 3, problems[7].log_sum_exp = problems[7].sinks = true;
                    for (std::size_t i = 8; i < 11; ++i) problems[i].mask = MaskKind::boolean;
                    problems[8].mask_shape = {2, 1, 1, n_kv}, problems[8].mask_is_ranges = true;
                    problems[8].log_sum_exp = true;
                    problems[9].mask_shape = {1, 2 * group, n_q, n_kv}, problems[9].mask_is_ranges = true;
                    problems[9].alibi = problems[9].causal = true, problems[9].query_offset = n_kv - n_q;
                    problems[10].mask_shape = {1, 2 * group, 1, n_kv};
                    for (std::size_t i = 11; i < 15; ++i) problems[i].log_sum_exp = true;
                    problems[11].mask = MaskKind::float32, problems[11].mask_shape = {2, 2 * group, n_q, n_kv};
                    problems[12].mask = MaskKind::element, problems[12].mask_shape = {2, 1, n_q, n_kv};
                    problems[12].mask_layout = Layout::spread, problems[12].sinks = true;
                    problems[13].mask = MaskKind::float32, problems[13].mask_shape = {1, 1, 1, n_kv - n_kv / 3};
                    problems[13].left_window = 150, problems[13].query_offset = n_kv / 2, problems[13].softcap = 4;
                    problems[14].mask = MaskKind::boolean, problems[14].mask_shape = {1, 2 * group, n_q, n_kv};
                    problems[14].alibi = true, problems[14].query_offset = n_kv - n_q;
                    if (n_kv == 530) problems.resize(9);  // of the rest, 1100 keys are enough to see
                    for (const Problem& problem : problems) all.include(compare<TestType>(problem));
                }
        CHECK(all.failures() == "");
    });
}

/// So many keys that K and V do not stay near: the weights of several panels are kept at a time.
TEST_CASE("attention: weights over many keys", "[attention]")
{
    for_each_target([](Target target) {
        const Problem plain{.h = 2, .n_q = 75, .n_kv = 2200, .d_k = 64, .d_v = 40, .weights = true};
        std::vector<Problem> problems(4, plain);
        problems[1].mean_weights = true, problems[1].causal = true, problems[1].query_offset = 900;
        problems[2].left_window = 700, problems[2].query_offset = 1400, problems[2].sinks = true;
        problems[3].weights = false, problems[3].scores = true, problems[3].score_stage = ScoreStage::weights;
        for (const Problem& problem : problems) {
            INFO(headwise::name(target) << ": " << problem.text());
            CHECK(compare<float>(problem).failures == "");
        }
    });
}

/// Calls that read more than the plan takes near caches to hold: what comes next is fetched meanwhile.
TEST_CASE("attention: K and V that come from memory", "[attention]")
{
    const Problem many_heads{.b = 40, .h = 6, .n_q = 19, .n_kv = 45, .d_k = 64, .d_v = 72};
    const Problem one_panel{.h = 4, .h_kv = 2, .n_q = 5, .n_kv = 7000, .d_k = 64, .d_v = 64};
    const Problem panels{.h = 2, .n_q = 33, .n_kv = 6600, .d_k = 64, .d_v = 64};
    std::vector<Problem> problems{many_heads, many_heads, one_panel, one_panel, panels, panels};
    problems[1].y_layout = problems[1].k_layout = Layout::tokens_first, problems[1].causal = true;
    problems[1].query_offset = 26, problems[1].kv_lengths = true;
    problems[3].q_layout = problems[3].v_layout = Layout::tokens_first, problems[3].left_window = 5000;
    problems[3].query_offset = 6995;
    problems[5].causal = true, problems[5].query_offset = 6567, problems[5].y_layout = Layout::spread;
    for_each_target([&](Target target) {
        for (const Problem& problem : problems) {
            INFO(headwise::name(target) << ": " << problem.text());
            CHECK(compare<float>(problem).failures == "");
        }
    });
}

TEST_CASE("attention: query heads that share keys get the bits that each gets alone", "[attention]")
{
    for_each_target([](Target target) {
        INFO(headwise::name(target));
        const std::int64_t lanes = headwise::kernel_table<float>(target).panel_tokens() / 2;
        for (std::int64_t group = 2; group <= 8; ++group)
            for (const std::int64_t n_kv : {5, 300, 2500})
                for (const std::int64_t d : {32, 77, 131}) {
                    if (group > (d > 128 && lanes >= 8 ? 8 : lanes / 2)) continue;  // a panel has other bits
                    INFO("group " << group << ", n_kv " << n_kv << ", d " << d);
                    const Inputs<float> inputs(Problem{.h = group,
                                                       .h_kv = 1,
                                                       .n_q = 1,
                                                       .n_kv = n_kv,
                                                       .d_k = d,
                                                       .d_v = d,
                                                       .seed = static_cast<std::uint64_t>(n_kv + d)});
                    const Tensor<float, 4> together({1, group, 1, d}), alone({1, group, 1, d});
                    headwise::attention(inputs.Q.input(), inputs.K.input(), inputs.V.input(), together.view());
                    for (std::int64_t head = 0; head < group; ++head) {
                        auto q = inputs.Q.input();
                        auto y = alone.view();
                        q.data = &q(0, head, 0, 0), y.data = &y(0, head, 0, 0);
                        q.shape[1] = y.shape[1] = 1;
                        headwise::attention(q, inputs.K.input(), inputs.V.input(), y);
                    }
                    for_each_index(together.shape(),
                                   [&](const auto& i) { REQUIRE(at(together.view(), i) == at(alone.view(), i)); });
                }
    });
}

TEMPLATE_TEST_CASE("attention: shapes around the tiles", "[attention]", float, double)
{
    for_each_target([](Target target) {
        const auto& table = headwise::kernel_table<TestType>(target);
        Errors all;
        std::size_t turn = 0;
        for (const std::int64_t n_q : around(table.panel_tokens()))
            for (const std::int64_t d_k : widths) {
                const std::int64_t d_v = widths[turn++ % widths.size()];
                for (const std::int64_t n_kv : around(table.key_tile(d_k, d_v))) {
                    const Comparison c = compare<TestType>(
                        Problem{.n_q = n_q, .n_kv = n_kv, .d_k = d_k, .d_v = d_v, .log_sum_exp = true, .seed = turn});
                    INFO(headwise::name(target));
                    REQUIRE(c.failures == "");
                    all.include(c.errors.at("Y"));
                }
            }
        INFO(headwise::name(target) << ": largest error " << all.kernels << ", plain evaluation " << all.plain);
        CHECK(all.earned(0));
    });
}

TEST_CASE("attention: queries around the key tile, keys around the panel", "[attention]")
{
    for_each_target([](Target target) {
        const auto& table = headwise::kernel_table<float>(target);
        std::uint64_t seed = 0;
        for (const std::int64_t n_q : around(table.key_tile(59, 40)))
            for (const std::int64_t n_kv : around(table.panel_tokens())) {
                const Problem p{
                    .h = 2, .n_q = n_q, .n_kv = n_kv, .d_k = 59, .d_v = 40, .weights = true, .seed = ++seed};
                INFO(headwise::name(target));
                REQUIRE(compare<float>(p).failures == "");
            }
    });
}

TEMPLATE_TEST_CASE("attention: each option alone", "[attention]", float, double, bfloat16, float16)
{
    for_each_target([](Target target) {
        for (const Problem& problem : single_options(19, 45)) {
            INFO(headwise::name(target));
            CHECK(compare<TestType>(problem).failures == "");
        }
        for (const Problem& problem : single_options(35, 200)) {
            INFO(headwise::name(target));
            CHECK(compare<TestType>(problem).failures == "");
        }
    });
}

TEMPLATE_TEST_CASE("attention: random combinations of options, shapes and layouts", "[attention]", float, double,
                   bfloat16, float16)
{
    constexpr std::uint64_t rounds = std::is_same_v<TestType, float> ? 400 : 120;
    for_each_target([](Target target) {
        for (std::uint64_t seed = 1; seed <= rounds; ++seed) {
            INFO(headwise::name(target));
            Random random(seed);
            Problem problem = random_problem(random);
            problem.seed = seed;
            CHECK(compare<TestType>(problem).failures == "");
        }
    });
}

// A score of 60 carries a rounding error of 4e-6 whatever one does, which is the weights' relative error too: a single
// problem tells little more than luck, many do.
TEST_CASE("attention: large scores cost the kernels no more precision than the plain evaluation", "[attention]")
{
    const auto total = [](Problem p) {
        Errors all;
        for (p.seed = 1; p.seed <= 100; ++p.seed) all.include(compare<float>(p).errors.at("Y"));
        return all;
    };
    const Problem steep{.n_q = 38, .n_kv = 19, .d_k = 64, .d_v = 7, .scale = -2.0};
    Problem capped = steep, barely_capped = steep;
    capped.softcap = 50;
    barely_capped.softcap = 50, barely_capped.scale = {};
    const Problem sloping{.n_q = 30, .n_kv = 106, .d_k = 5, .d_v = 9, .alibi = true, .alibi_slope = 0.5};
    for_each_target([&](Target target) {
        for (const Problem& p : {steep, capped, barely_capped, sloping}) {
            const Errors all = total(p);
            INFO(headwise::name(target) << ": largest error " << all.kernels << ", plain evaluation " << all.plain);
            INFO(p.text());
            CHECK(all.earned(0));
            CHECK(all.kernels > 0);
        }
    });
}

TEST_CASE("attention: nothing to do", "[attention]")
{
    for_each_target([](Target target) {
        INFO(headwise::name(target));
        for (const bool sinks : {false, true}) {
            Problem p{.b = 2,
                      .h = 4,
                      .h_kv = 2,
                      .n_q = 5,
                      .n_kv = 0,
                      .d_k = 7,
                      .d_v = 9,
                      .sinks = sinks,
                      .weights = true,
                      .mean_weights = true,
                      .scores = true,
                      .log_sum_exp = true};
            CHECK(compare<float>(p).failures == "");  // rows without a key
            p.mask = MaskKind::boolean;
            p.mask_shape = {1, 1, 5, 0};
            CHECK(compare<float>(p).failures == "");
            p.n_kv = 6;  // a mask without a key: all of them are past its end
            CHECK(compare<float>(p).failures == "");
            p.mask = MaskKind::none;
            p.n_q = 0;
            CHECK(compare<float>(p).failures == "");
            p.n_q = 5;
            p.b = 0;
            CHECK(compare<float>(p).failures == "");
        }
    });
}

TEST_CASE("attention: empty tensors need no memory", "[attention]")
{
    const Tensor<float, 4> Y({1, 2, 3, 4}, Layout::dense, End::canaries);
    const Tensor<float, 4> Q({1, 2, 3, 5});
    fill(Q, [](const auto&) { return 1.0f; });
    const headwise::TensorView<const float, 4> no_keys(nullptr, {1, 2, 0, 5}, {40, 20, 5, 1});
    const headwise::TensorView<const float, 4> no_values(nullptr, {1, 2, 0, 4}, {32, 16, 4, 1});
    for_each_target([&](Target) {
        headwise::attention(Q.view(), no_keys, no_values, Y.view());
        CHECK(max_magnitude(Y.view()) == 0);
        CHECK(Y.intact_around());
    });
    headwise::attention({nullptr, {0, 2, 3, 5}}, {nullptr, {0, 2, 3, 5}}, {nullptr, {0, 2, 3, 4}},
                        headwise::TensorView<float, 4>(nullptr, {0, 2, 3, 4}));
}
