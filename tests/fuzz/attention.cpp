// libFuzzer: calls of attention() drawn from bytes, on every target, against the reference; some with a bad argument.
#include "bounds.hpp"
#include "byte_source.hpp"
#include "random_problem.hpp"
#include "spoil.hpp"
#include "tolerance.hpp"

#include <cstdio>
#include <cstdlib>

using namespace tensors;

namespace {

/// Ends the run, with the bytes of the call in a file.
[[noreturn]] void fail(const Problem& problem, const std::string& what)
{
    const std::string target(headwise::name(headwise::active_target()));
    std::fprintf(stderr, "%s: %s: %s\n", target.c_str(), what.c_str(), problem.text().c_str());
    std::abort();
}

/// random_problem(), and what the tests have cases of their own for.
Problem draw_problem(ByteSource& source)
{
    Problem p = random_problem(source);
    for (Layout* layout : {&p.q_layout, &p.k_layout, &p.v_layout, &p.mask_layout})
        if (source.chance(0.1)) *layout = Layout::repeated;
    // Many small calls find more than a few large ones.
    while (p.n_q > 1 && p.b * p.h * p.n_q * p.n_kv * (p.d_k + p.d_v) > 200'000) p.n_q = (p.n_q + 1) / 2;
    if (source.chance(0.03)) p.b = 0;
    if (source.chance(0.03)) p.n_q = 0;
    if (source.chance(0.03)) p.n_kv = 0;
    for (std::size_t r = 0; r < 4; ++r)  // the mask follows
        if (p.mask_shape[r] != 1) p.mask_shape[r] = std::min(p.mask_shape[r], std::array{p.b, p.h, p.n_q, p.n_kv}[r]);
    if (!p.query_offsets && !p.alibi && source.chance(0.05))
        p.query_offset = source.chance(0.5) ? std::numeric_limits<std::int64_t>::max() - source.below(50)
                                            : std::numeric_limits<std::int64_t>::min() + source.below(50);
    for (std::int64_t* window : {&p.left_window, &p.right_window})
        if (source.chance(0.05)) *window = std::numeric_limits<std::int64_t>::max() - source.below(50);
    p.seed = source.bits();
    return p;
}

/// Puts numbers of special kinds at a few places.
template <class T, int Rank>
void sprinkle(const Tensor<T, Rank>& tensor, ByteSource& source)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr std::array specials{
        std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0.0, -0.0, 1e-40, 30.0, -30.0};
    for (const std::int64_t extent : tensor.shape())
        if (extent == 0) return;
    if (!source.chance(0.2)) return;
    for (std::int64_t count = 1 + source.below(4); count > 0; --count) {
        auto index = tensor.shape();
        for (std::int64_t& i : index) i = source.below(i);
        at(tensor.view(), index) = element<T>(specials[static_cast<std::size_t>(source.below(specials.size()))]);
    }
}

/// One output of the active target against the reference: agree(got, want) for each number.
template <class E, class T, int Rank, class Agree>
void check_output(const Problem& problem, const char* name, const Tensor<E, Rank>& got, const Tensor<T, Rank>& want,
                  const Agree& agree)
{
    for_each_index(got.shape(), [&](const auto& index) {
        const double g = number(at(got.view(), index)), w = number(at(want.view(), index));
        if (agree(g, w)) return;
        std::ostringstream s;
        s << name << " (";
        for (const std::int64_t i : index) s << ' ' << i;
        s << " ) is " << g << ", expected " << w;
        fail(problem, s.str());
    });
}

template <class E>
bool finite(const Tensor<E, 4>& tensor)
{
    bool all = true;
    for_each_index(tensor.shape(), [&](const auto& i) { all = all && std::isfinite(number(at(tensor.view(), i))); });
    return all;
}

/// Runs every target and compares it with the reference. Where a row's sum is NaN, weights follow weights_agree().
/// Where V is not finite, an infinity of Y in one may be a NaN in the other: 0 times infinity, where a weight is 0 in
/// one precision only.
template <class E>
void check_results(const Inputs<E>& inputs)
{
    const Problem& p = inputs.problem;
    const Bounds bound = bounds(inputs);
    const bool finite_V = finite(inputs.V);
    const auto within = [](double limit) {
        return [limit](double g, double w) {
            return g == w || (std::isnan(g) && std::isnan(w)) || std::abs(g - w) <= limit;
        };
    };
    const auto as_weight = [&](double g, double w) {
        return std::isnan(w) ? std::isnan(g) || g == 0 : std::abs(g - w) <= bound.weight;
    };
    const auto as_Y = [&](double g, double w) {
        return within(bound.Y)(g, w) || (!finite_V && !std::isfinite(g) && !std::isfinite(w));
    };
    const auto want = run_oracle(inputs);
    for_each_target([&](headwise::Target) {
        const Outputs<E> got = run_kernels(inputs);
        if (!got.intact_around()) fail(p, "memory beside an output was written");
        check_output(p, "log_sum_exp", got.log_sum_exp, want.log_sum_exp, within(bound.score + bound.weight));
        check_output(p, "weights", got.weights, want.weights, as_weight);
        check_output(p, "mean_weights", got.mean_weights, want.mean_weights, as_weight);
        if (!weights_agree(got.weights, want.weights, bound.weight)) fail(p, "weights: a row lost its NaN");
        if (!weights_agree(got.mean_weights, want.mean_weights, bound.weight))
            fail(p, "mean_weights: a row lost its NaN");
        if (p.score_stage == headwise::ScoreStage::weights)
            check_output(p, "scores (weights)", got.scores, want.scores, as_weight);
        else check_output(p, "scores", got.scores, want.scores, within(bound.score));
        check_output(p, "Y", got.Y, want.Y, as_Y);
    });
}

template <class E>
void run(ByteSource& source)
{
    const Problem problem = draw_problem(source);
    const Inputs<E> inputs(problem);
    if (source.chance(0.1)) {
        Call<E> call(inputs);
        const char* const what = spoil(call, source);
        if (!call.is_refused()) fail(problem, std::string("not refused: ") + what);
        return;
    }
    sprinkle(inputs.Q, source);
    sprinkle(inputs.K, source);
    sprinkle(inputs.V, source);
    sprinkle(inputs.float_mask, source);
    sprinkle(inputs.element_mask, source);
    check_results(inputs);
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
