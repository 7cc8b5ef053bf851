// The layer against the reference, on every target; its weights' forms; the work it reports.
#include "catch_compat.hpp"
#include "layer_problem.hpp"
#include "tolerance.hpp"

#include <headwise/cost.hpp>
#include <headwise/counted.hpp>

using namespace tensors;
using headwise::AttentionOptions;
using headwise::BasicMultiHeadAttention;
using headwise::Target;
using headwise::WorkReport;

namespace {

/// What a forward gives: Y and the options' outputs.
template <class T>
struct LayerResult {
    Tensor<T, 3> Y;
    Outputs<T> outputs;
};

/// Calls forward(X, X_kv, Y, options) on random tokens and fresh outputs.
template <class T, class Forward>
LayerResult<T> run_layer(const LayerProblem& p, const Problem& options_of, const Forward& forward)
{
    const LayerShape s = headwise::resolved(p.shape);
    Random random(21);
    const auto X = random_tensor<T, 3>({p.b, p.n, s.d_model}, random, 1, p.x_layout);
    const auto X_kv = p.n_kv == 0 ? X : random_tensor<T, 3>({p.b, p.n_kv, s.d_model_kv}, random, 1, p.x_layout);
    const LayerResult<T> result{Tensor<T, 3>({p.b, p.n, s.d_model}, p.y_layout, End::canaries),
                                Outputs<T>(options_of)};
    const Inputs<T> inputs(options_of);
    auto options = inputs.options();
    result.outputs.give_to(options);
    forward(X.input(), X_kv.input(), result.Y.view(), options);
    return result;
}

template <class T>
Comparison compare_layer(const LayerProblem& p, const Problem& options_of)
{
    using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;
    const RandomLayer<T> random(p.shape, p.biased);
    const BasicMultiHeadAttention<T> layer(p.shape, random.weights());
    const auto got = run_layer<T>(p, options_of, [&](auto X, auto X_kv, auto Y, const auto& options) {
        if (p.n_kv == 0) layer.forward(X, Y, options);
        else layer.forward(X, X_kv, Y, options);
    });
    const auto plain = run_layer<T>(p, options_of, [&](auto X, auto X_kv, auto Y, const auto& options) {
        headwise::reference::multi_head_attention<T, T>(p.shape, random.weights(), X, X_kv, Y, options);
    });
    const auto want = run_layer<T>(p, options_of, [&](auto X, auto X_kv, auto Y, const auto& options) {
        headwise::reference::multi_head_attention<T, Wide>(p.shape, random.weights(), X, X_kv, Y, options);
    });
    Comparison c;
    c.errors_of_Y = c.add("Y", got.Y, plain.Y, want.Y, max_magnitude(want.Y.view()));
    c.add("weights", got.outputs.weights, plain.outputs.weights, want.outputs.weights, 1);
    c.add("mean_weights", got.outputs.mean_weights, plain.outputs.mean_weights, want.outputs.mean_weights, 1);
    c.add("scores", got.outputs.scores, plain.outputs.scores, want.outputs.scores,
          std::max(1.0, max_magnitude(want.outputs.scores.view())));
    c.add("log_sum_exp", got.outputs.log_sum_exp, plain.outputs.log_sum_exp, want.outputs.log_sum_exp,
          std::max(1.0, max_magnitude(want.outputs.log_sum_exp.view())));
    if (!got.Y.intact_around() || !got.outputs.intact_around()) c.failures += "memory beside an output was written; ";
    if (!c.failures.empty())
        c.failures += "d_model " + std::to_string(p.shape.d_model) + ", " + options_of.text();
    return c;
}

std::vector<LayerProblem> layer_problems()
{
    return {
        {.shape = {.d_model = 1, .heads = 1}},
        {.shape = {.d_model = 64, .heads = 8}, .n = 1},
        {.shape = {.d_model = 64, .heads = 8}, .b = 3, .n = 37, .biased = false},
        {.shape = {.d_model = 48, .heads = 16}, .b = 2, .n = 17},
        {.shape = {.d_model = 27, .heads = 3}, .n = 33},
        {.shape = {.d_model = 40, .heads = 5, .d_k = 13}, .b = 2, .n = 50},
        {.shape = {.d_model = 40, .heads = 4, .d_k = 16, .d_v = 9}, .n = 21},
        {.shape = {.d_model = 40, .heads = 4, .d_k = 3, .d_v = 41}, .b = 2, .n = 16, .biased = false},
        {.shape = {.d_model = 72, .heads = 6, .kv_heads = 2}, .b = 2, .n = 45},
        {.shape = {.d_model = 72, .heads = 6, .kv_heads = 1, .d_v = 7}, .n = 400},
        {.shape = {.d_model = 32, .heads = 4}, .b = 2, .n = 19, .n_kv = 203},
        {.shape = {.d_model = 32, .heads = 4, .kv_heads = 2, .d_k = 11, .d_v = 5, .d_model_kv = 23},
         .b = 3, .n = 1, .n_kv = 7},
        {.shape = {.d_model = 59, .heads = 2, .d_k = 64, .d_v = 111, .d_model_kv = 128}, .n = 35, .n_kv = 3},
    };
}

}  // namespace

