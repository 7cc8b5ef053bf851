// Calls with one bad argument, which must be refused before anything is written.
#pragma once

#include "attention_problem.hpp"
#include "byte_source.hpp"

#include <stdexcept>

namespace tensors {

/// A way to make one argument of a valid Call wrong.
template <class Call>
struct SpoilWay {
    const char* what;
    void (*spoil)(Call&, std::size_t dimension);  ///< dimension is 0 to 3
    bool needs_data = false;                      ///< wrong where there is something to compute only
};

/// The options of a valid call, to be spoilt.
template <class E>
struct OptionsToSpoil {
    const Inputs<E>& inputs;
    const Outputs<E>& outputs;
    AttentionOptions<E> options;
    Tensor<std::int64_t, 1> too_long;

    OptionsToSpoil(const Inputs<E>& inputs_, const Outputs<E>& outputs_)
        : inputs(inputs_), outputs(outputs_), options(inputs.options()), too_long({inputs.problem.b})
    {
        outputs.give_to(options);
        fill(too_long, [&](auto) { return inputs.problem.n_kv + 1; });
    }

    std::array<std::int64_t, 4> pairs() const
    {
        const Problem& p = inputs.problem;
        return {p.b, p.h, p.n_q, p.n_kv};
    }
};

/// The ways to spoil any call's options.
template <class E>
std::vector<SpoilWay<OptionsToSpoil<E>>> ways_to_spoil_options()
{
    using O = OptionsToSpoil<E>&;
    using R = std::size_t;
    static constexpr double infinity = std::numeric_limits<double>::infinity();
    return {
        {"softcap negative", [](O o, R) { o.options.softcap = -1; }},
        {"softcap NaN", [](O o, R) { o.options.softcap = infinity - infinity; }},
        {"scale infinite", [](O o, R) { o.options.scale = -infinity; }},
        {"left window", [](O o, R) { o.options.left_window = -2; }},
        {"right window", [](O o, R) { o.options.right_window = std::numeric_limits<std::int64_t>::min(); }},
        {"score stage", [](O o, R) { o.options.score_stage = static_cast<headwise::ScoreStage>(4); }},
        {"both query_offset and query_offsets",
         [](O o, R) { o.options.query_offset = 1, o.options.query_offsets = o.inputs.query_offsets.input(); }},
        {"query_offsets of the wrong length",
         [](O o, R) { o.options.query_offsets = {o.inputs.query_offsets.input().data, {o.pairs()[0] + 1}}; }},
        {"kv_lengths too long", [](O o, R) { o.options.kv_lengths = o.too_long.input(); }, true},
        {"mask that does not broadcast",
         [](O o, R r) {
             std::array<std::int64_t, 4> shape{1, 1, 1, 1};
             shape[r] = o.pairs()[r] + 2;
             o.options.mask = headwise::TensorView<const bool, 4>(o.inputs.boolean_mask.input().data, shape);
         }},
        {"sinks of the wrong length",
         [](O o, R) { o.options.sinks = {o.inputs.sinks.input().data, {o.pairs()[1] + 1}}; }},
        {"alibi of the wrong length",
         [](O o, R) { o.options.alibi = {o.inputs.alibi.input().data, {o.pairs()[1] + 1}}; }},
        {"weights of the wrong shape",
         [](O o, R r) {
             o.options.weights = {o.outputs.weights.view().data, o.pairs()};
             ++o.options.weights.shape[r];
         }},
        {"scores of the wrong shape",
         [](O o, R r) {
             o.options.scores = {o.outputs.scores.view().data, o.pairs()};
             ++o.options.scores.shape[r];
         }},
        {"mean_weights of the wrong shape",
         [](O o, R r) {
             o.options.mean_weights = {o.outputs.mean_weights.view().data, {o.pairs()[0], o.pairs()[2], o.pairs()[3]}};
             ++o.options.mean_weights.shape[r % 3];
         }},
        {"log_sum_exp of the wrong shape",
         [](O o, R r) {
             o.options.log_sum_exp = {o.outputs.log_sum_exp.view().data, {o.pairs()[0], o.pairs()[1], o.pairs()[2]}};
             ++o.options.log_sum_exp.shape[r % 3];
         }},
    };
}

/// Makes one argument of `call` wrong, whatever the others are, in one of `ways` or of those for its options; tells
/// which it was.
template <class E, class Call>
const char* spoil(Call& call, const std::vector<SpoilWay<Call>>& ways, ByteSource& source)
{
    static const auto ways_of_options = ways_to_spoil_options<E>();
    const auto dimension = static_cast<std::size_t>(source.below(4));
    const auto count = static_cast<std::int64_t>(ways.size() + ways_of_options.size());
    const auto spoilt = [&](auto& part, const auto& way) -> const char* {
        if (way.needs_data && !call.has_data()) return nullptr;
        way.spoil(part, dimension);
        return way.what;
    };
    for (;;) {
        const auto i = static_cast<std::size_t>(source.below(count));
        const char* const what = i < ways.size()
                                     ? spoilt(call, ways[i])
                                     : spoilt(static_cast<OptionsToSpoil<E>&>(call), ways_of_options[i - ways.size()]);
        if (what != nullptr) return what;
    }
}

/// run() throws std::invalid_argument.
template <class Run>
bool is_refused(const Run& run)
{
    try {
        run();
        return false;
    } catch (const std::invalid_argument&) {
        return true;
    }
}

}  // namespace tensors
