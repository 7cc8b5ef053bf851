// libFuzzer: layers and forwards drawn from bytes, on every target, against the reference; some with a bad argument.
#include "drawn_layer.hpp"
#include "layer_bounds.hpp"
#include "spoil.hpp"
#include "work_errors.hpp"

#include <headwise/counted.hpp>

using namespace tensors;

namespace {

template <class T>
headwise::BasicMultiHeadAttention<T> make_layer(const LayerShape& shape,
                                                const typename LayerTensors<T>::AnyWeights& weights)
{
    return std::visit([&](const auto& w) { return headwise::BasicMultiHeadAttention<T>(shape, w); }, weights);
}

/// The arguments of a valid layer and forward, to be spoilt.
template <class T>
struct Call : OptionsToSpoil<T> {
    LayerShape shape;
    typename LayerTensors<T>::AnyWeights weights;
    headwise::TensorView<const T, 3> X, X_kv;
    headwise::TensorView<T, 3> Y;

    Call(const LayerTensors<T>& tensors, const LayerResult<T>& result)
        : OptionsToSpoil<T>(tensors.inputs.optional_inputs, result.outputs),
          shape(tensors.drawn.problem.shape),
          weights(tensors.weights_in_form()),
          X(tensors.inputs.X.input()),
          X_kv(tensors.inputs.X_kv.input()),
          Y(result.Y.view())
    {
    }

    bool has_data() const { return Y.size() > 0 && X_kv.size() > 0; }

    /// The first matrix of the form.
    template <class Change>
    void change_first_matrix(const Change& change)
    {
        std::visit(
            [&](auto& w) {
                if constexpr (requires { w.W_qkv; }) change(w.W_qkv);
                else change(w.W_q);
            },
            weights);
    }

    /// W_o and b_o, which every form has.
    template <class Change>
    void change_output_projection(const Change& change)
    {
        std::visit([&](auto& w) { change(w.W_o, w.b_o); }, weights);
    }
};

template <class T>
std::vector<SpoilWay<Call<T>>> ways_to_spoil()
{
    using C = Call<T>&;
    using R = std::size_t;
    static constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
    return {
        {"d_model negative", [](C c, R) { c.shape.d_model = -1; }},
        {"more kv_heads than heads", [](C c, R) { c.shape.kv_heads = c.shape.heads + 1; }},
        {"d_v lowest", [](C c, R) { c.shape.d_v = lowest; }},
        {"W_q or W_qkv larger",
         [](C c, R r) { c.change_first_matrix([&](auto& W) { ++W.shape[r % W.shape.size()]; }); }},
        {"W_q or W_qkv of lowest stride",
         [](C c, R r) { c.change_first_matrix([&](auto& W) { W.strides[r % W.strides.size()] = lowest; }); }},
        {"W_q or W_qkv null", [](C c, R) { c.change_first_matrix([](auto& W) { W.data = nullptr; }); }},
        {"W_o smaller", [](C c, R r) { c.change_output_projection([&](auto& W, auto&) { --W.shape[r % 2]; }); }},
        {"W_o not given", [](C c, R) { c.change_output_projection([](auto& W, auto&) { W = {}; }); }},
        {"b_o of the wrong length",
         [](C c, R) { c.change_output_projection([](auto& W, auto& b) { b = {W.data, {W.shape[0] + W.shape[1]}}; }); }},
        {"X of negative extent", [](C c, R r) { c.X.shape[r % 3] = -1; }},
        {"X wider", [](C c, R) { ++c.X.shape[2]; }},
        {"X_kv of lowest extent", [](C c, R r) { c.X_kv.shape[r % 3] = lowest; }},
        {"X_kv of more items", [](C c, R) { ++c.X_kv.shape[0]; }},
        {"X_kv wider", [](C c, R) { ++c.X_kv.shape[2]; }},
        {"Y longer", [](C c, R r) { ++c.Y.shape[r % 3]; }},
        {"X null", [](C c, R) { c.X.data = nullptr; }, true},
        {"X_kv null", [](C c, R) { c.X_kv.data = nullptr; }, true},
        {"Y null", [](C c, R) { c.Y.data = nullptr; }, true},
        {"X of lowest stride", [](C c, R r) { c.X.strides[r % 3] = lowest; }, true},
        {"Y on X", [](C c, R) { c.Y.data = const_cast<T*>(c.X.data); }, true},
        {"Y on X_kv", [](C c, R) { c.Y.data = const_cast<T*>(c.X_kv.data); }, true},
        {"weights on Y", [](C c, R) { c.options.weights = {c.Y.data, c.pairs()}; }, true},
    };
}

template <class T>
void check_refused(const LayerTensors<T>& tensors, ByteSource& source)
{
    static const auto ways = ways_to_spoil<T>();
    const LayerResult<T> result(tensors.inputs);
    Call<T> call(tensors, result);
    const std::string what = spoil<T>(call, ways, source);
    const std::string text = tensors.drawn.text();
    if (!is_refused([&] { make_layer<T>(call.shape, call.weights).forward(call.X, call.X_kv, call.Y, call.options); }))
        fail(text, "not refused: " + what);
    if (!result.untouched()) fail(text, "refused after something was written: " + what);
}

/// Runs every target and compares it with the reference.
template <class T>
void check_results(const LayerTensors<T>& tensors)
{
    const LayerShape& shape = tensors.drawn.problem.shape;
    const std::string text = tensors.drawn.text();
    const LayerInputs<T>& inputs = tensors.inputs;
    const Bounds bound = bounds(inputs.optional_inputs, magnitudes(shape, tensors.weights(), inputs));
    const bool finite_values = tensors.finite_values();
    const auto want = run_oracle(shape, tensors.weights(), inputs);
    const auto layer = make_layer<T>(shape, tensors.weights_in_form());
    for_each_target([&](headwise::Target) {
        const LayerResult<T> got = run_kernels(layer, inputs);
        if (!got.intact_around()) fail(text, "memory beside an output was written");
        check_optional_outputs(text, got.outputs, want.outputs, bound);
        check_Y(text, got.Y, want.Y, bound.Y, finite_values);
    });
}

/// Every target reports the work that the reference counts; without queries none is done, though the reference makes K
/// and V.
template <class T>
void check_work(const LayerTensors<T>& tensors)
{
    if (tensors.drawn.problem.n == 0) return;
    const LayerShape& shape = tensors.drawn.problem.shape;
    const headwise::Work counted = headwise::reference::count_work(
        [&] { run_reference<headwise::reference::Counted<T>>(shape, tensors.weights(), tensors.inputs); });
    const auto layer = make_layer<T>(shape, tensors.weights_in_form());
    for_each_target([&](headwise::Target) {
        headwise::WorkReport report;
        run_kernels(layer, tensors.inputs, &report);
        const std::string errors = work_errors(report, counted);
        if (!errors.empty()) fail(tensors.drawn.text(), "work: " + errors);
    });
}

template <class T>
void run(ByteSource& source)
{
    const DrawnLayer drawn = draw_layer(source);
    const bool bad = source.chance(0.1), work = !bad && source.chance(0.1);
    const LayerTensors<T> tensors(drawn, source, !bad && !work);
    if (bad) return check_refused(tensors, source);
    in_drawn_arena(source, [&] {
        if (work) check_work(tensors);
        else check_results(tensors);
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size)
{
    ByteSource source(bytes, size);
    if (source.chance(0.7)) run<float>(source);
    else run<double>(source);
    return 0;
}
