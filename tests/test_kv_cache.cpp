// The cache: what it holds, and attention over it against the naive reference.
#include "catch_compat.hpp"
#include "tolerance.hpp"

#include <headwise/kv_cache.hpp>

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::KvCache;
using headwise::Target;
using headwise::TensorView;

namespace {

/// Tokens first .. first + count - 1 of all items, in memory of their own.
template <class E>
Tensor<E, 4> tokens(const Tensor<E, 4>& all, std::int64_t first, std::int64_t count, Layout layout = Layout::dense)
{
    auto shape = all.shape();
    shape[2] = count;
    const Tensor<E, 4> part(shape, layout);
    fill(part, [&](const auto& i) { return all.view()(i[0], i[1], first + i[2], i[3]); });
    return part;
}

/// The first tokens of what the cache holds of item i are those of `all`.
template <class E>
bool holds(const TensorView<const E, 4>& cached, std::int64_t item, std::int64_t length, const Tensor<E, 4>& all)
{
    bool same = cached.shape[2] >= length;
    for (std::int64_t head = 0; same && head < cached.shape[1]; ++head)
        for (std::int64_t token = 0; token < length; ++token)
            for (std::int64_t c = 0; c < cached.shape[3]; ++c)
                same = same && number(cached(item, head, token, c)) == number(all.view()(item, head, token, c));
    return same;
}

}  // namespace

TEMPLATE_TEST_CASE("cache: step by step gives the rows of the whole sequence", "[cache]", float, double, bfloat16,
                   float16)
{
    constexpr std::int64_t n = 120;
    const Problem p{
        .b = 2, .h = 4, .h_kv = 2, .n_q = n, .n_kv = n, .d_k = 17, .d_v = 24, .causal = true, .log_sum_exp = true};
    const Inputs<TestType> inputs(p);
    for_each_target([&](Target target) {
        const Outputs<TestType> plain = run_reference<compute_t<TestType>>(inputs);
        const auto want = run_oracle(inputs);
        const Outputs<TestType> got(p);
        KvCache<TestType> cache({.batch = 2, .kv_heads = 2, .capacity = n, .d_k = 17, .d_v = 24});
        std::int64_t first = 0;
        for (const std::int64_t count : {90, 1, 1, 5, 0, 22, 1}) {  // a prompt, then steps
            cache.append(tokens(inputs.K, first, count).input(), tokens(inputs.V, first, count).input());
            const auto part = [&](auto view) {
                view.data += first * view.strides[2];
                view.shape[2] = count;
                return view;
            };
            headwise::attention(part(inputs.Q.input()), cache.keys(), cache.values(), part(got.Y.view()),
                                {.causal = true,
                                 .query_offsets = cache.offsets(),
                                 .kv_lengths = cache.lengths(),
                                 .log_sum_exp = part(got.log_sum_exp.view())});
            first += count;
        }
        REQUIRE(first == n);
        INFO(headwise::name(target));
        CHECK(compare_outputs(inputs, got, plain, want).failures == "");
    });
}

