// The naive reference of attention(), pinned by values worked out by hand: scores, softmax, blend, outputs.
// Which keys take part is pinned in test_reference_masks.cpp.
#include "reference_example.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <headwise/reference.hpp>

using namespace headwise;
using reference_example::Example;
using reference_example::near;

namespace {

const double ln2 = std::log(2.0);
const double ln3 = std::log(3.0);
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("reference: two keys by hand", "[reference]")
{
    Example example{.n_kv = 2, .keys = {0, ln3}, .values = {8, 4}};
    example.run();
    CHECK(example.weights[0] == near(0.25));
    CHECK(example.weights[1] == near(0.75));
    CHECK(example.output[0] == near(5));  // 8 / 4 + 4 * 3 / 4
    CHECK(example.log_sum_exp[0] == near(std::log(4.0)));
}

TEST_CASE("reference: the softmax is stable far from zero", "[reference]")
{
    for (const double shift : {-5000.0, 5000.0}) {
        Example example{.n_kv = 2, .keys = {shift, shift}, .values = {8, 4}};
        example.run();
        CHECK(example.output[0] == near(6));
        CHECK(example.log_sum_exp[0] == near(shift + ln2));
    }
}

TEST_CASE("reference: the default scale is 1 / sqrt(d_k)", "[reference]")
{
    // q . k_1 = 4 * ln3 / 2 = 2 ln3; times 1 / sqrt(4): ln3, so weights 1/4 and 3/4.
    const std::vector<float> Q{1, 1, 1, 1}, V{8, 4};
    const std::vector<float> K{0,
                               0,
                               0,
                               0,
                               static_cast<float>(ln3 / 2),
                               static_cast<float>(ln3 / 2),
                               static_cast<float>(ln3 / 2),
                               static_cast<float>(ln3 / 2)};
    std::vector<float> y(1);
    const TensorView<float, 4> Y(y.data(), {1, 1, 1, 1});
    reference::attention({Q.data(), {1, 1, 1, 4}}, {K.data(), {1, 1, 2, 4}}, {V.data(), {1, 1, 2, 1}}, Y);
    CHECK(y[0] == Catch::Approx(5).epsilon(1e-6));
}

TEST_CASE("reference: scale 0 is the mean, a negative scale inverts the masses", "[reference]")
{
    Example example{.n_kv = 2, .keys = {0, ln3}, .values = {8, 4}};
    example.run({.scale = 0.0});
    CHECK(example.output[0] == near(6));
    example.run({.scale = -1.0});  // masses 1 and 1/3: weights 3/4 and 1/4
    CHECK(example.output[0] == near(7));
}

TEST_CASE("reference: softcap", "[reference]")
{
    // 2 tanh(s / 2) = ln3 for s = 2 atanh(ln3 / 2).
    const double s = 2 * std::atanh(ln3 / 2);
    Example example{.n_kv = 2, .keys = {0, s}, .values = {8, 4}};
    example.run({.softcap = 2});
    CHECK(example.output[0] == near(5));

    // The cap applies to the scaled score, and comes before the mask, which it does not touch: ln3 + ln2 for key 1.
    example.keys[1] = s / 3;
    const std::vector<double> mask{0, ln2};
    example.run({.scale = 3.0, .softcap = 2, .mask = VectorView<const double>(mask.data(), {2})});
    CHECK(example.weights[0] == near(1.0 / 7));
    CHECK(example.weights[1] == near(6.0 / 7));
}

TEST_CASE("reference: causal two by two", "[reference]")
{
    Example example{.n_q = 2, .n_kv = 2, .keys = {0, ln3}, .values = {8, 4}};
    example.run({.causal = true});
    CHECK(example.output[0] == near(8));
    CHECK(example.output[1] == near(5));
    CHECK(example.log_sum_exp[0] == near(0));
    CHECK(example.log_sum_exp[1] == near(std::log(4.0)));
    CHECK(example.weights[1] == 0);
}

TEST_CASE("reference: a sink takes mass and has no value", "[reference]")
{
    // Masses 1 and 3; head 0's sink has mass 4 and halves the weights, head 1's -inf has none.
    const std::vector<double> sinks{2 * ln2, -infinity};
    Example example{.h = 2, .n_kv = 2, .keys = {0, ln3}, .values = {8, 4}};
    const VectorView<const double> sinks_view(sinks.data(), {2});
    example.run({.sinks = sinks_view});
    CHECK(example.weights[0] == near(0.125));
    CHECK(example.weights[1] == near(0.375));
    CHECK(example.output[0] == near(2.5));
    CHECK(example.log_sum_exp[0] == near(std::log(8.0)));
    CHECK(example.output[1] == near(5));
    CHECK(example.log_sum_exp[1] == near(std::log(4.0)));

    SECTION("a sink above every score is the maximum")
    {
        const std::vector<double> high{4000, 4000};
        example.run({.sinks = VectorView<const double>(high.data(), {2})});
        CHECK(example.output[0] == 0);
        CHECK(example.log_sum_exp[0] == 4000);
    }
    SECTION("it is neither scaled, nor capped, nor masked")
    {
        const bool open[] = {true, false};
        const std::vector<double> sink{ln3, ln3};  // above the cap of 1
        example.run({.scale = 0.0,
                     .softcap = 1,
                     .mask = VectorView<const bool>(open, {2}),
                     .sinks = VectorView<const double>(sink.data(), {2})});
        CHECK(example.weights[0] == near(0.25));
    }
    SECTION("without a key the row is zero all the same")
    {
        example.run({.causal = true, .query_offset = -1, .sinks = sinks_view});
        CHECK(example.output[0] == 0);
        CHECK(example.weights[0] == 0);
        CHECK(example.log_sum_exp[0] == -infinity);
    }
}

TEST_CASE("reference: ALiBi", "[reference]")
{
    // Position of the query 2; slope ln2: masses 2^(j - 2) = 1/4, 1/2, 1, 2 of 3.75. Slope 0: all equal.
    const std::vector<double> slopes{ln2, 0};
    Example example{.h = 2, .n_kv = 4, .keys = {0, 0, 0, 0}, .values = {1, 0, 0, 0}};
    example.run({.query_offset = 2, .alibi = VectorView<const double>(slopes.data(), {2})});
    const double expected[] = {1.0 / 15, 2.0 / 15, 4.0 / 15, 8.0 / 15, 0.25, 0.25, 0.25, 0.25};
    for (std::size_t j = 0; j < 8; ++j) CHECK(example.weights[j] == near(expected[j]));
    CHECK(example.log_sum_exp[0] == near(std::log(3.75)));
}

TEST_CASE("reference: key/value heads repeat, they do not tile", "[reference]")
{
    Example example{.b = 2, .h = 4, .h_kv = 2, .keys = {0, 0, 0, 0}, .values = {10, 11, 20, 21}};
    example.run();
    CHECK(example.output == std::vector<double>{10, 10, 11, 11, 20, 20, 21, 21});
}

TEST_CASE("reference: scores at each stage", "[reference]")
{
    // scale 2, cap 4, mask ln2 on key 1, causal: query 0 sees key 0, query 1 both.
    const std::vector<double> mask{0, ln2};
    const double s[] = {2.0, 6.0};
    const double capped[] = {4 * std::tanh(0.5), 4 * std::tanh(1.5)};
    const double low = std::exp(capped[0]), high = std::exp(capped[1] + ln2);
    const std::vector<std::vector<double>> expected{{s[0], s[1], s[0], s[1]},
                                                    {capped[0], capped[1], capped[0], capped[1]},
                                                    {capped[0], -infinity, capped[0], capped[1] + ln2},
                                                    {1, 0, low / (low + high), high / (low + high)}};
    for (const ScoreStage stage :
         {ScoreStage::scaled, ScoreStage::softcapped, ScoreStage::biased, ScoreStage::weights}) {
        Example example{.n_q = 2, .n_kv = 2, .keys = {1, 3}, .values = {8, 4}};
        std::vector<double> scores(4, -77);
        example.run({.scale = 2.0,
                     .softcap = 4,
                     .causal = true,
                     .mask = VectorView<const double>(mask.data(), {2}),
                     .scores = {scores.data(), {1, 1, 2, 2}},
                     .score_stage = stage});
        for (std::size_t i = 0; i < 4; ++i) {
            INFO("stage " << static_cast<int>(stage) << ", element " << i);
            const double want = expected[static_cast<std::size_t>(stage)][i];
            CHECK((scores[i] == want || scores[i] == near(want)));
        }
        CHECK(example.output[1] == near((8 * low + 4 * high) / (low + high)));  // not changed by the asking
    }
}

TEST_CASE("reference: mean weights", "[reference]")
{
    // Head 0: 1/4, 3/4; head 1: 1/2, 1/2; item 1: the same two, heads exchanged.
    Example example{.b = 2,
                    .h = 2,
                    .h_kv = 2,
                    .n_kv = 2,
                    .keys = {0, ln3, 1, 1, 5, 5, 0, ln3},
                    .values = std::vector<double>(8, 1.0)};
    std::vector<double> mean(4, -77);
    example.run({.mean_weights = {mean.data(), {2, 1, 2}}});
    CHECK(mean[0] == near(0.375));
    CHECK(mean[1] == near(0.625));
    CHECK(mean[2] == near(0.375));
    CHECK(mean[3] == near(0.625));
}

TEST_CASE("reference: a NaN or infinity of a key that takes part reaches the output", "[reference]")
{
    Example example{.n_q = 2, .n_kv = 3, .keys = {0, 0, not_a_number}, .values = {8, 4, 1}};
    example.run({.causal = true, .query_offset = 1});  // query 0 sees keys 0 and 1, query 1 all
    CHECK(example.output[0] == near(6));
    CHECK(std::isnan(example.output[1]));
    CHECK(std::isnan(example.log_sum_exp[1]));
    CHECK(example.weights[2] == 0);

    example.keys[2] = 0;
    example.values[2] = infinity;
    example.run({.causal = true, .query_offset = 1});
    CHECK(example.output[0] == near(6));
    CHECK(example.output[1] == infinity);

    example.keys[2] = infinity;  // inf - inf
    example.run({.causal = true, .query_offset = 1});
    CHECK(std::isnan(example.output[1]));
}

TEST_CASE("reference: scores of -inf weigh nothing, and a row of them is a zero row", "[reference]")
{
    Example example{.n_kv = 2, .keys = {-infinity, 0}, .values = {8, 4}};
    example.run();
    CHECK(example.output[0] == near(4));
    CHECK(example.log_sum_exp[0] == near(0));
    example.keys[1] = -infinity;
    example.values[1] = infinity;  // 0 * inf would be NaN
    example.run();
    CHECK(example.output[0] == 0);
    CHECK(example.weights == std::vector<double>{0, 0});
    CHECK(example.log_sum_exp[0] == -infinity);
}

TEST_CASE("reference: no keys, no queries, no items", "[reference]")
{
    Example no_keys{.n_q = 2, .n_kv = 0};
    no_keys.run();
    CHECK(no_keys.output == std::vector<double>{0, 0});
    CHECK(no_keys.log_sum_exp == std::vector<double>{-infinity, -infinity});
    Example no_queries{.n_q = 0, .keys = {1}, .values = {1}};
    CHECK_NOTHROW(no_queries.run());
    Example no_items{.b = 0};
    CHECK_NOTHROW(no_items.run());
}

TEST_CASE("reference: any strides", "[reference]")
{
    // Keys log(1), log(3) and values 8, 4 of two heads in (n, h, d) order, the last head's keys the other way round.
    const std::vector<double> q{1, 1}, k{0, ln3, ln3, 0}, v{8, 0, 4, 0};
    std::vector<double> y(2, -77);
    const TensorView<const double, 4> Q(q.data(), {1, 2, 1, 1}), K(k.data(), {1, 2, 2, 1}, {0, 1, 2, 1});
    const TensorView<const double, 4> V(v.data(), {1, 2, 2, 1}, {0, 0, 2, 1});  // heads share V by the stride 0
    reference::attention(Q, K, V, TensorView<double, 4>(y.data() + 1, {1, 2, 1, 1}, {0, -1, 0, 0}), {.scale = 1.0});
    CHECK(y[1] == near(5));
    CHECK(y[0] == near(7));
}

TEST_CASE("reference: results are rounded to the element type, once", "[reference]")
{
    // Half of 1 + 2^-9: fp16 has 2^-11 there, so it is exact; bf16 has 2^-8 above 0.5, so the tie goes to even.
    const std::vector<bfloat16> q{bfloat16(1.f)}, k(2), v{bfloat16(1.f), bfloat16(0x1p-8f)};
    std::vector<bfloat16> y(1);
    const TensorView<bfloat16, 4> Y(y.data(), {1, 1, 1, 1});
    reference::attention({q.data(), {1, 1, 1, 1}}, {k.data(), {1, 1, 2, 1}}, {v.data(), {1, 1, 2, 1}}, Y);
    CHECK(static_cast<float>(y[0]) == static_cast<float>(bfloat16(0.5f + 0x1p-9f)));
    CHECK(static_cast<float>(y[0]) == 0.5f);
}

TEST_CASE("reference: Number is the arithmetic", "[reference]")
{
    // 1e8 + 1 - 1e8 is 1 in double; in float the 1 is lost.
    const std::vector<float> q{1, 1, 1}, k{1e8f, 1, -1e8f}, v{1};
    std::vector<float> y(1), score(1);
    const TensorView<float, 4> Y(y.data(), {1, 1, 1, 1});
    const AttentionOptions<float> options{.scale = 1.0, .scores = {score.data(), {1, 1, 1, 1}}};
    reference::attention({q.data(), {1, 1, 1, 3}}, {k.data(), {1, 1, 1, 3}}, {v.data(), {1, 1, 1, 1}}, Y, options);
    CHECK(score[0] == 1);
    reference::attention<float, float>({q.data(), {1, 1, 1, 3}}, {k.data(), {1, 1, 1, 3}}, {v.data(), {1, 1, 1, 1}}, Y,
                                       options);
    CHECK(score[0] == 0);
}
