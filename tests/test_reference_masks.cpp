// Which keys take part in a row, in the naive reference: patterns written by hand, one row a query.
#include "reference_example.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace headwise;
using reference_example::Example;
using reference_example::near;
using reference_example::participation;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

const Example square{.n_q = 4, .n_kv = 4};

}  // namespace

TEST_CASE("reference: causal and query offset", "[reference]")
{
    CHECK(participation(square, {}) == "1111 1111 1111 1111");
    CHECK(participation(square, {.causal = true}) == "1000 1100 1110 1111");
    CHECK(participation(square, {.causal = true, .query_offset = 2}) == "1110 1111 1111 1111");
    CHECK(participation(square, {.causal = true, .query_offset = -2}) == "0000 0000 1000 1100");
    CHECK(participation(square, {.causal = true, .query_offset = largest}) == "1111 1111 1111 1111");
    CHECK(participation({.n_q = 2, .n_kv = 5}, {.causal = true, .query_offset = 3}) == "11110 11111");  // bottom-right
    CHECK(participation({.n_q = 2, .n_kv = 5}, {.query_offset = 3}) == "11111 11111");
}

TEST_CASE("reference: query offsets of the items replace the one offset", "[reference]")
{
    const std::array<std::int64_t, 3> offsets{0, 1, -1};
    CHECK(participation({.b = 3, .n_q = 2, .n_kv = 3}, {.causal = true,
                                                        .query_offset = 2,
                                                        .query_offsets = VectorView<const std::int64_t>(
                                                            offsets.data(), {3})}) == "100 110 110 111 000 100");
}

TEST_CASE("reference: windows", "[reference]")
{
    CHECK(participation(square, {.left_window = 1}) == "1111 1111 0111 0011");
    CHECK(participation(square, {.right_window = 1}) == "1100 1110 1111 1111");
    CHECK(participation(square, {.left_window = 0, .right_window = 0}) == "1000 0100 0010 0001");
    CHECK(participation(square, {.causal = true, .left_window = 1}) == "1000 1100 0110 0011");
    CHECK(participation(square, {.causal = true, .left_window = 1, .right_window = 2}) == "1000 1100 0110 0011");
    CHECK(participation(square, {.query_offset = 2, .left_window = 1, .right_window = 0}) == "0110 0011 0001 0000");
    CHECK(participation(square, {.query_offset = -2, .left_window = 0, .right_window = 1}) == "0000 1000 1100 0110");
    CHECK(participation(square, {.left_window = largest, .right_window = largest}) == "1111 1111 1111 1111");
    CHECK(participation(square, {.query_offset = -5, .left_window = largest}) == "1111 1111 1111 1111");
}

TEST_CASE("reference: lengths of the items", "[reference]")
{
    const std::array<std::int64_t, 3> lengths{2, 0, 3};
    const VectorView<const std::int64_t> view(lengths.data(), {3});
    CHECK(participation({.b = 3, .n_q = 2, .n_kv = 3}, {.kv_lengths = view}) == "110 110 000 000 111 111");
    CHECK(participation({.b = 3, .n_q = 2, .n_kv = 3}, {.causal = true, .query_offset = 1, .kv_lengths = view}) ==
          "110 110 000 000 110 111");
}

TEST_CASE("reference: boolean masks of each rank", "[reference]")
{
    const Example example{.b = 2, .h = 2, .h_kv = 2, .n_q = 2, .n_kv = 3};
    const bool row[] = {true, false, true};
    CHECK(participation(example, {.mask = VectorView<const bool>(row, {3})}) == "101 101 101 101 101 101 101 101");
    const bool rows[] = {true, false, true, false, false, true};
    CHECK(participation(example, {.mask = MatrixView<const bool>(rows, {2, 3})}) == "101 001 101 001 101 001 101 001");
    CHECK(participation(example, {.mask = TensorView<const bool, 3>(rows, {2, 1, 3})}) ==  // by head
          "101 101 001 001 101 101 001 001");
    CHECK(participation(example, {.mask = TensorView<const bool, 4>(rows, {2, 1, 1, 3})}) ==  // by item
          "101 101 101 101 001 001 001 001");
    const bool column[] = {false, true};
    CHECK(participation(example, {.mask = MatrixView<const bool>(column, {2, 1})}) ==  // by query
          "000 111 000 111 000 111 000 111");
    const bool single[] = {false};
    CHECK(participation(example, {.mask = VectorView<const bool>(single, {1})}) == "000 000 000 000 000 000 000 000");
}

TEST_CASE("reference: masks by their strides", "[reference]")
{
    const Example example{.h = 2, .n_q = 2, .n_kv = 3};
    const bool numbers[] = {true, false, true, false, false, true};
    CHECK(participation(example, {.mask = MatrixView<const bool>(numbers, {2, 3}, {1, 2})}) ==  // transposed
          "110 001 110 001");
    CHECK(participation(example, {.mask = TensorView<const bool, 3>(numbers, {2, 2, 3}, {3, 0, 1})}) ==
          "101 101 001 001");
    CHECK(participation(example, {.mask = VectorView<const bool>(numbers + 3, {3}, {-1})}) == "010 010 010 010");
}

