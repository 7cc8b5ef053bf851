// libFuzzer: calls of attention() drawn from bytes, on every target, against the reference; some with a bad argument.
#include "drawn_call.hpp"
#include "spoil.hpp"
#include "work_errors.hpp"

#include <headwise/counted.hpp>

using namespace tensors;

namespace {

/// The arguments of a valid call, to be spoilt.
template <class E>
struct Call : OptionsToSpoil<E> {
    headwise::TensorView<const E, 4> Q, K, V;
    headwise::TensorView<E, 4> Y;

    Call(const Inputs<E>& inputs, const Outputs<E>& outputs)
        : OptionsToSpoil<E>(inputs, outputs),
          Q(inputs.Q.input()),
          K(inputs.K.input()),
          V(inputs.V.input()),
          Y(outputs.Y.view())
    {
    }

    bool has_data() const { return Y.size() > 0 && K.size() > 0; }
};

template <class E>
std::vector<SpoilWay<Call<E>>> ways_to_spoil()
{
    using C = Call<E>&;
    using R = std::size_t;
    static constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
    return {
        {"Q of negative extent", [](C c, R r) { c.Q.shape[r] = -1; }},
        {"K of negative extent", [](C c, R r) { c.K.shape[r] = lowest; }},
        {"V of more heads or items", [](C c, R r) { ++c.V.shape[r % 3]; }},
        {"Y longer", [](C c, R r) { ++c.Y.shape[r]; }},
        {"Q without heads", [](C c, R) { c.Q.shape[1] = c.Y.shape[1] = 0; }},
        {"K and V of more heads than Q", [](C c, R) { c.K.shape[1] = c.V.shape[1] = c.Q.shape[1] + 1; }},
        {"Q null", [](C c, R) { c.Q.data = nullptr; }, true},
        {"Y null", [](C c, R) { c.Y.data = nullptr; }, true},
        {"Q of lowest stride", [](C c, R r) { c.Q.strides[r] = lowest; }, true},
        {"Y on Q", [](C c, R) { c.Y.data = const_cast<E*>(c.Q.data); }, true},
        {"weights on Y", [](C c, R) { c.options.weights = {c.Y.data, c.pairs()}; }, true},
    };
}

template <class E>
void check_refused(const Inputs<E>& inputs, ByteSource& source)
{
    static const auto ways = ways_to_spoil<E>();
    const Outputs<E> outputs(inputs.problem);
    Call<E> call(inputs, outputs);
    const std::string what = spoil<E>(call, ways, source);
    const std::string text = inputs.problem.text();
    if (!is_refused([&] { headwise::attention(call.Q, call.K, call.V, call.Y, call.options); }))
        fail(text, "not refused: " + what);
    if (!outputs.untouched()) fail(text, "refused after something was written: " + what);
}

/// Runs every target and compares it with the reference.
template <class E>
void check_results(const Inputs<E>& inputs)
{
    const std::string text = inputs.problem.text();
    const Bounds bound = bounds(inputs, magnitudes(inputs));
    const bool finite_V = finite(inputs.V);
    const auto want = run_oracle(inputs);
    for_each_target([&](headwise::Target) {
        const Outputs<E> got = run_kernels(inputs);
        if (!got.intact_around()) fail(text, "memory beside an output was written");
        check_optional_outputs(text, got, want, bound);
        check_Y(text, got.Y, want.Y, bound.Y, finite_V);
    });
}

/// Every target reports the work that the reference counts.
template <class E>
void check_work(const Inputs<E>& inputs)
{
    const headwise::Work counted =
        headwise::reference::count_work([&] { run_reference<headwise::reference::Counted<compute_t<E>>>(inputs); });
    for_each_target([&](headwise::Target) {
        headwise::WorkReport report;
        run_kernels(inputs, &report);
        const std::string errors = work_errors(report, counted);
        if (!errors.empty()) fail(inputs.problem.text(), "work: " + errors);
    });
}

template <class E>
void run(ByteSource& source)
{
    const Inputs<E> inputs(draw_problem(source));
    if (source.chance(0.1)) return check_refused(inputs, source);
    if (source.chance(0.1)) return in_drawn_arena(source, [&] { check_work(inputs); });
    sprinkle(inputs.Q, source);
    sprinkle(inputs.K, source);
    sprinkle(inputs.V, source);
    sprinkle(inputs.float_mask, source);
    sprinkle(inputs.element_mask, source);
    in_drawn_arena(source, [&] { check_results(inputs); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size)
{
    ByteSource source(bytes, size);
    switch (source.below(4)) {
        case 0: run<float>(source); break;
        case 1: run<double>(source); break;
        case 2: run<headwise::bfloat16>(source); break;
        default: run<headwise::float16>(source); break;
    }
    return 0;
}