TEMPLATE_TEST_CASE("layer: shapes, biases, groups and cross-attention", "[layer]", float, double)
{
    for_each_target([](Target target) {
        Errors all;
        for (const LayerProblem& p : layer_problems()) {
            INFO(headwise::name(target));
            const Comparison c = compare_layer<TestType>(p, p.attention());
            CHECK(c.failures == "");
            all.include(c.errors_of_Y);
        }
        CHECK(all.earned(0));
    });
}

TEST_CASE("layer: options", "[layer]")
{
    for_each_target([](Target target) {
        for (const LayerProblem& p : layer_problems()) {
            Problem o = p.attention();
            o.weights = o.mean_weights = o.log_sum_exp = true;
            const auto check = [&](const auto& change) {
                Problem changed = o;
                change(changed);
                INFO(headwise::name(target));
                CHECK(compare_layer<float>(p, changed).failures == "");
            };
            check([](Problem&) {});
            check([](Problem& q) { q.causal = true, q.query_offset = q.n_kv - q.n_q; });
            check([](Problem& q) { q.scale = -0.2, q.softcap = 3, q.right_window = 5, q.left_window = 12; });
            check([](Problem& q) { q.kv_lengths = q.query_offsets = q.causal = true; });
            check([](Problem& q) { q.mask = MaskKind::boolean, q.mask_shape = {1, q.h, q.n_q, q.n_kv}; });
            check([](Problem& q) { q.mask = MaskKind::float32, q.mask_shape = {q.b, 1, 1, q.n_kv}; });
            check([](Problem& q) { q.alibi = q.scores = true, q.score_stage = headwise::ScoreStage::biased; });
        }
    });
}

TEST_CASE("layer: strided tokens change no bit", "[layer]")
{
    for_each_target([](Target target) {
        for (const LayerProblem& dense : layer_problems()) {
            const RandomLayer<float> random(dense.shape);
            const headwise::MultiHeadAttention layer(dense.shape, random.weights());
            const auto run = [&](const LayerProblem& p) {
                return run_layer<float>(p, p.attention(), [&](auto X, auto X_kv, auto Y, const auto& options) {
                    layer.forward(X, X_kv, Y, options);
                });
            };
            const auto expected = run(dense);
            for (const Layout layout : layouts) {
                LayerProblem p = dense;
                p.x_layout = layout;
                INFO(headwise::name(target) << ", layout " << static_cast<int>(layout));
                CHECK(same_bits(run(p).Y.view(), expected.Y.view()));
                p.y_layout = layout;
                p.x_layout = Layout::dense;
                const auto got = run(p);
                CHECK(same_bits(got.Y.view(), expected.Y.view()));
                CHECK(got.Y.intact_around());
            }
        }
    });
}

