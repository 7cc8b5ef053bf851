// Bad arguments of the layer: of its construction and of forward().
#include "bad_input.hpp"
#include "catch_compat.hpp"
#include "layer_problem.hpp"

using namespace tensors;
using headwise::LayerWeights;
using headwise::LinearWeights;
using headwise::MultiHeadAttention;
using headwise::PackedLinearWeights;

namespace {

constexpr std::int64_t huge = huge_number;

/// A valid layer and forward. Spoil the shape, the weights or the forward's arguments.
struct Call {
    LayerShape shape{.d_model = 12, .heads = 4, .kv_heads = 2, .d_k = 3, .d_v = 5, .d_model_kv = 7};
    RandomLayer<float> random{shape};
    LayerWeights<float> weights = random.weights();
    Tensor<float, 3> tokens{{2, 6, 12}}, keys{{2, 8, 7}}, result{{2, 6, 12}, Layout::dense, End::canaries};
    Tensor<float, 4> kept_weights{{2, 4, 6, 8}, Layout::dense, End::canaries};
    Tensor<std::int64_t, 1> lengths{{3}};
    headwise::TensorView<const float, 3> X = tokens.input(), X_kv = keys.input();
    headwise::TensorView<float, 3> Y = result.view();
    headwise::AttentionOptions<float> options{.weights = kept_weights.view()};

    Call()
    {
        Random numbers(41);
        randomize(tokens, numbers);
        randomize(keys, numbers);
        fill(lengths, [](const auto& i) { return 8 + i[0]; });
    }

    bool untouched() const { return result.untouched() && kept_weights.untouched(); }
};

struct ForwardCall : Call {
    MultiHeadAttention layer{shape, weights};
    void run() const { layer.forward(X, X_kv, Y, options); }
};

struct ShapeCall : Call {
    void run() const { headwise::resolved(shape); }
};

struct WeightsCall : Call {
    void run() const { MultiHeadAttention(shape, weights); }
};

struct LinearCall : Call {
    LinearWeights<float> linear{.W_q = {numbers(), {12, 12}},
                                .W_k = {numbers(), {6, 7}},
                                .W_v = {numbers(), {10, 7}},
                                .W_o = {numbers(), {12, 20}},
                                .b_q = {numbers(), {12}},
                                .b_k = {numbers(), {6}},
                                .b_v = {numbers(), {10}},
                                .b_o = {numbers(), {12}}};
    const float* numbers() const { return storage.input().data; }
    Tensor<float, 1> storage = filled();

    LinearCall()
    {
        // `storage` is made after `linear`: the views get their memory here
        for (auto* view : {&linear.W_q, &linear.W_k, &linear.W_v, &linear.W_o}) view->data = numbers();
        for (auto* view : {&linear.b_q, &linear.b_k, &linear.b_v, &linear.b_o}) view->data = numbers();
    }
    static Tensor<float, 1> filled()
    {
        Random random(42);
        return random_tensor<float, 1>({400}, random);
    }
    void run() const { MultiHeadAttention(shape, linear); }
};

struct PackedCall : Call {
    Tensor<float, 2> stacked{{28, 12}};
    Tensor<float, 2> output{{12, 20}};
    Tensor<float, 1> bias{{28}};
    PackedLinearWeights<float> packed{
        .W_qkv = stacked.input(), .W_o = output.input(), .b_qkv = bias.input(), .b_o = random.b_o.input()};

    PackedCall()
    {
        shape.d_model_kv = 0;
        for (const auto& matrix : {stacked, output}) fill(matrix, [](const auto&) { return 0.1f; });
        fill(bias, [](const auto&) { return 0.1f; });
    }
    void run() const { MultiHeadAttention(shape, packed); }
};

}  // namespace

TEST_CASE("bad input: the layers that are spoilt below are valid", "[bad_input][layer]")
{
    const ForwardCall call;
    CHECK(call.untouched());
    call.run();
    CHECK_FALSE(call.untouched());
    CHECK_NOTHROW(ShapeCall().run());
    CHECK_NOTHROW(WeightsCall().run());
    CHECK_NOTHROW(LinearCall().run());
    CHECK_NOTHROW(PackedCall().run());
}

TEST_CASE("bad input: sizes of a layer", "[bad_input][layer]")
{
    std::vector<BadCall<ShapeCall>> all;
    const auto add = [&](const std::string& name, std::int64_t LayerShape::* size, std::int64_t value) {
        all.push_back({name, [=](ShapeCall& c) { c.shape.*size = value; }, {name, std::to_string(value)}});
    };
    add("d_model", &LayerShape::d_model, 0);
    add("heads", &LayerShape::heads, 0);
    for (const std::int64_t value : {std::int64_t{-1}, huge}) {
        add("d_model", &LayerShape::d_model, value);
        add("heads", &LayerShape::heads, value);
        add("kv_heads", &LayerShape::kv_heads, value);
        add("d_k", &LayerShape::d_k, value);
        add("d_v", &LayerShape::d_v, value);
        add("d_model_kv", &LayerShape::d_model_kv, value);
    }
    add("kv_heads", &LayerShape::kv_heads, 3);
    add("kv_heads", &LayerShape::kv_heads, 8);
    all.push_back({"default d_k",
                   [](ShapeCall& c) { c.shape.d_k = 0, c.shape.heads = 5, c.shape.kv_heads = 0; },
                   {"heads", "5", "d_model = 12"}});
    all.push_back({"product", [](ShapeCall& c) { c.shape.heads = 1 << 30, c.shape.d_k = 1 << 30; }, {"heads", "2^31"}});
    check_refused(all, "LayerShape");
}