TEST_CASE("reference: keys past a short mask take no part", "[reference]")
{
    const bool pair[] = {true, true};
    const float zeros[] = {0, 0};
    const Example example{.n_q = 2, .n_kv = 4};
    CHECK(participation(example, {.mask = VectorView<const bool>(pair, {2})}) == "1100 1100");
    CHECK(participation(example, {.causal = true, .mask = VectorView<const float>(zeros, {2})}) == "1000 1100");
    CHECK(participation(example, {.mask = VectorView<const bool>(pair, {1})}) == "1111 1111");  // 1 broadcasts
}

TEST_CASE("reference: masks compose with causal, windows and lengths", "[reference]")
{
    const bool row[] = {true, false, true, true};
    const std::int64_t lengths[] = {3};
    CHECK(participation(square, {.causal = true,
                                 .left_window = 2,
                                 .kv_lengths = VectorView<const std::int64_t>(lengths, {1}),
                                 .mask = VectorView<const bool>(row, {4})}) == "1000 1000 1010 0010");
}

TEMPLATE_TEST_CASE("reference: additive masks of each type", "[reference]", float, double, bfloat16, float16)
{
    // Added 0, 2 and -inf: masses 1, e^2 and none.
    const TestType mask[] = {TestType(0.f), TestType(2.f), TestType(-std::numeric_limits<float>::infinity())};
    Example example{.n_kv = 3, .keys = {0, 0, 5}, .values = {1, 0, 7}};
    example.run({.mask = VectorView<const TestType>(mask, {3})});
    CHECK(example.output[0] == near(1 / (1 + std::exp(2.0))));
    CHECK(example.weights[2] == 0);
    CHECK(example.log_sum_exp[0] == near(std::log1p(std::exp(2.0))));
}

TEST_CASE("reference: a hugely negative finite mask is added like any other number", "[reference]")
{
    const std::vector<double> mask{-1e30, -1e30};
    Example example{.n_kv = 2, .keys = {0, 0}, .values = {8, 4}};
    example.run({.mask = VectorView<const double>(mask.data(), {2})});
    CHECK(example.output[0] == near(6));
}

TEST_CASE("reference: a NaN in an additive mask takes part", "[reference]")
{
    const std::vector<double> mask{0, not_a_number};
    Example example{.n_kv = 2, .keys = {0, 0}, .values = {8, 4}};
    example.run({.mask = VectorView<const double>(mask.data(), {2})});
    CHECK(std::isnan(example.output[0]));
}

TEST_CASE("reference: keys that take no part never leak", "[reference]")
{
    const double poison = GENERATE(as<double>{}, infinity, -infinity, not_a_number);
    // The last key is left out in each of the ways there are; the first two have masses 1 and 1.
    const bool open[] = {true, true, false};
    const double added[] = {0, 0, -infinity};
    const std::int64_t lengths[] = {2};
    const std::vector<AttentionOptions<double>> ways{
        {.causal = true, .query_offset = 1},
        {.right_window = 1},
        {.kv_lengths = VectorView<const std::int64_t>(lengths, {1})},
        {.mask = VectorView<const bool>(open, {3})},
        {.mask = VectorView<const bool>(open, {2})},
        {.mask = VectorView<const double>(added, {3})},
    };
    for (const AttentionOptions<double>& way : ways) {
        for (const ScoreStage stage : {ScoreStage::scaled, ScoreStage::biased}) {  // scaled scores every pair
            Example example{.n_kv = 3, .keys = {0, 0, poison}, .values = {8, 4, poison}};
            std::vector<double> scores(3, -77);
            AttentionOptions<double> options = way;
            options.softcap = 9;
            options.scores = {scores.data(), {1, 1, 1, 3}};
            options.score_stage = stage;
            example.run(options);
            CHECK(example.output[0] == near(6));
            CHECK(example.weights[2] == 0);
            CHECK(example.log_sum_exp[0] == near(std::log(2.0)));
            if (stage == ScoreStage::biased) CHECK(scores[2] == -infinity);
        }
    }

    // Neither through a row that is NaN by another key.
    Example example{.n_kv = 3, .keys = {not_a_number, 0, 0}, .values = {8, 4, 2}};
    example.run({.mask = VectorView<const bool>(open, {3})});
    CHECK(std::isnan(example.weights[0]));
    CHECK(example.weights[2] == 0);
}

TEST_CASE("reference: the left window leaves earlier keys out, poisoned ones too", "[reference]")
{
    Example example{.n_kv = 3, .keys = {not_a_number, 0, 0}, .values = {not_a_number, 8, 4}};
    example.run({.query_offset = 2, .left_window = 1});
    CHECK(example.output[0] == near(6));
}
