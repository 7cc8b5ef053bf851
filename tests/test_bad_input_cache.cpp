// Bad arguments of KvCache and of attention_with_past().
#include "bad_input.hpp"
#include "catch_compat.hpp"

#include <headwise/kv_cache.hpp>

using namespace tensors;
using headwise::KvCache;
using headwise::TensorView;

namespace {

struct ShapeCall {
    KvCache<float>::Shape shape{.batch = 2, .kv_heads = 3, .capacity = 4, .d_k = 5};
    void run() const { KvCache<float>{shape}; }
    bool untouched() const { return true; }
};

/// A cache of four tokens an item, of which the first item holds two and the second one.
struct CacheCall {
    Tensor<float, 4> held{{2, 3, 2, 5}}, added_key{{2, 3, 3, 5}}, added_value{{2, 3, 3, 6}};
    Tensor<std::int64_t, 1> counts_of_items{{2}};
    KvCache<float> cache{{.batch = 2, .kv_heads = 3, .capacity = 4, .d_k = 5, .d_v = 6}};
    std::vector<float> before;
    TensorView<const float, 4> K = added_key.input(), V = added_value.input();
    headwise::VectorView<const std::int64_t> counts = counts_of_items.input();

    CacheCall()
    {
        Random random(3);
        randomize(added_key, random);
        randomize(added_value, random);
        fill(counts_of_items, [](const auto& i) { return 2 - i[0]; });
        const TensorView<const float, 4> first_key(K.data, {2, 3, 2, 5}), first_value(V.data, {2, 3, 2, 6});
        cache.append(first_key, first_value, counts);
        before = numbers();
    }

    std::vector<float> numbers() const
    {
        std::vector<float> all;
        for (const auto& view : {cache.keys(), cache.values()})
            for_each_index(view.shape, [&](const auto& i) { all.push_back(at(view, i)); });
        return all;
    }

    bool untouched() const
    {
        return cache.lengths()(0) == 2 && cache.lengths()(1) == 1 && cache.offsets()(0) == 0 &&
               cache.offsets()(1) == 0 && numbers() == before;
    }
};

struct AppendCall : CacheCall {
    void run() { cache.append(K, V, counts); }
};

struct ResetCall : CacheCall {
    std::int64_t item = 0;
    void run() { cache.reset(item); }
};

/// A valid attention_with_past() with every option and output that it takes: two tokens in the past, three new ones.
struct PastCall {
    Problem problem{.b = 2,
                    .h = 4,
                    .h_kv = 2,
                    .n_q = 3,
                    .n_kv = 5,
                    .d_k = 6,
                    .d_v = 7,
                    .mask = MaskKind::float32,
                    .mask_shape = {2, 4, 3, 5},
                    .sinks = true,
                    .alibi = true,
                    .weights = true,
                    .mean_weights = true,
                    .scores = true,
                    .log_sum_exp = true};
    Inputs<float> inputs{problem};
    Outputs<float> outputs{problem};
    Tensor<float, 4> past_key{{2, 2, 2, 6}}, past_value{{2, 2, 2, 7}}, new_key{{2, 2, 3, 6}}, new_value{{2, 2, 3, 7}};
    Tensor<float, 4> present_key{{2, 2, 5, 6}, Layout::dense, End::canaries};
    Tensor<float, 4> present_value{{2, 2, 5, 7}, Layout::dense, End::canaries};
    TensorView<const float, 4> Q = inputs.Q.input(), K = new_key.input(), V = new_value.input();
    TensorView<float, 4> Y = outputs.Y.view();
    headwise::PastAndPresent<float> cache{past_key.input(), past_value.input(), present_key.view(),
                                          present_value.view()};
    headwise::AttentionOptions<float> options = inputs.options();

    PastCall()
    {
        Random random(4);
        for (const auto& tensor : {past_key, past_value, new_key, new_value}) randomize(tensor, random);
        outputs.give_to(options);
        options.causal = true;
    }

    void run() const { headwise::attention_with_past(Q, K, V, cache, Y, options); }