TEST_CASE("bad input: weights of a layer", "[bad_input][layer]")
{
    std::vector<BadCall<WeightsCall>> all;
    const auto add = [&](const std::string& name, auto LayerWeights<float>::* view, bool optional) {
        const auto tensor = [=](WeightsCall& c) -> auto& { return c.weights.*view; };
        add_view(all, name, tensor);
        all.push_back({name + " shorter", [=](WeightsCall& c) { --tensor(c).shape[0]; }, {name, "shape"}});
        if (!optional) all.push_back({name + " not given", [=](WeightsCall& c) { tensor(c) = {}; }, {name, "shape"}});
    };
    add("W_q", &LayerWeights<float>::W_q, false);
    add("W_k", &LayerWeights<float>::W_k, false);
    add("W_v", &LayerWeights<float>::W_v, false);
    add("W_o", &LayerWeights<float>::W_o, false);
    add("b_q", &LayerWeights<float>::b_q, true);
    add("b_k", &LayerWeights<float>::b_k, true);
    add("b_v", &LayerWeights<float>::b_v, true);
    add("b_o", &LayerWeights<float>::b_o, true);
    check_refused(all, "MultiHeadAttention");
}

TEST_CASE("bad input: weights of a layer as frameworks store them", "[bad_input][layer]")
{
    std::vector<BadCall<LinearCall>> all;
    const auto add = [&](const std::string& name, auto LinearWeights<float>::* view) {
        const auto tensor = [=](LinearCall& c) -> auto& { return c.linear.*view; };
        add_view(all, name, tensor);
        all.push_back({name + " shorter", [=](LinearCall& c) { --tensor(c).shape.back(); }, {name, "shape"}});
    };
    add("W_q", &LinearWeights<float>::W_q);
    add("W_k", &LinearWeights<float>::W_k);
    add("W_v", &LinearWeights<float>::W_v);
    add("W_o", &LinearWeights<float>::W_o);
    add("b_q", &LinearWeights<float>::b_q);
    add("b_k", &LinearWeights<float>::b_k);
    add("b_v", &LinearWeights<float>::b_v);
    add("b_o", &LinearWeights<float>::b_o);
    check_refused(all, "weights_from_linear");

    check_refused<PackedCall>(
        {{"W_qkv", [](PackedCall& c) { --c.packed.W_qkv.shape[0]; }, {"W_qkv", "(27, 12)", "28"}},
         {"W_qkv", [](PackedCall& c) { ++c.packed.W_qkv.shape[1]; }, {"W_qkv", "(28, 13)", "d_model = 12"}},
         {"W_qkv", [](PackedCall& c) { c.packed.W_qkv.data = nullptr; }, {"W_qkv", "null"}},
         {"W_o", [](PackedCall& c) { ++c.packed.W_o.shape[1]; }, {"W_o", "(12, 21)", "h * d_v = 20"}},
         {"b_qkv", [](PackedCall& c) { --c.packed.b_qkv.shape[0]; }, {"b_qkv", "(27)", "28"}},
         {"b_o", [](PackedCall& c) { ++c.packed.b_o.shape[0]; }, {"b_o", "(13)", "d_model = 12"}},
         {"two widths", [](PackedCall& c) { c.shape.d_model_kv = 7; }, {"d_model_kv", "7", "d_model"}}},
        "weights_from_linear");
}

