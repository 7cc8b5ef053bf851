// The cost arithmetic against its written formulas and against counted runs of the reference.
#include "catch_compat.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <headwise/cost.hpp>
#include <headwise/counted.hpp>
#include <headwise/reference.hpp>

using namespace headwise;

namespace {

using CountedDouble = reference::Counted<double>;

std::vector<float> ones(std::int64_t count)
{
    return std::vector<float>(static_cast<std::size_t>(count), 1.0f);
}

/// The layer's work by counting it. Biases are there: they must not be counted.
Work count_layer(const cost::Sizes& s, const AttentionOptions<float>& options = {})
{
    const std::vector<float> W_q = ones(s.h * s.d_model * s.d_k), W_k = ones(s.h_kv * s.d_model * s.d_k);
    const std::vector<float> W_v = ones(s.h_kv * s.d_model * s.d_v), W_o = ones(s.h * s.d_v * s.d_model);
    const std::vector<float> b_q = ones(s.h * s.d_k), b_o = ones(s.d_model);
    const LayerWeights<float> weights{.W_q = {W_q.data(), {s.h, s.d_model, s.d_k}},
                                      .W_k = {W_k.data(), {s.h_kv, s.d_model, s.d_k}},
                                      .W_v = {W_v.data(), {s.h_kv, s.d_model, s.d_v}},
                                      .W_o = {W_o.data(), {s.h * s.d_v, s.d_model}},
                                      .b_q = {b_q.data(), {s.h, s.d_k}},
                                      .b_o = {b_o.data(), {s.d_model}}};
    const std::vector<float> x = ones(s.n * s.d_model), x_kv = ones(s.n_kv * s.d_model);
    std::vector<float> y = ones(s.n * s.d_model);
    const LayerShape shape{.d_model = s.d_model, .heads = s.h, .kv_heads = s.h_kv, .d_k = s.d_k, .d_v = s.d_v};
    return reference::count_work([&] {
        reference::multi_head_attention<float, CountedDouble>(shape, weights,
                                                              MatrixView<const float>(x.data(), {s.n, s.d_model}),
                                                              MatrixView<const float>(x_kv.data(), {s.n_kv, s.d_model}),
                                                              MatrixView<float>(y.data(), {s.n, s.d_model}), options);
    });
}

Work without_exponentials(Work work)
{
    work.exponentials = 0;
    return work;
}

}  // namespace

TEST_CASE("cost: work is what the reference counts", "[cost]")
{
    const std::int64_t n = GENERATE(0, 1, 5), n_kv = GENERATE(0, 1, 7), d_model = GENERATE(1, 6);
    const auto heads = GENERATE(table<std::int64_t, std::int64_t>({{1, 1}, {3, 1}, {4, 2}, {3, 3}}));
    const auto widths = GENERATE(table<std::int64_t, std::int64_t>({{1, 1}, {2, 5}, {4, 3}}));
    const cost::Sizes s{.n = n,
                        .n_kv = n_kv,
                        .d_model = d_model,
                        .h = std::get<0>(heads),
                        .h_kv = std::get<1>(heads),
                        .d_k = std::get<0>(widths),
                        .d_v = std::get<1>(widths)};
    CAPTURE(s.n, s.n_kv, s.d_model, s.h, s.h_kv, s.d_k, s.d_v);
    const Work counted = count_layer(s);
    CHECK(counted == cost::work(s));

    // Each stage by its formula, so that two errors cannot hide one another.
    CHECK(counted.project_q == s.n * s.h * s.d_model * s.d_k);
    CHECK(counted.project_k == s.n_kv * s.h_kv * s.d_model * s.d_k);
    CHECK(counted.project_v == s.n_kv * s.h_kv * s.d_model * s.d_v);
    CHECK(counted.score == s.h * s.n * s.n_kv * s.d_k);
    CHECK(counted.exponentials == s.h * s.n * s.n_kv);
    CHECK(counted.blend == s.h * s.n * s.n_kv * s.d_v);
    CHECK(counted.project_o == s.n * s.h * s.d_v * s.d_model);
}