    bool untouched() const
    {
        return outputs.untouched() && present_key.untouched() &&
               present_value.untouched();
    }
};

using Bad = BadCall<PastCall>;

std::vector<Bad> tensor_calls()
{
    std::vector<Bad> all{
        {"three kv heads", [](PastCall& c) { c.K.shape[1] = c.V.shape[1] = 3; }, {"K", "(2, 3, 3, 6)", "h = 4"}},
        {"K of other width", [](PastCall& c) { c.K.shape[3] = 5; }, {"K", "(2, 2, 3, 5)", "d_k = 6"}},
        {"V of other tokens", [](PastCall& c) { c.V.shape[2] = 2; }, {"V", "(2, 2, 2, 7)", "n_kv = 3"}},
        {"Y of other width", [](PastCall& c) { c.Y.shape[3] = 6; }, {"Y", "(2, 4, 3, 6)", "d_v = 7"}},
        {"past of other heads", [](PastCall& c) { c.cache.past_key.shape[1] = 1; }, {"past_key", "h_kv = 2"}},
        {"past of another batch", [](PastCall& c) { c.cache.past_key.shape[0] = 1; }, {"past_key", "b = 2"}},
        {"past of other width", [](PastCall& c) { c.cache.past_key.shape[3] = 7; }, {"past_key", "d_k = 6"}},
        {"pasts of two lengths", [](PastCall& c) { c.cache.past_value.shape[2] = 1; }, {"past_value", "n_past = 2"}},
        {"past_key alone", [](PastCall& c) { c.cache.past_value = {}; }, {"past_value", "n_past = 2"}},
        {"past_value alone", [](PastCall& c) { c.cache.past_key = {}; }, {"past_key", "(0, 0, 0, 0)"}},
        {"no past", [](PastCall& c) { c.cache.past_key = c.cache.past_value = {}; }, {"present_key", "n_new = 3"}},
        {"a shorter present", [](PastCall& c) { c.cache.present_key.shape[2] = 4; }, {"present_key", "n_new = 5"}},
        {"a longer present", [](PastCall& c) { c.cache.present_value.shape[2] = 6; }, {"present_value", "n_new = 5"}},
        {"present of other width", [](PastCall& c) { c.cache.present_value.shape[3] = 6; }, {"present_value", "d_v"}},
        {"too long a past",
         [](PastCall& c) { c.cache.past_key.shape[2] = huge_number, c.cache.past_key.strides[2] = 0; },
         {"past_key", "2^63"}},
    };
    add_required_view(all, "Q", [](PastCall& c) -> auto& { return c.Q; });
    add_required_view(all, "K", [](PastCall& c) -> auto& { return c.K; });
    add_required_view(all, "V", [](PastCall& c) -> auto& { return c.V; });
    add_required_view(all, "Y", [](PastCall& c) -> auto& { return c.Y; });
    add_required_view(all, "present_key", [](PastCall& c) -> auto& { return c.cache.present_key; });
    add_required_view(all, "present_value", [](PastCall& c) -> auto& { return c.cache.present_value; });
    add_view(all, "past_key", [](PastCall& c) -> auto& { return c.cache.past_key; });
    add_view(all, "past_value", [](PastCall& c) -> auto& { return c.cache.past_value; });
    add_output_view(all, "Y", [](PastCall& c) -> auto& { return c.Y; });
    add_output_view(all, "present_key", [](PastCall& c) -> auto& { return c.cache.present_key; });
    add_output_view(all, "present_value", [](PastCall& c) -> auto& { return c.cache.present_value; });
    return all;
}

const std::int64_t one_each[2] = {1, 1};

const std::vector<Bad> option_calls{
    {"query_offset", [](PastCall& c) { c.options.query_offset = 2; }, {"query_offset", "length of the past"}},
    {"query_offsets", [](PastCall& c) { c.options.query_offsets = {one_each, {2}}; }, {"query_offsets", "the past"}},
    {"kv_lengths", [](PastCall& c) { c.options.kv_lengths = {one_each, {2}}; }, {"kv_lengths", "no padding"}},
    {"mask of more keys",
     [](PastCall& c) { c.options.mask = TensorView<const float, 1>(c.Q.data, {6}); },
     {"mask", "(1, 1, 1, 6)", "(2, 4, 3, 5)"}},
    {"weights of the new keys", [](PastCall& c) { c.options.weights.shape[3] = 3; }, {"weights", "n_kv = 5"}},
    {"scale", [](PastCall& c) { c.options.scale = std::nan(""); }, {"scale", "nan"}},
    {"softcap", [](PastCall& c) { c.options.softcap = -1; }, {"softcap", "-1"}},
    {"left_window", [](PastCall& c) { c.options.left_window = -2; }, {"left_window", "-2"}},
    {"sinks", [](PastCall& c) { --c.options.sinks.shape[0]; }, {"sinks", "(3)", "h = 4"}},
    {"alibi", [](PastCall& c) { c.options.alibi.data = nullptr; }, {"alibi", "null"}},
};

const std::vector<Bad> overlap_calls{
    {"Y on K", [](PastCall& c) { c.K.data = c.Y.data; }, {"Y", "overlapping K"}},
    {"Y on past_value", [](PastCall& c) { c.cache.past_value.data = c.Y.data + 9; }, {"Y", "overlapping past_value"}},
    {"Y on present_key", [](PastCall& c) { c.Y.data = c.cache.present_key.data; }, {"present_key", "overlapping Y"}},
    {"present_key on Q", [](PastCall& c) { c.Q.data = c.cache.present_key.data; }, {"present_key", "overlapping Q"}},
    {"present_key on past_key: a past that grows in place",
     [](PastCall& c) { c.cache.past_key = {c.cache.present_key.data, {2, 2, 2, 6}, {60, 30, 6, 1}}; },
     {"present_key", "overlapping past_key"}},
    {"present_key on past_value",
     [](PastCall& c) { c.cache.past_value.data = c.cache.present_key.data + 119; },
     {"present_key", "overlapping past_value"}},
    {"present_value on V",
     [](PastCall& c) { c.V.data = c.cache.present_value.data - 83; },
     {"present_value", "overlapping V"}},
    {"present_value on present_key",
     [](PastCall& c) { c.cache.present_value.data = c.cache.present_key.data; },
     {"present_value", "overlapping present_key"}},
    {"present_key on mask",
     [](PastCall& c) { c.options.mask = TensorView<const float, 1>(c.cache.present_key.data, {5}); },
     {"present_key", "overlapping mask"}},
    {"weights on present_value",
     [](PastCall& c) { c.options.weights.data = c.cache.present_value.data + 139; },
     {"weights", "overlapping present_value"}},
    {"log_sum_exp on past_key",
     [](PastCall& c) { c.cache.past_key.data = c.options.log_sum_exp.data; },
     {"log_sum_exp", "overlapping past_key"}},
};

}  // namespace

