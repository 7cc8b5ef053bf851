// What the fuzzers share: how a call is drawn from bytes, and how its results are compared with the reference's.
#pragma once

#include "bounds.hpp"
#include "byte_source.hpp"
#include "random_problem.hpp"
#include "tolerance.hpp"

#include <cstdio>
#include <cstdlib>

#include <oneapi/tbb/task_arena.h>

namespace tensors {

/// Gives the mask the problem's sizes, which may have changed since it was drawn.
inline void fit_mask(Problem& p)
{
    const std::array sizes{p.b, p.h, p.n_q, p.n_kv};
    for (std::size_t r = 0; r < 3; ++r)
        if (p.mask_shape[r] != 1) p.mask_shape[r] = sizes[r];
    if (p.mask_shape[3] != 1) p.mask_shape[3] = std::min(p.mask_shape[3], p.n_kv);
}

/// random_problem(), and what the tests have cases of their own for.
inline Problem draw_problem(ByteSource& source)
{
    Problem p = random_problem(source);
    for (Layout* layout : {&p.q_layout, &p.k_layout, &p.v_layout, &p.mask_layout})
        if (source.chance(0.1)) *layout = Layout::repeated;
    // Many small calls find more than a few large ones.
    while (p.n_q > 1 && p.b * p.h * p.n_q * p.n_kv * (p.d_k + p.d_v) > 200'000) p.n_q = (p.n_q + 1) / 2;
    if (source.chance(0.02)) {  // more keys than are done in one piece
        p.b = 1;
        p.n_q = 1 + source.below(2);
        p.n_kv = 1000 + source.below(1500);
    }
    if (source.chance(0.03)) p.b = 0;
    if (source.chance(0.03)) p.n_q = 0;
    if (source.chance(0.03)) p.n_kv = 0;
    fit_mask(p);
    if (source.chance(0.03)) p.scale = 0;
    if (!p.query_offsets && !p.alibi && source.chance(0.05))
        p.query_offset = source.chance(0.5) ? std::numeric_limits<std::int64_t>::max() - source.below(50)
                                            : std::numeric_limits<std::int64_t>::min() + source.below(50);
    for (std::int64_t* window : {&p.left_window, &p.right_window})
        if (source.chance(0.05)) *window = std::numeric_limits<std::int64_t>::max() - source.below(50);
    p.seed = source.bits();
    return p;
}

/// Puts numbers of special kinds at a few places of some tensors.
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

/// run() in an arena of one, of a few or of many threads, for which the work is cut in other ways.
template <class Run>
void in_drawn_arena(ByteSource& source, const Run& run)
{
    static std::array arenas{oneapi::tbb::task_arena(1), oneapi::tbb::task_arena(3), oneapi::tbb::task_arena(16)};
    arenas[static_cast<std::size_t>(source.below(arenas.size()))].execute(run);
}

/// Ends the run, with the bytes of the call in a file.
[[noreturn]] inline void fail(const std::string& call, const std::string& what)
{
    const std::string target(headwise::name(headwise::active_target()));
    std::fprintf(stderr, "%s: %s: %s\n", target.c_str(), what.c_str(), call.c_str());
    std::abort();
}

template <class T, int Rank>
bool finite(const Tensor<T, Rank>& tensor)
{
    bool all = true;
    for_each_index(tensor.shape(), [&](const auto& i) { all = all && std::isfinite(number(at(tensor.view(), i))); });
    return all;
}

/// g and w are no further apart than `limit`, or the same infinity, or both NaN.
inline auto within(double limit)
{
    return
        [limit](double g, double w) { return g == w || (std::isnan(g) && std::isnan(w)) || std::abs(g - w) <= limit; };
}

/// One output of the active target against the reference: agree(got, want) for each number.
template <class E, class T, int Rank, class Agree>
void check_output(const std::string& call, const char* name, const Tensor<E, Rank>& got, const Tensor<T, Rank>& want,
                  const Agree& agree)
{
    for_each_index(got.shape(), [&](const auto& index) {
        const double g = number(at(got.view(), index)), w = number(at(want.view(), index));
        if (agree(g, w)) return;
        std::ostringstream s;
        s << name << " (";
        for (const std::int64_t i : index) s << ' ' << i;
        s << " ) is " << g << ", expected " << w;
        fail(call, s.str());
    });
}

/// Y. Where the values are not finite, an infinity in one may be a NaN in the other: 0 times infinity, where a weight
/// is 0 in one precision only.
template <class E, class T, int Rank>
void check_Y(const std::string& call, const Tensor<E, Rank>& got, const Tensor<T, Rank>& want, double limit,
             bool finite_values)
{
    check_output(call, "Y", got, want, [&](double g, double w) {
        return within(limit)(g, w) || (!finite_values && !std::isfinite(g) && !std::isfinite(w));
    });
}

/// What the options asked for. Where a row's sum is NaN, weights follow weights_agree().
template <class E>
void check_optional_outputs(const std::string& call, const Outputs<E>& got, const Outputs<compute_t<E>>& want,
                            const Bounds& bound)
{
    const auto as_weight = [&](double g, double w) {
        return std::isnan(w) ? std::isnan(g) || g == 0 : std::abs(g - w) <= bound.weight;
    };
    check_output(call, "log_sum_exp", got.log_sum_exp, want.log_sum_exp, within(bound.score + bound.weight));
    check_output(call, "weights", got.weights, want.weights, as_weight);
    check_output(call, "mean_weights", got.mean_weights, want.mean_weights, as_weight);
    if (!weights_agree(got.weights, want.weights, bound.weight)) fail(call, "weights: a row lost its NaN");
    if (!weights_agree(got.mean_weights, want.mean_weights, bound.weight))
        fail(call, "mean_weights: a row lost its NaN");
    if (got.problem.score_stage == headwise::ScoreStage::weights)
        check_output(call, "scores (weights)", got.scores, want.scores, as_weight);
    else check_output(call, "scores", got.scores, want.scores, within(bound.score));
}

}  // namespace tensors