TEST_CASE("cost: numbers of a layer by hand", "[cost]")
{
    // n 1024, d_model 512: projections n d_model^2 = 2^28 each, scoring and blending n^2 d_model = 2^29 each.
    const cost::Sizes s = cost::square(1024, 512, 8);
    const Work work = cost::work(s);
    CHECK(work.project_q == 268435456);
    CHECK(work.project_k == 268435456);
    CHECK(work.project_v == 268435456);
    CHECK(work.project_o == 268435456);
    CHECK(work.score == 536870912);
    CHECK(work.blend == 536870912);
    CHECK(work.exponentials == 8388608);
    CHECK(cost::weights_elements(s) == 8388608);
    CHECK(cost::multiply_adds_per_exponential(s) == 128);
    CHECK(cost::flops(work) == 4294967296.0);
    CHECK(cost::parameters(s).without_o() == 786432);
    CHECK(cost::parameters(s).total() == 1048576);
}

TEST_CASE("cost: only exponentials and weights depend on the number of heads", "[cost]")
{
    const std::int64_t n = 6, d_model = 12;
    const cost::Sizes one = cost::square(n, d_model, 1);
    for (const std::int64_t h : {1, 2, 3, 4, 6, 12}) {
        CAPTURE(h);
        const cost::Sizes s = cost::square(n, d_model, h);
        CHECK(s.d_k == d_model / h);
        CHECK(s.d_v == d_model / h);
        CHECK(s.h_kv == h);
        CHECK(s.n_kv == n);
        const Work counted = count_layer(s);
        CHECK(counted == cost::work(s));
        CHECK(without_exponentials(counted) == without_exponentials(cost::work(one)));
        CHECK(counted.exponentials == h * cost::work(one).exponentials);
        CHECK(cost::weights_elements(s) == h * n * n);
        CHECK(cost::multiply_adds_per_exponential(s) == 2 * d_model / h);
        CHECK(cost::flops(counted) == cost::flops(cost::work(one)));
        const cost::Parameters p = cost::parameters(s);
        CHECK(p.q == d_model * d_model);
        CHECK(p.k == d_model * d_model);
        CHECK(p.v == d_model * d_model);
        CHECK(p.o == d_model * d_model);
        CHECK(p.without_o() == 3 * d_model * d_model);
        CHECK(p.total() == 4 * d_model * d_model);
    }
}

TEST_CASE("cost: parameters of grouped heads and unequal widths", "[cost]")
{
    const cost::Parameters p =
        cost::parameters({.n = 1, .n_kv = 1, .d_model = 7, .h = 6, .h_kv = 2, .d_k = 3, .d_v = 5});
    CHECK(p.q == 126);
    CHECK(p.k == 42);
    CHECK(p.v == 70);
    CHECK(p.o == 210);
    CHECK(p.without_o() == 238);
    CHECK(p.total() == 448);
}

TEST_CASE("cost: at the balance, attention costs what its projections cost", "[cost]")
{
    for (const std::int64_t d_model : {2, 8, 512}) {
        const std::int64_t n = cost::balance_tokens(d_model);
        CHECK(n == 2 * d_model);
        const Work work = cost::work(cost::square(n, d_model, 2));
        CHECK(work.score + work.blend == work.project_q + work.project_k + work.project_v + work.project_o);
    }
}

TEST_CASE("cost: sizes beyond 32 bits", "[cost]")
{
    const Work work = cost::work(cost::square(1 << 20, 1024, 16));
    CHECK(work.score == std::int64_t{1} << 50);
    CHECK(work.exponentials == std::int64_t{1} << 44);
    CHECK(cost::flops(work) == 2 * (4 * 0x1p40 + 2 * 0x1p50));
}