TEST_CASE("bad input: the calls on a cache that are spoilt below are valid", "[bad_input][cache]")
{
    CHECK_NOTHROW(ShapeCall().run());
    AppendCall append;
    CHECK(append.untouched());
    CHECK_NOTHROW(append.run());
    CHECK_FALSE(append.untouched());
    ResetCall reset;
    CHECK_NOTHROW(reset.run());
    CHECK_FALSE(reset.untouched());
    const PastCall past;
    CHECK(past.untouched());
    CHECK_NOTHROW(past.run());
    CHECK_FALSE(past.untouched());
}

TEST_CASE("bad input: sizes of a cache", "[bad_input][cache]")
{
    using Shape = KvCache<float>::Shape;
    std::vector<BadCall<ShapeCall>> all;
    const auto add = [&](const std::string& name, std::int64_t Shape::* size, std::int64_t value) {
        all.push_back({name, [=](ShapeCall& c) { c.shape.*size = value; }, {name, std::to_string(value), "or more"}});
    };
    for (const std::int64_t negative : {std::int64_t{-1}, lowest_number}) {
        add("batch", &Shape::batch, negative);
        add("kv_heads", &Shape::kv_heads, negative);
        add("capacity", &Shape::capacity, negative);
        add("d_k", &Shape::d_k, negative);
        add("d_v", &Shape::d_v, negative);
    }
    add("kv_heads", &Shape::kv_heads, 0);
    add("d_k", &Shape::d_k, 0);
    for (auto size : {&Shape::batch, &Shape::kv_heads, &Shape::capacity, &Shape::d_k, &Shape::d_v})
        all.push_back({"product", [=](ShapeCall& c) { c.shape.*size = huge_number; }, {"2^63 bytes"}});
    all.push_back({"strides of nothing",
                   [](ShapeCall& c) { c.shape = {.batch = 0, .capacity = huge_number, .d_k = huge_number}; },
                   {"2^63 bytes"}});
    all.push_back({"lengths", [](ShapeCall& c) { c.shape = {.batch = huge_number / 2, .d_k = 1}; }, {"2^63 bytes"}});
    check_refused(all, "KvCache");
}

