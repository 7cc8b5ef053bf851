// Calls that are made of attention(): ragged batches, the cache, past and present. Each must give what attention() gives
// on the same numbers laid out plainly.
#include "catch_compat.hpp"

#include <headwise/headwise.hpp>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using headwise::TensorView;
using headwise::VectorView;

std::vector<float> random_numbers(std::int64_t count, unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = normal(generator);
    return numbers;
}

}  // namespace

TEST_CASE("ragged: each sequence as if it were alone", "[ragged]")
{
    constexpr std::int64_t h = 4, h_kv = 2, d = 24, tokens = 61, kv_tokens = 250;
    const std::vector<std::int64_t> q_starts{0, 7, 7, 40, 60}, kv_starts{0, 9, 30, 240, 240};
    const auto q = random_numbers(h * tokens * d, 1), k = random_numbers(h_kv * kv_tokens * d, 2),
               v = random_numbers(h_kv * kv_tokens * d, 3);
    std::vector<float> y(q.size(), 42), lse(static_cast<std::size_t>(h * tokens), 42);
    const TensorView<float, 3> Y(y.data(), {h, tokens, d});
    const TensorView<const float, 3> Q(q.data(), {h, tokens, d}), K(k.data(), {h_kv, kv_tokens, d}),
        V(v.data(), {h_kv, kv_tokens, d});
    const headwise::RaggedStarts starts{{q_starts.data(), {5}}, {kv_starts.data(), {5}}};
    headwise::ragged_attention(Q, K, V, Y, starts, {.causal = true, .log_sum_exp = {lse.data(), {1, h, tokens}}});
    for (std::size_t i = 0; i < 4; ++i) {
        const std::int64_t n = q_starts[i + 1] - q_starts[i], n_kv = kv_starts[i + 1] - kv_starts[i];
        std::vector<float> alone(static_cast<std::size_t>(h * n * d));
        headwise::attention({&Q(0, q_starts[i], 0), {1, h, n, d}, {0, tokens * d, d, 1}},
                            {k.data() + kv_starts[i] * d, {1, h_kv, n_kv, d}, {0, kv_tokens * d, d, 1}},
                            {v.data() + kv_starts[i] * d, {1, h_kv, n_kv, d}, {0, kv_tokens * d, d, 1}},
                            {alone.data(), {1, h, n, d}}, {.causal = true});
        for (std::int64_t head = 0; head < h; ++head)
            for (std::int64_t row = 0; row < n; ++row)
                for (std::int64_t c = 0; c < d; ++c)
                    REQUIRE(Y(head, q_starts[i] + row, c) == alone[static_cast<std::size_t>((head * n + row) * d + c)]);
    }
    CHECK(Y(0, 60, 0) == 42);  // of no sequence
    const std::vector<std::int64_t> falling{0, 9, 8, 40, 60};
    CHECK_THROWS_AS(headwise::ragged_attention(Q, K, V, Y, {{falling.data(), {5}}, {kv_starts.data(), {5}}}),
                    std::invalid_argument);
}

TEST_CASE("cache: token by token gives the rows of the whole sequence", "[cache]")
{
    constexpr std::int64_t b = 2, h = 4, h_kv = 2, n = 20, d = 16;
    const auto q = random_numbers(b * h * n * d, 1), k = random_numbers(b * h_kv * n * d, 2),
               v = random_numbers(b * h_kv * n * d, 3);
    const TensorView<const float, 4> Q(q.data(), {b, h, n, d}), K(k.data(), {b, h_kv, n, d}),
        V(v.data(), {b, h_kv, n, d});
    std::vector<float> whole(q.size()), step(static_cast<std::size_t>(b * h * d));
    const TensorView<float, 4> Y(whole.data(), {b, h, n, d}), Y_step(step.data(), {b, h, 1, d});
    headwise::attention(Q, K, V, Y, {.causal = true});

    headwise::KvCache<float> cache({.batch = b, .kv_heads = h_kv, .capacity = n, .d_k = d});
    for (int round = 0; round < 2; ++round) {
        for (std::int64_t t = 0; t < n; ++t) {
            const auto token = [&](const TensorView<const float, 4>& all) {
                return TensorView<const float, 4>(&all(0, 0, t, 0), {b, all.shape[1], 1, d}, all.strides);
            };
            cache.append(token(K), token(V));
            headwise::attention(token(Q), cache.keys(), cache.values(), Y_step,
                                {.causal = true, .query_offsets = cache.offsets(), .kv_lengths = cache.lengths()});
            for (std::int64_t i = 0; i < b; ++i)
                for (std::int64_t head = 0; head < h; ++head)
                    for (std::int64_t c = 0; c < d; ++c)
                        REQUIRE(std::abs(Y_step(i, head, 0, c) - Y(i, head, t, c)) <= 1e-5f);
        }
        CHECK(cache.lengths()(1) == n);
        CHECK_THROWS_AS(cache.append({k.data(), {b, h_kv, 1, d}}, {v.data(), {b, h_kv, 1, d}}), std::invalid_argument);
        cache.reset();
        CHECK(cache.lengths()(0) == 0);
    }
}

TEST_CASE("past and present: the present is past and new, and what is attended to", "[cache]")
{
    constexpr std::int64_t b = 2, h = 2, n_past = 5, n_new = 3, total = n_past + n_new, d = 8;
    const auto q = random_numbers(b * h * n_new * d, 1), k = random_numbers(b * h * total * d, 2),
               v = random_numbers(b * h * total * d, 3);
    const TensorView<const float, 4> Q(q.data(), {b, h, n_new, d}), K(k.data(), {b, h, total, d}),
        V(v.data(), {b, h, total, d});
    const auto part = [&](const TensorView<const float, 4>& all, std::int64_t first, std::int64_t count) {
        return TensorView<const float, 4>(&all(0, 0, first, 0), {b, h, count, d}, all.strides);
    };
    std::vector<float> present_k(k.size()), present_v(v.size()), y(q.size()), expected(q.size());
    const headwise::PastAndPresent<float> cache{part(K, 0, n_past),
                                                part(V, 0, n_past),
                                                {present_k.data(), {b, h, total, d}},
                                                {present_v.data(), {b, h, total, d}}};
    headwise::attention_with_past<float>(Q, part(K, n_past, n_new), part(V, n_past, n_new), cache,
                                         {y.data(), {b, h, n_new, d}}, {.causal = true});
    headwise::attention(Q, K, V, {expected.data(), {b, h, n_new, d}}, {.causal = true, .query_offset = n_past});
    CHECK(present_k == k);
    CHECK(present_v == v);
    CHECK(y == expected);
    CHECK_THROWS_AS(headwise::attention_with_past<float>(Q, part(K, n_past, n_new), part(V, n_past, n_new), cache,
                                                         {y.data(), {b, h, n_new, d}}, {.query_offset = 1}),
                    std::invalid_argument);
}

TEST_CASE("ALiBi slopes: powers of two, and numbers between", "[alibi]")
{
    CHECK(headwise::alibi_slopes(8) ==
          std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f});
    const std::vector<float> three = headwise::alibi_slopes(3);  // those of 2, then the first of 4
    CHECK(three == std::vector<float>{0.0625f, 0.00390625f, 0.25f});
    CHECK_THROWS_AS(headwise::alibi_slopes(0), std::invalid_argument);
}