TEST_CASE("bad input: a layer's forward", "[bad_input][layer]")
{
    const auto aliased = [](ForwardCall& c) { c.X.data = c.Y.data + 1; };
    const auto X_kv_aliased = [](ForwardCall& c) { c.X_kv.data = c.Y.data + 143; };
    std::vector<BadCall<ForwardCall>> all{
        {"X", [](ForwardCall& c) { ++c.X.shape[2]; }, {"X", "(2, 6, 13)", "d_model = 12"}},
        {"X", [](ForwardCall& c) { c.X.shape[1] = -1; }, {"X", "(2, -1, 12)"}},
        {"X", [](ForwardCall& c) { c.X.data = nullptr; }, {"X", "null", "(2, 6, 12)"}},
        {"X", [](ForwardCall& c) { c.X = {}; }, {"X", "(0, 0, 0)"}},
        {"X", [](ForwardCall& c) { c.X.strides[1] = huge; }, {"X", "strides"}},
        {"X", [](ForwardCall& c) { c.X.shape[0] = huge, c.X.strides[0] = 0; }, {"X", "2^63"}},
        {"X_kv", [](ForwardCall& c) { c.X_kv.shape[2] = 12; }, {"X_kv", "(2, 8, 12)", "d_model_kv = 7"}},
        {"X_kv", [](ForwardCall& c) { c.X_kv.shape[0] = 1; }, {"X_kv", "(1, 8, 7)", "b = 2"}},
        {"X_kv", [](ForwardCall& c) { c.X_kv.data = nullptr; }, {"X_kv", "null"}},
        {"Y", [](ForwardCall& c) { c.Y.shape[1] = 8; }, {"Y", "(2, 8, 12)", "n = 6"}},
        {"Y", [](ForwardCall& c) { c.Y.shape[2] = 11; }, {"Y", "(2, 6, 11)", "d_model = 12"}},
        {"Y", [](ForwardCall& c) { c.Y.data = nullptr; }, {"Y", "null"}},
        {"Y", [](ForwardCall& c) { c.Y.strides[1] = 0; }, {"Y", "strides", "apart"}},
        {"Y on X", aliased, {"Y", "overlapping X"}},
        {"Y on X_kv", X_kv_aliased, {"Y", "overlapping X_kv"}},
        {"log_sum_exp on Y",
         [](ForwardCall& c) { c.options.log_sum_exp = {c.Y.data, {2, 4, 6}}; },
         {"log_sum_exp", "overlapping Y"}},
        {"mean_weights on X_kv",
         [](ForwardCall& c) { c.options.mean_weights = {const_cast<float*>(c.X_kv.data), {2, 6, 8}}; },
         {"mean_weights", "overlapping X_kv"}},
        {"scores on weights",
         [](ForwardCall& c) { c.options.scores = c.options.weights; },
         {"scores", "overlapping weights"}},
        {"Y on sinks", [](ForwardCall& c) { c.options.sinks = {c.Y.data, {4}}; }, {"sinks"}},
        {"kv_lengths",
         [](ForwardCall& c) { c.options.kv_lengths = {c.lengths.input().data, {2}}; },
         {"kv_lengths", "9 at index 1", "n_kv = 8"}},
        {"kv_lengths",
         [](ForwardCall& c) { c.options.kv_lengths = c.lengths.input(); },
         {"kv_lengths", "(3)", "b = 2"}},
        {"query_offsets",
         [](ForwardCall& c) { c.options.query_offset = 1, c.options.query_offsets = {c.lengths.input().data, {2}}; },
         {"query_offset", "1"}},
        {"sinks", [](ForwardCall& c) { c.options.sinks = {c.X.data, {2}}; }, {"sinks", "(2)", "h = 4"}},
        {"alibi", [](ForwardCall& c) { c.options.alibi = {c.X.data, {5}}; }, {"alibi", "(5)", "h = 4"}},
        {"right_window", [](ForwardCall& c) { c.options.right_window = -2; }, {"right_window", "-2"}},
        {"score_stage",
         [](ForwardCall& c) { c.options.score_stage = static_cast<headwise::ScoreStage>(-1); },
         {"score_stage", "-1"}},
        {"the keys of a broadcast X_kv",
         [](ForwardCall& c) { c.X_kv.shape[1] = huge >> 6, c.X_kv.strides[1] = 0; },
         {"X_kv", "2^63"}},
        {"weights on X", [](ForwardCall& c) { c.X.data = c.options.weights.data; }, {"weights", "overlapping X"}},
        {"weights", [](ForwardCall& c) { --c.options.weights.shape[1]; }, {"weights", "(2, 3, 6, 8)", "h = 4"}},
        {"scale", [](ForwardCall& c) { c.options.scale = std::nan(""); }, {"scale", "nan"}},
        {"softcap", [](ForwardCall& c) { c.options.softcap = -1; }, {"softcap", "-1"}},
        {"left_window", [](ForwardCall& c) { c.options.left_window = -7; }, {"left_window", "-7"}},
        {"mask",
         [](ForwardCall& c) { c.options.mask = headwise::TensorView<const float, 2>(c.X.data, {6, 9}); },
         {"mask", "(1, 1, 6, 9)", "(2, 4, 6, 8)"}},
    };
    add_required_view(all, "X", [](ForwardCall& c) -> auto& { return c.X; });
    add_required_view(all, "X_kv", [](ForwardCall& c) -> auto& { return c.X_kv; });
    add_required_view(all, "Y", [](ForwardCall& c) -> auto& { return c.Y; });
    add_output_view(all, "weights", [](ForwardCall& c) -> auto& { return c.options.weights; });
    check_refused(all, "MultiHeadAttention::forward");
}

TEST_CASE("bad input: self-attention where keys have another width", "[bad_input][layer]")
{
    const ForwardCall call;
    CHECK_THROWS_WITH(call.layer.forward(call.X, call.Y), catch_compat::contains_substring("d_model_kv = 7"));
    CHECK(call.untouched());
}