TEST_CASE("bad input: an append to a cache", "[bad_input][cache]")
{
    const auto count = [](std::int64_t item, std::int64_t value) {
        return [=](AppendCall& c) { c.counts_of_items.view()(item) = value; };
    };
    // The cache's own memory, as far as its views show it.
    const auto own = [](const TensorView<const float, 4>& view) {
        return TensorView<const float, 4>(view.data, {2, 3, 3, 0});
    };
    std::vector<BadCall<AppendCall>> all{
        {"K of another batch", [](AppendCall& c) { c.K.shape[0] = 1; }, {"K", "(1, 3, 3, 5)", "batch = 2"}},
        {"K of other heads", [](AppendCall& c) { c.K.shape[1] = 2; }, {"K", "(2, 2, 3, 5)", "kv_heads = 3"}},
        {"K of other width", [](AppendCall& c) { c.K.shape[3] = 4; }, {"K", "(2, 3, 3, 4)", "d_k = 5"}},
        {"V of other width", [](AppendCall& c) { c.V.shape[3] = 5; }, {"V", "(2, 3, 3, 5)", "d_v = 6"}},
        {"V of other tokens", [](AppendCall& c) { c.V.shape[2] = 2; }, {"V", "(2, 3, 2, 6)", "n = 3"}},
        {"negative count", count(1, -1), {"counts", "-1 at index 1", "n = 3"}},
        {"lowest count", count(0, lowest_number), {"counts", std::to_string(lowest_number)}},
        {"count beyond the tokens", count(1, 4), {"counts", "4 at index 1", "n = 3"}},
        {"no room in the first item", count(0, 3), {"K", "3 more tokens for item 0", "at most 2"}},
        {"no room for all", [](AppendCall& c) { c.counts = {}; }, {"K", "3 more tokens for item 0", "at most 2"}},
        {"K from the keys",
         [=](AppendCall& c) { c.K = own(c.cache.keys()), c.K.shape[3] = 5; },
         {"K", "overlapping the cache"}},
        {"K from the values",
         [=](AppendCall& c) { c.K = own(c.cache.values()), c.K.shape[3] = 5; },
         {"K", "overlapping the cache"}},
        {"V from the keys",
         [=](AppendCall& c) { c.V = own(c.cache.keys()), c.V.shape[3] = 6; },
         {"V", "overlapping the cache"}},
        {"V from the values",
         [=](AppendCall& c) { c.V = own(c.cache.values()), c.V.shape[3] = 6; },
         {"V", "overlapping the cache"}},
        {"K in room that is not used yet",
         [](AppendCall& c) { c.K = {&c.cache.keys()(1, 2, 1, 4) + 10, {2, 3, 3, 5}, {0, 0, 0, 1}}; },
         {"K", "overlapping the cache"}},
    };
    add_required_view(all, "K", [](AppendCall& c) -> auto& { return c.K; });
    add_required_view(all, "V", [](AppendCall& c) -> auto& { return c.V; });
    add_view(all, "counts", [](AppendCall& c) -> auto& { return c.counts; });
    check_refused(all, "KvCache::append");
}

TEST_CASE("bad input: a reset of an item that does not exist", "[bad_input][cache]")
{
    std::vector<BadCall<ResetCall>> all;
    for (const std::int64_t item : {std::int64_t{-1}, std::int64_t{2}, huge_number, lowest_number})
        all.push_back({"item", [=](ResetCall& c) { c.item = item; }, {"item", std::to_string(item), "batch - 1 = 1"}});
    check_refused(all, "KvCache::reset");
}

TEST_CASE("bad input: tensors of past and present", "[bad_input][cache]")
{
    check_refused(tensor_calls(), "attention_with_past");
}

TEST_CASE("bad input: options with past and present", "[bad_input][cache]")
{
    check_refused(option_calls, "attention_with_past");
}

TEST_CASE("bad input: overlaps of past and present", "[bad_input][cache]")
{
    check_refused(overlap_calls, "attention_with_past");
}