TEST_CASE("cost: causal pairs", "[cost]")
{
    for (const std::int64_t n : {0, 1, 2, 5, 8})
        for (const std::int64_t n_kv : {0, 1, 3, 5, 9})
            for (std::int64_t offset = -12; offset <= 12; ++offset) {
                CAPTURE(n, n_kv, offset);
                std::int64_t pairs = 0;
                for (std::int64_t i = 0; i < n; ++i)
                    for (std::int64_t j = 0; j < n_kv; ++j) pairs += j <= i + offset;
                CHECK(cost::causal_pairs(n, n_kv, offset) == pairs);
            }
    CHECK(cost::causal_pairs(1 << 20, 1 << 20, 0) == (std::int64_t{1} << 39) + (std::int64_t{1} << 19));
    CHECK(cost::causal_pairs(3, 4, std::numeric_limits<std::int64_t>::max()) == 12);
    CHECK(cost::causal_pairs(3, 4, std::numeric_limits<std::int64_t>::min()) == 0);
}

TEST_CASE("cost: the reference counts the pairs that take part", "[cost]")
{
    const cost::Sizes s{.n = 4, .n_kv = 5, .d_model = 6, .h = 2, .h_kv = 1, .d_k = 3, .d_v = 2};
    for (const std::int64_t offset : {-6, -2, 0, 1, 7}) {
        const std::int64_t pairs = s.h * cost::causal_pairs(s.n, s.n_kv, offset);
        Work expected = cost::work(s);
        expected.score = pairs * s.d_k;
        expected.exponentials = pairs;
        expected.blend = pairs * s.d_v;
        CHECK(count_layer(s, {.causal = true, .query_offset = offset}) == expected);
    }

    const bool mask[] = {true, false, true, true, false};
    const float sinks[] = {1, 2};
    const Work masked = count_layer(s, {.scale = 2.0,
                                        .softcap = 3,
                                        .mask = VectorView<const bool>(mask, {5}),
                                        .sinks = VectorView<const float>(sinks, {2})});
    CHECK(masked.score == 2 * 4 * 3 * 3);
    CHECK(masked.exponentials == 2 * 4 * 3);  // those of the sinks are not counted
    CHECK(masked.blend == 2 * 4 * 3 * 2);
}

TEST_CASE("cost: counting changes no result and ends with its scope", "[cost]")
{
    const std::vector<double> q{0.3, -0.7}, k{0.1, 0.9, -0.4, 0.2}, v{1.5, -2.5};
    double plain = 0, counted = 0;
    const auto run = [&]<class Number>(double& y, Number) {
        reference::attention<double, Number>({q.data(), {1, 1, 1, 2}}, {k.data(), {1, 1, 2, 2}},
                                             {v.data(), {1, 1, 2, 1}}, TensorView<double, 4>(&y, {1, 1, 1, 1}));
    };
    run(plain, double{});
    const Work expected{.score = 4, .exponentials = 2, .blend = 2};
    CHECK(reference::count_work([&] {
              run(counted, CountedDouble{});
              const Work inner = reference::count_work([&] { run(counted, CountedDouble{}); });
              CHECK(inner == expected);
          }) == expected);
    CHECK(counted == plain);
    CHECK(reference::count_work([&] { run(plain, double{}); }) == Work{});
    run(counted, CountedDouble{});  // counts nowhere
    CHECK(reference::counting.work == nullptr);
}

TEST_CASE("cost: square names what it refuses", "[cost]")
{
    CHECK_THROWS_AS(cost::square(-1, 8, 2), std::invalid_argument);
    CHECK_THROWS_WITH(cost::square(-1, 8, 2), "square: n is -1, expected 0 or more");
    CHECK_THROWS_WITH(cost::square(4, 0, 2), "square: d_model is 0, expected 1 or more");
    CHECK_THROWS_WITH(cost::square(4, 8, 0), "square: h is 0, expected 1 or more");
    CHECK_THROWS_WITH(cost::square(4, 8, -2), "square: h is -2, expected 1 or more");
    CHECK_THROWS_WITH(cost::square(4, 8, 3), "square: h is 3, expected a divisor of d_model, which is 8");
    CHECK_NOTHROW(cost::square(0, 1, 1));
}
