// Bad arguments of attention(): each gives std::invalid_argument that names the argument, what came and what was
// expected, before anything is written.
#include "bad_input.hpp"
#include "catch_compat.hpp"

using namespace tensors;
using headwise::TensorView;

namespace {

using Options = headwise::AttentionOptions<float>;
constexpr std::int64_t huge = huge_number, lowest = lowest_number;

/// A valid call with every option and output, to be spoilt.
struct Call {
    Problem problem{.b = 2,
                    .h = 4,
                    .h_kv = 2,
                    .n_q = 3,
                    .n_kv = 5,
                    .d_k = 6,
                    .d_v = 7,
                    .kv_lengths = true,
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
    TensorView<const float, 4> Q = inputs.Q.input(), K = inputs.K.input(), V = inputs.V.input();
    TensorView<float, 4> Y = outputs.Y.view();
    Options options = inputs.options();

    Call() { outputs.give_to(options); }

    void run() const { headwise::attention(Q, K, V, Y, options); }

    bool untouched() const
    {
        return outputs.untouched();
    }
};

using Bad = BadCall<Call>;

std::vector<Bad> tensor_calls()
{
    std::vector<Bad> all;
    add_required_view(all, "Q", [](Call& c) -> auto& { return c.Q; });
    add_required_view(all, "K", [](Call& c) -> auto& { return c.K; });
    add_required_view(all, "V", [](Call& c) -> auto& { return c.V; });
    add_required_view(all, "Y", [](Call& c) -> auto& { return c.Y; });
    add_output_view(all, "Y", [](Call& c) -> auto& { return c.Y; });
    const auto add = [&](std::string what, std::function<void(Call&)> spoil, std::vector<std::string> words) {
        all.push_back({std::move(what), std::move(spoil), std::move(words)});
    };
    add("no heads", [](Call& c) { c.Q.shape[1] = 0; }, {"Q", "(2, 0, 3, 6)", "h"});
    add("no width", [](Call& c) { c.Q.shape[3] = 0; }, {"Q", "(2, 4, 3, 0)", "d_k"});
    add("no kv heads", [](Call& c) { c.K.shape[1] = 0; }, {"K", "(2, 0, 5, 6)", "h = 4"});
    add("three kv heads", [](Call& c) { c.K.shape[1] = c.V.shape[1] = 3; }, {"K", "(2, 3, 5, 6)", "divides h = 4"});
    add("K of other width", [](Call& c) { c.K.shape[3] = 5; }, {"K", "(2, 2, 5, 5)", "d_k = 6"});
    add("K of another batch", [](Call& c) { c.K.shape[0] = 1; }, {"K", "(1, 2, 5, 6)", "b = 2"});
    add("V of fewer tokens", [](Call& c) { c.V.shape[2] = 4; }, {"V", "(2, 2, 4, 7)", "n_kv = 5"});
    add("V of other heads", [](Call& c) { c.V.shape[1] = 4; }, {"V", "(2, 4, 5, 7)", "h_kv = 2"});
    add("V without width", [](Call& c) { c.V.shape[3] = 0; }, {"V", "(2, 2, 5, 0)", "d_v"});
    add("Y of other width", [](Call& c) { c.Y.shape[3] = 6; }, {"Y", "(2, 4, 3, 6)", "d_v = 7"});
    add("Y of other tokens", [](Call& c) { c.Y.shape[2] = 5; }, {"Y", "(2, 4, 5, 7)", "n_q = 3"});
    add("Y broadcast", [](Call& c) { c.Y.strides[1] = 0; }, {"Y", "strides", "(84, 0, 7, 1)", "apart"});
    add("Y's rows meet", [](Call& c) { c.Y.strides[2] = 6; }, {"Y", "strides", "apart"});
    add("too many keys", [](Call& c) { c.K.shape[2] = c.V.shape[2] = huge, c.K.strides[2] = c.V.strides[2] = 0; },
        {"K", std::to_string(huge), "2^63"});
    add("too many queries", [](Call& c) { c.Q.shape[2] = huge, c.Q.strides[2] = 0; },
        {"Q", std::to_string(huge), "2^63"});
    add("too many items", [](Call& c) { c.Q.shape[0] = huge, c.Q.strides[0] = 0; }, {"Q", "2^63"});
    return all;
}

std::vector<Bad> overlap_calls()
{
    std::vector<Bad> all;
    const auto add = [&](std::string what, std::function<void(Call&)> spoil, std::vector<std::string> words) {
        all.push_back({std::move(what), std::move(spoil), std::move(words)});
    };
    add("Y on Q", [](Call& c) { c.Q.data = c.Y.data; }, {"Y", "overlapping Q"});
    add("Y's end on K's begin", [](Call& c) { c.K.data = &c.Y(1, 3, 2, 6); }, {"Y", "overlapping K"});
    add("Y's begin on V's end", [](Call& c) { c.V.data = c.Y.data - 2 * 2 * 5 * 7 + 1; }, {"Y", "overlapping V"});
    add("weights on K", [](Call& c) { c.K.data = c.options.weights.data; }, {"weights", "overlapping K"});
    add("weights on Y", [](Call& c) { c.options.weights.data = c.Y.data; }, {"weights", "overlapping Y"});
    add("scores on weights", [](Call& c) { c.options.scores = c.options.weights; }, {"scores", "overlapping weights"});
    add("log_sum_exp on Y", [](Call& c) { c.options.log_sum_exp.data = c.Y.data; }, {"log_sum_exp", "overlapping Y"});
    add("weights on alibi", [](Call& c) { c.options.alibi.data = c.options.weights.data; },
        {"weights", "overlapping alibi"});
    add("scores on V", [](Call& c) { c.V.data = c.options.scores.data; }, {"scores", "overlapping V"});
    add("mean_weights on query_offsets",
        [](Call& c) {
            c.options.query_offsets = {reinterpret_cast<const std::int64_t*>(c.options.mean_weights.data), {2}};
        },
        {"mean_weights", "overlapping query_offsets"});
    add("mean_weights on Y", [](Call& c) { c.options.mean_weights.data = &c.Y(1, 0, 0, 0); },
        {"mean_weights", "overlapping Y"});
    add("log_sum_exp on sinks", [](Call& c) { c.options.sinks.data = c.options.log_sum_exp.data; },
        {"log_sum_exp", "overlapping sinks"});
    add("weights on mask", [](Call& c) { c.options.mask = TensorView<const float, 4>(c.options.weights); },
        {"weights", "overlapping mask"});
    add("Y on kv_lengths",
        [](Call& c) { c.Y.data = reinterpret_cast<float*>(const_cast<std::int64_t*>(c.options.kv_lengths.data)) - 83; },
        {"Y", "overlapping kv_lengths"});
    add("interleaved rows that meet",
        [](Call& c) {
            c.Y = {c.outputs.Y.view().data, {2, 4, 3, 7}, {500, 100, 13, 1}};  // 6 of 13 numbers are free
            c.Q = {c.Y.data + 6, {2, 4, 3, 6}, {500, 100, 13, 1}};
        },
        {"Y", "overlapping Q"});
    return all;
}

std::vector<Bad> option_calls()
{
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::vector<Bad> all;
    const auto add = [&](std::string what, std::function<void(Call&)> spoil, std::vector<std::string> words) {
        all.push_back({std::move(what), std::move(spoil), std::move(words)});
    };
    add("scale", [=](Call& c) { c.options.scale = not_a_number; }, {"scale", "nan", "finite"});
    add("scale", [=](Call& c) { c.options.scale = -infinity; }, {"scale", "-inf", "finite"});
    add("scale that no float holds", [](Call& c) { c.options.scale = 1e39; }, {"scale", "1e+39", "finite"});
    for (const double softcap : {-1.0, not_a_number, infinity, 1e39, 1e-50})
        add("softcap", [=](Call& c) { c.options.softcap = softcap; }, {"softcap", "positive"});
    add("left_window", [](Call& c) { c.options.left_window = -2; }, {"left_window", "-2", "-1 or more"});
    add("right_window", [](Call& c) { c.options.right_window = lowest; }, {"right_window", "-1 or more"});
    add("query_offsets of other length", [](Call& c) { c.options.query_offsets = {c.options.kv_lengths.data, {3}}; },
        {"query_offsets", "(3)", "b = 2"});
    add("two kinds of offset",
        [](Call& c) { c.options.query_offsets = c.inputs.query_offsets.input(), c.options.query_offset = 1; },
        {"query_offset", "1", "query_offsets"});
    add("kv_lengths of other length", [](Call& c) { c.options.kv_lengths.shape[0] = 1; },
        {"kv_lengths", "(1)", "b = 2"});
    add("negative length", [](Call& c) { c.inputs.kv_lengths.view()(1) = -1; },
        {"kv_lengths", "-1", "index 1", "n_kv = 5"});
    add("length beyond the keys", [](Call& c) { c.inputs.kv_lengths.view()(0) = 6; },
        {"kv_lengths", "6", "index 0", "n_kv = 5"});
    const auto mask = [&](std::array<std::int64_t, 4> shape) {
        add("mask shape", [=](Call& c) { c.options.mask = TensorView<const float, 4>(c.Q.data, shape); },
            {"mask", "broadcasts", "(2, 4, 3, 5)"});
    };
    mask({3, 1, 1, 5});
    mask({1, 2, 1, 5});
    mask({1, 1, 2, 5});
    mask({1, 1, 1, 6});
    mask({0, 1, 1, 5});
    add("mask null", [](Call& c) { c.options.mask = TensorView<const float, 2>(nullptr, {3, 5}); }, {"mask", "null"});
    add("mask negative", [](Call& c) { c.options.mask = TensorView<const float, 2>(c.Q.data, {-3, 5}); },
        {"mask", "-3"});
    add("mask far", [](Call& c) { c.options.mask = TensorView<const float, 2>(c.Q.data, {3, 5}, {huge, 1}); },
        {"mask", "strides", "64-bit"});
    add("mask of too many",
        [](Call& c) { c.options.mask = TensorView<const float, 2>(c.Q.data, {huge, huge}, {0, 0}); }, {"mask", "2^63"});
    add("mask misaligned",
        [](Call& c) {
            const auto address = reinterpret_cast<std::uintptr_t>(c.Q.data) + 2;
            c.options.mask = TensorView<const float, 2>(reinterpret_cast<const float*>(address), {3, 5});
        },
        {"mask", "misaligned", "4 bytes"});
    add("mask of doubles", [](Call& c) { c.options.mask = TensorView<const double, 2>(nullptr, {1, 1}); },
        {"mask", "element type"});
    add("mask of half floats",
        [](Call& c) { c.options.mask = TensorView<const headwise::float16, 2>(nullptr, {1, 1}); },
        {"mask", "element type"});
    add("sinks of other length", [](Call& c) { c.options.sinks.shape[0] = 2; }, {"sinks", "(2)", "h = 4"});
    add("sinks NaN", [=](Call& c) { c.inputs.sinks.view()(2) = static_cast<float>(not_a_number); },
        {"sinks", "nan", "head 2"});
    add("sinks infinite", [=](Call& c) { c.inputs.sinks.view()(3) = static_cast<float>(infinity); },
        {"sinks", "inf", "head 3"});
    add("alibi of other length", [](Call& c) { c.options.alibi.shape[0] = 5; }, {"alibi", "(5)", "h = 4"});
    add("alibi NaN", [=](Call& c) { c.inputs.alibi.view()(0) = static_cast<float>(not_a_number); },
        {"alibi", "nan", "head 0"});
    add("score_stage", [](Call& c) { c.options.score_stage = static_cast<headwise::ScoreStage>(4); },
        {"score_stage", "4", "0 to 3"});
    return all;
}

std::vector<Bad> vector_and_output_calls()
{
    std::vector<Bad> all;
    const auto add = [&](std::string what, std::function<void(Call&)> spoil, std::vector<std::string> words) {
        all.push_back({std::move(what), std::move(spoil), std::move(words)});
    };
    add_view(all, "kv_lengths", [](Call& c) -> auto& { return c.options.kv_lengths; });
    add_view(all, "sinks", [](Call& c) -> auto& { return c.options.sinks; });
    add_view(all, "alibi", [](Call& c) -> auto& { return c.options.alibi; });
    add_view(all, "query_offsets", [](Call& c) -> auto& {
        if (!c.options.query_offsets.given()) c.options.query_offsets = c.inputs.query_offsets.input();
        return c.options.query_offsets;
    });
    add_output_view(all, "weights", [](Call& c) -> auto& { return c.options.weights; });
    add_output_view(all, "scores", [](Call& c) -> auto& { return c.options.scores; });
    add_output_view(all, "mean_weights", [](Call& c) -> auto& { return c.options.mean_weights; });
    add_output_view(all, "log_sum_exp", [](Call& c) -> auto& { return c.options.log_sum_exp; });
    add("weights of other keys", [](Call& c) { --c.options.weights.shape[3]; }, {"weights", "n_kv = 5"});
    add("scores of other heads", [](Call& c) { --c.options.scores.shape[1]; }, {"scores", "h = 4"});
    add("mean_weights of other items", [](Call& c) { --c.options.mean_weights.shape[0]; }, {"mean_weights", "b = 2"});
    add("log_sum_exp of other queries", [](Call& c) { --c.options.log_sum_exp.shape[2]; }, {"log_sum_exp", "n_q = 3"});
    return all;
}

}  // namespace

TEST_CASE("bad input: the call that is spoilt below is valid", "[bad_input]")
{
    const Call call;
    CHECK(call.untouched());
    call.run();
    CHECK_FALSE(call.untouched());
}

TEST_CASE("bad input: tensors", "[bad_input]")
{
    check_refused(tensor_calls(), "attention");
}

TEST_CASE("bad input: overlaps", "[bad_input]")
{
    check_refused(overlap_calls(), "attention");
}

TEST_CASE("bad input: options", "[bad_input]")
{
    check_refused(option_calls(), "attention");
}

TEST_CASE("bad input: vectors, and outputs on request", "[bad_input]")
{
    check_refused(vector_and_output_calls(), "attention");
}

TEST_CASE("bad input: unusual but right calls are not refused", "[bad_input]")
{
    const auto accepts = [](const auto& change) {
        Call call;
        change(call);
        CHECK_NOTHROW(call.run());
    };
    accepts([](Call& c) { c.options.scale = 0; });
    accepts([](Call& c) { c.options.query_offset = lowest; });
    accepts([](Call& c) { c.options.left_window = c.options.right_window = std::numeric_limits<std::int64_t>::max(); });
    accepts([](Call& c) { c.options.query_offsets = c.inputs.query_offsets.input(); });
    accepts([](Call& c) { c.inputs.sinks.view()(1) = -std::numeric_limits<float>::infinity(); });
    accepts([](Call& c) { c.K = {c.K.data, {2, 2, 5, 6}, {0, 0, 0, 1}}; });  // broadcast inputs
    accepts([](Call& c) { c.V = c.K, c.V.shape[3] = c.Y.shape[3] = 6; });    // one tensor read as two
    accepts([](Call& c) { c.options.mask = TensorView<const bool, 1>(c.inputs.boolean_mask.input().data, {1}); });
    accepts([](Call& c) { c.options.mask = TensorView<const float, 1>(c.Q.data, {4}); });  // fewer than n_kv
    accepts([](Call& c) { c.options.mask = TensorView<const float, 1>(nullptr, {0}); });   // none at all
    // the stride of a dimension of one element reaches nothing
    accepts([](Call& c) {
        c.Q.shape[0] = c.K.shape[0] = c.V.shape[0] = c.Y.shape[0] = 1;
        c.Q.strides[0] = c.K.strides[0] = huge;
        c.V.strides[0] = c.Y.strides[0] = -huge;
        c.options = {};
    });
}

// Y in memory that Q, K and V surround, at every offset to the address grid.
TEST_CASE("bad input: interleaved tensors share no element and are accepted", "[bad_input]")
{
    constexpr std::int64_t h = 3, n = 5, d = 4, row = 4 * h * d;
    const Tensor<float, 1> buffer({(2 * n + 2) * row}, Layout::dense, End::canaries);
    fill(buffer, [](const auto&) { return 0.5f; });
    for (std::int64_t shift = 0; shift < row; ++shift)
        for (const std::int64_t y_part : {0, 1, 3}) {
            const auto part = [&](std::int64_t i) {
                return TensorView<float, 4>(buffer.view().data + shift + i * h * d, {2, h, n, d}, {n * row, d, row, 1});
            };
            INFO("shift " << shift << ", Y in part " << y_part);
            const auto Q = part((y_part + 1) % 4), K = part((y_part + 2) % 4), V = part((y_part + 3) % 4);
            CHECK_NOTHROW(headwise::attention(Q, K, V, part(y_part)));
            TensorView<float, 4> meets = part(y_part);
            meets.data += h * d - 1;  // begins with Y's last number of each row
            CHECK_THROWS_AS(headwise::attention(meets, K, V, part(y_part)), std::invalid_argument);
        }
}
