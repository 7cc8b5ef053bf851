// The layer against the reference, on every target; its weights' forms; the work it reports.
#include "catch_compat.hpp"
#include "layer_problem.hpp"
#include "tolerance.hpp"
#include "work_errors.hpp"

#include <headwise/cost.hpp>
#include <headwise/counted.hpp>

using namespace tensors;
using headwise::BasicMultiHeadAttention;
using headwise::Target;
using headwise::WorkReport;

namespace {

/// What forward() gives on random tokens.
template <class T>
LayerResult<T> run_layer(const BasicMultiHeadAttention<T>& layer, const LayerProblem& p)
{
    return run_kernels(layer, LayerInputs<T>(p, p.attention()));
}

template <class T>
Comparison compare_layer(const LayerProblem& p, const Problem& options_of)
{
    const LayerInputs<T> inputs(p, options_of);
    const RandomLayer<T> random(p.shape, p.biased);
    const auto got = run_kernels(BasicMultiHeadAttention<T>(p.shape, random.weights()), inputs);
    const auto plain = run_reference<T>(p.shape, random.weights(), inputs);
    const auto want = run_oracle(p.shape, random.weights(), inputs);
    Comparison c;
    c.add("Y", got.Y, plain.Y, want.Y, max_magnitude(want.Y.view()));
    c.add_optional_outputs(got.outputs, plain.outputs, want.outputs);
    c.intact = got.intact_around();
    if (!c.intact) c.failures += "memory beside an output was written; ";
    if (!c.failures.empty()) c.failures += "d_model " + std::to_string(p.shape.d_model) + ", " + options_of.text();
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
        // Few queries and many keys, which the operator, but not the layer, would cut by keys.
        {.shape = {.d_model = 16, .heads = 1}, .b = 2, .n = 1, .n_kv = 1100},
        {.shape = {.d_model = 32, .heads = 2, .kv_heads = 1}, .n = 2, .n_kv = 2050, .biased = false},
        {.shape = {.d_model = 601, .heads = 10, .d_k = 60}, .n = 18},  // too large for one pass over the tokens
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
            all.include(c.errors.at("Y"));
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

// 800 numbers of queries and outputs a token: some 2600 tokens are held at a time, of one item or of several.
TEST_CASE("layer: more tokens than are held at a time", "[layer][long]")
{
    const LayerShape shape{.d_model = 8, .heads = 4, .d_k = 100};
    for_each_target([&](Target target) {
        for (const LayerProblem& p : {LayerProblem{.shape = shape, .n = 3000, .n_kv = 5},
                                      LayerProblem{.shape = shape, .b = 5, .n = 1100, .n_kv = 9},
                                      LayerProblem{.shape = shape, .b = 1100, .n = 5},
                                      LayerProblem{.shape = shape, .b = 600, .n = 6, .n_kv = 7}}) {
            INFO(headwise::name(target) << ", b " << p.b);
            Problem o = p.attention();
            CHECK(compare_layer<float>(p, o).failures == "");
            o.kv_lengths = o.query_offsets = o.weights = o.mean_weights = o.log_sum_exp = true;
            o.left_window = 1000;
            o.mask = MaskKind::boolean;
            o.mask_shape = {p.b, 1, p.n, p.keys()};
            CHECK(compare_layer<float>(p, o).failures == "");
        }
    });
}

// 1024 numbers of queries and outputs a token: 2048 tokens are held at a time, and the last one is alone.
TEST_CASE("layer: a last token that is alone gets the bits it gets without the others", "[layer]")
{
    const LayerShape shape{.d_model = 8, .heads = 4, .d_k = 128};
    const RandomLayer<float> random(shape);
    for_each_target([&](Target target) {
        const headwise::MultiHeadAttention layer(shape, random.weights());
        for (const std::int64_t n_kv : {40, 1100}) {
            const LayerProblem p{.shape = shape, .n = 2049, .n_kv = n_kv};
            const LayerInputs<float> inputs(p, p.attention());
            const auto all = run_kernels(layer, inputs);
            const Tensor<float, 3> alone({1, 1, 8});
            auto last = inputs.X.input();
            last.data = &last(0, 2048, 0);
            last.shape[1] = 1;
            layer.forward(last, inputs.X_kv.input(), alone.view());
            INFO(headwise::name(target) << ", n_kv " << n_kv);
            for (std::int64_t c = 0; c < 8; ++c) CHECK(alone.view()(0, 0, c) == all.Y.view()(0, 2048, c));
        }
    });
}

// Short sequences share the panels of the projections.
TEMPLATE_TEST_CASE("layer: an item of a batch gets the bits it gets alone", "[layer]", float, double)
{
    for_each_target([](Target target) {
        const std::array<std::pair<std::optional<std::int64_t>, bool>, 5> calls{
            {{{}, false}, {4, false}, {64, false}, {{}, true}, {64, true}}};
        for (const LayerShape& shape : {LayerShape{.d_model = 40, .heads = 4},
                                        LayerShape{.d_model = 33, .heads = 6, .kv_heads = 2, .d_k = 11, .d_v = 5}})
            for (const std::int64_t n : {1, 2, 3, 5, 7, 9, 13, 16, 21, 50})
                for (const auto& [n_kv, windowed] : calls) {
                    const RandomLayer<TestType> random(shape);
                    const BasicMultiHeadAttention<TestType> layer(shape, random.weights());
                    const LayerProblem p{.shape = shape, .b = 5, .n = n, .n_kv = n_kv};
                    const LayerInputs<TestType> inputs(p, p.attention());
                    Tensor<TestType, 1> slopes({shape.heads});
                    fill(slopes, [](const auto& i) {
                        return static_cast<TestType>(0.3 * static_cast<double>(i[0] + 1) / 7);
                    });
                    headwise::AttentionOptions<TestType> options;
                    if (windowed) {  // rows of other heads, which see other keys, may share a panel
                        options.left_window = 1;
                        options.alibi = slopes.input();
                    }
                    const Tensor<TestType, 3> all({p.b, n, shape.d_model});
                    if (n_kv) layer.forward(inputs.X.input(), inputs.X_kv.input(), all.view(), options);
                    else layer.forward(inputs.X.input(), all.view(), options);
                    for (std::int64_t item = 0; item < p.b; ++item) {
                        const auto of_item = [&](auto view) {
                            view.data += item * view.strides[0];
                            view.shape[0] = 1;
                            return view;
                        };
                        const Tensor<TestType, 3> alone({1, n, shape.d_model});
                        layer.forward(of_item(inputs.X.input()), of_item(inputs.X_kv.input()), alone.view(), options);
                        INFO(headwise::name(target) << ", h " << shape.heads << ", n " << n << ", n_kv " << p.keys()
                                                    << ", windowed " << windowed);
                        CHECK(same_bits(alone.view(), of_item(all.view())));
                    }
                }
    });
}

TEST_CASE("layer: strided tokens change no bit", "[layer]")
{
    for_each_target([](Target target) {
        for (const LayerProblem& dense : layer_problems()) {
            const RandomLayer<float> random(dense.shape);
            const headwise::MultiHeadAttention layer(dense.shape, random.weights());
            const auto expected = run_layer(layer, dense);
            for (const Layout layout : layouts) {
                LayerProblem p = dense;
                p.x_layout = p.x_kv_layout = layout;
                INFO(headwise::name(target) << ", layout " << static_cast<int>(layout));
                CHECK(same_bits(run_layer(layer, p).Y.view(), expected.Y.view()));
                p.y_layout = layout;
                p.x_layout = p.x_kv_layout = Layout::dense;
                const auto got = run_layer(layer, p);
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
                                     .b = 2, .n = 21, .n_kv = 13, .x_layout = layout, .x_kv_layout = layout,
                                     .y_layout = layout};
                const auto run = [&](Layout layout_of_weights) {
                    const RandomLayer<TestType> random(p.shape, true, layout_of_weights);
                    return run_layer(BasicMultiHeadAttention<TestType>(p.shape, random.weights()), p);
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
    for (const LayerProblem& p : layer_problems())
        for (const Layout layout : layouts) {
            const RandomLayer<float> w(p.shape, p.biased);
            const StackedWeights<float> stacked(w, layout);
            const auto expected = run_layer<float>({p.shape, w.weights()}, p);
            INFO("layout " << static_cast<int>(layout) << ", d_model " << w.shape.d_model);
            CHECK(same_bits(run_layer<float>({p.shape, stacked.linear()}, p).Y.view(), expected.Y.view()));
            if (w.shape.d_model_kv != w.shape.d_model) continue;
            CHECK(same_bits(run_layer<float>({p.shape, stacked.packed()}, p).Y.view(), expected.Y.view()));
        }
}

TEST_CASE("layer: reports the work of the cost arithmetic exactly, and never less as issued", "[layer][work]")
{
    for_each_target([&](Target target) {
        for (const LayerProblem& p : layer_problems()) {
            const RandomLayer<float> w(p.shape);
            const headwise::MultiHeadAttention layer(p.shape, w.weights());
            const auto report_of = [&](const Problem& options_of) {
                WorkReport report;
                run_kernels(layer, LayerInputs<float>(p, options_of), &report);
                return report;
            };
            const auto counted = [&](const Problem& options_of) {
                const LayerInputs<float> inputs(p, options_of);
                return headwise::reference::count_work(
                    [&] { run_reference<headwise::reference::Counted<float>>(p.shape, w.weights(), inputs); });
            };
            const auto check = [&](const Problem& options_of) {
                INFO(headwise::name(target) << ": " << options_of.text());
                CHECK(work_errors(report_of(options_of), counted(options_of)) == "");
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