TEMPLATE_TEST_CASE("cache: items of different lengths, from tensors of any strides", "[cache][layout]", float, double,
                   bfloat16, float16)
{
    for (const Layout layout : layouts) {
        const Inputs<TestType> inputs({.b = 3, .h = 2, .h_kv = 2, .n_q = 4, .n_kv = 12, .d_k = 5, .d_v = 3});
        KvCache<TestType> cache({.batch = 3, .kv_heads = 2, .capacity = 12, .d_k = 5, .d_v = 3});
        CHECK(cache.keys().shape == std::array<std::int64_t, 4>{3, 2, 0, 5});
        // Item i gets its own tokens in order, counts[i] at a time.
        std::array<std::int64_t, 3> lengths{};
        for (const std::array<std::int64_t, 3>& step :
             {std::array<std::int64_t, 3>{4, 0, 2}, std::array<std::int64_t, 3>{0, 0, 4},
              std::array<std::int64_t, 3>{1, 3, 0}}) {
            const Tensor<std::int64_t, 1> counts({3}, layout);
            fill(counts, [&](const auto& i) { return step[static_cast<std::size_t>(i[0])]; });
            const Tensor<TestType, 4> K({3, 2, 4, 5}, layout), V({3, 2, 4, 3}, layout);
            const auto next = [&](const Tensor<TestType, 4>& to, const Tensor<TestType, 4>& all) {
                fill(to, [&](const auto& i) {
                    return all.view()(i[0], i[1], lengths[static_cast<std::size_t>(i[0])] + i[2], i[3]);
                });
            };
            next(K, inputs.K);
            next(V, inputs.V);
            cache.append(K.input(), V.input(), counts.input());
            for (std::int64_t item = 0; item < 3; ++item) {
                std::int64_t& length = lengths[static_cast<std::size_t>(item)];
                INFO("layout " << static_cast<int>(layout) << ", item " << item);
                CHECK(cache.offsets()(item) == length);
                length += step[static_cast<std::size_t>(item)];
                CHECK(cache.lengths()(item) == length);
                CHECK(holds(cache.keys(), item, length, inputs.K));
                CHECK(holds(cache.values(), item, length, inputs.V));
            }
        }
        CHECK(cache.keys().shape[2] == 6);
        CHECK(cache.values().shape == std::array<std::int64_t, 4>{3, 2, 6, 3});

        cache.reset(2);
        CHECK(cache.lengths()(2) == 0);
        CHECK(cache.offsets()(2) == 0);
        CHECK(cache.lengths()(0) == 5);
        CHECK(cache.keys().shape[2] == 5);
        CHECK(holds(cache.keys(), 0, 5, inputs.K));
        cache.reset();
        CHECK(cache.keys().shape[2] == 0);
        CHECK(cache.lengths()(0) == 0);
    }
}

TEST_CASE("cache: its own lengths and offsets may be the counts of an append", "[cache]")
{
    const Tensor<float, 4> K({1, 1, 4, 2});
    fill(K, [](const auto& i) { return static_cast<float>(i[2]); });
    KvCache<float> cache({.capacity = 20, .d_k = 2});
    cache.append(tokens(K, 0, 2).input(), tokens(K, 0, 2).input());
    cache.append(tokens(K, 0, 1).input(), tokens(K, 0, 1).input());  // lengths 3, offsets 2
    cache.append(K.input(), K.input(), cache.offsets());
    CHECK(cache.lengths()(0) == 5);
    CHECK(cache.offsets()(0) == 3);
    cache.append(K.input(), K.input(), cache.offsets());
    CHECK(cache.lengths()(0) == 8);
    CHECK_THROWS_AS(cache.append(K.input(), K.input(), cache.lengths()), std::invalid_argument);  // 8 of 4 tokens
    CHECK(cache.lengths()(0) == 8);
}

TEST_CASE("cache: none of its sizes but the widths and heads need be positive", "[cache]")
{
    KvCache<float> no_items({.batch = 0, .capacity = 5, .d_k = 2});
    const TensorView<const float, 4> nothing(nullptr, {0, 1, 3, 2});
    CHECK_NOTHROW(no_items.append(nothing, nothing));
    CHECK(no_items.keys().shape == std::array<std::int64_t, 4>{0, 1, 0, 2});
    KvCache<float> no_room({.batch = 2, .capacity = 0, .d_k = 2});
    const TensorView<const float, 4> no_tokens(nullptr, {2, 1, 0, 2});
    CHECK_NOTHROW(no_room.append(no_tokens, no_tokens));
    const Tensor<float, 4> Q({2, 1, 1, 2}), Y({2, 1, 1, 2});
    fill(Q, [](const auto&) { return 1.0f; });
    headwise::attention(Q.view(), no_room.keys(), no_room.values(), Y.view(), {.kv_lengths = no_room.lengths()});
    CHECK(Y.view()(1, 0, 0, 1) == 0);  // a row with no key
}