// Tokens, weights and biases end at a page that cannot be touched, and NaN lies before them: see Tensor.
TEMPLATE_TEST_CASE("layer: strided weights change no bit, and nothing past an input's end is read", "[layer][layout]",
                   float, double)
{
    for_each_target([](Target target) {
        for (const std::int64_t width : {1, 3, 8, 17})
            for (const Layout layout : layouts) {
                const LayerProblem p{.shape = {.d_model = 3 * width, .heads = 4, .kv_heads = 2, .d_k = width,
                                               .d_v = width + 2, .d_model_kv = width + 1},
                                     .b = 2, .n = 21, .n_kv = 13, .x_layout = layout, .y_layout = layout};
                const auto run = [&](Layout layout_of_weights) {
                    const RandomLayer<TestType> random(p.shape, true, layout_of_weights);
                    const BasicMultiHeadAttention<TestType> layer(p.shape, random.weights());
                    return run_layer<TestType>(p, p.attention(), [&](auto X, auto X_kv, auto Y, const auto& options) {
                        layer.forward(X, X_kv, Y, options);
                    });
                };
                const LayerResult<TestType> got = run(layout);
                INFO(headwise::name(target) << ", width " << width << ", layout " << static_cast<int>(layout));
                CHECK(same_bits(got.Y.view(), run(Layout::dense).Y.view()));
                CHECK(got.Y.intact_around());
            }
    });
}

TEST_CASE("layer: nothing to do", "[layer]")
{
    const RandomLayer<float> random({.d_model = 8, .heads = 2});
    const headwise::MultiHeadAttention layer(random.shape, random.weights());
    const Tensor<float, 3> X({2, 3, 8}), Y({2, 3, 8}, Layout::dense, End::canaries);
    fill(X, [](const auto&) { return 1.0f; });
    for_each_target([&](Target) {
        layer.forward(headwise::TensorView<const float, 3>(nullptr, {0, 3, 8}), {nullptr, {0, 3, 8}});
        layer.forward(headwise::TensorView<const float, 3>(nullptr, {2, 0, 8}), {nullptr, {2, 0, 8}});
        layer.forward(X.view(), {nullptr, {2, 0, 8}}, Y.view());  // no keys: every head is 0, what is left is b_o
        for_each_index(Y.shape(), [&](const auto& i) { CHECK(at(Y.view(), i) == random.b_o.view()(i[2])); });
        CHECK(Y.intact_around());
    });
}

TEST_CASE("layer: every form of the weights packs to the same layer", "[layer]")
{
    for (const LayerProblem& p : layer_problems()) {
        const RandomLayer<float> w(p.shape);
        const LayerShape& s = w.shape;
        const std::int64_t q_rows = s.heads * s.d_k, k_rows = s.kv_heads * s.d_k, v_rows = s.kv_heads * s.d_v;
        // rows are outputs: Q, K and V one below another
        const Tensor<float, 2> stacked({q_rows + k_rows + v_rows, std::max(s.d_model, s.d_model_kv)});
        const Tensor<float, 1> bias({q_rows + k_rows + v_rows});
        const auto stack = [&](std::int64_t first, const Tensor<float, 3>& W, const Tensor<float, 2>& b) {
            for_each_index(W.shape(), [&](const auto& i) {
                const std::int64_t row = first + i[0] * W.shape()[2] + i[2];
                stacked.view()(row, i[1]) = at(W.view(), i);
                bias.view()(row) = b.view()(i[0], i[2]);
            });
        };
        stack(0, w.W_q, w.b_q);
        stack(q_rows, w.W_k, w.b_k);
        stack(q_rows + k_rows, w.W_v, w.b_v);
        const auto rows = [&](std::int64_t first, std::int64_t count, std::int64_t depth) {
            return headwise::MatrixView<const float>(&stacked.view()(first, 0), {count, depth},
                                                     {stacked.shape()[1], 1});
        };
        const auto biases = [&](std::int64_t first, std::int64_t count) {
            return headwise::VectorView<const float>(&bias.view()(first), {count});
        };
        const Tensor<float, 2> W_o({s.d_model, s.heads * s.d_v});
        fill(W_o, [&](const auto& i) { return w.W_o.view()(i[1], i[0]); });

        const headwise::LinearWeights<float> linear{.W_q = rows(0, q_rows, s.d_model),
                                                    .W_k = rows(q_rows, k_rows, s.d_model_kv),
                                                    .W_v = rows(q_rows + k_rows, v_rows, s.d_model_kv),
                                                    .W_o = W_o.input(),
                                                    .b_q = biases(0, q_rows),
                                                    .b_k = biases(q_rows, k_rows),
                                                    .b_v = biases(q_rows + k_rows, v_rows),
                                                    .b_o = w.b_o.input()};
        const auto run = [&](const headwise::MultiHeadAttention& layer) {
            return run_layer<float>(p, p.attention(), [&](auto X, auto X_kv, auto Y, const auto& options) {
                layer.forward(X, X_kv, Y, options);
            });
        };
        const auto expected = run({p.shape, w.weights()});
        CHECK(same_bits(run({p.shape, linear}).Y.view(), expected.Y.view()));
        if (s.d_model_kv != s.d_model) continue;
        const headwise::PackedLinearWeights<float> packed{
            .W_qkv = stacked.input(), .W_o = W_o.input(), .b_qkv = bias.input(), .b_o = w.b_o.input()};
        CHECK(same_bits(run({p.shape, packed}).Y.view(), expected.Y.view()));
    }
}

TEST_CASE("layer: reports the work of the cost arithmetic exactly, and never less as issued", "[layer][work]")
{
    constexpr std::array stages{&headwise::Work::project_q, &headwise::Work::project_k, &headwise::Work::project_v,
                                &headwise::Work::score,     &headwise::Work::exponentials, &headwise::Work::blend,
                                &headwise::Work::project_o};
    for_each_target([&](Target target) {
        for (const LayerProblem& p : layer_problems()) {
            const RandomLayer<float> w(p.shape);
            const headwise::MultiHeadAttention layer(p.shape, w.weights());
            const auto report_of = [&](const Problem& options_of) {
                WorkReport report;
                run_layer<float>(p, options_of, [&](auto X, auto X_kv, auto Y, AttentionOptions<float> options) {
                    options.work = &report;
                    layer.forward(X, X_kv, Y, options);
                });
                return report;
            };
            const auto counted = [&](const Problem& options_of) {
                return headwise::reference::count_work([&] {
                    run_layer<float>(p, options_of, [&](auto X, auto X_kv, auto Y, const auto& options) {
                        using Number = headwise::reference::Counted<float>;
                        headwise::reference::multi_head_attention<float, Number>(p.shape, w.weights(), X, X_kv, Y,
                                                                                 options);
                    });
                });
            };
            const auto check = [&](const Problem& options_of) {
                const WorkReport report = report_of(options_of);
                INFO(headwise::name(target) << ": " << options_of.text());
                CHECK(report.useful == counted(options_of));
                for (const auto stage : stages) CHECK(report.issued.*stage >= report.useful.*stage);
            };
            const Problem plain = p.attention();
            const LayerShape& s = w.shape;
            if (p.b == 1 && s.d_model_kv == s.d_model)
                CHECK(report_of(plain).useful == headwise::cost::work({.n = p.n, .n_kv = p.keys(), .d_model = s.d_model,
                                                                       .h = s.heads, .h_kv = s.kv_heads, .d_k = s.d_k,
                                                                       .d_v = s.d_v}));
            check(plain);
            Problem causal = plain;
            causal.causal = true;
            causal.query_offset = p.keys() - p.n;
            check(causal);
            causal.left_window = 5;
            check(causal);
            Problem masked = plain;
            masked.mask = MaskKind::boolean;
            masked.mask_shape = {p.b, 1, p.n, p.keys()};
            for (masked.seed = 1; masked.seed <= 4; ++masked.seed) check(masked);
        }
    });
}
