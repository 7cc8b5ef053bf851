// A call of attention() with one bad argument, which must be refused before anything is written.
#pragma once

#include "attention_problem.hpp"
#include "byte_source.hpp"

#include <stdexcept>

namespace tensors {

/// The arguments of a valid call, to be spoilt.
template <class E>
struct Call {
    const Inputs<E>& inputs;
    Outputs<E> outputs;
    headwise::TensorView<const E, 4> Q, K, V;
    headwise::TensorView<E, 4> Y;
    AttentionOptions<E> options;
    Tensor<std::int64_t, 1> too_long;

    explicit Call(const Inputs<E>& given)
        : inputs(given),
          outputs(given.problem),
          Q(given.Q.input()),
          K(given.K.input()),
          V(given.V.input()),
          Y(outputs.Y.view()),
          options(given.options()),
          too_long({given.problem.b})
    {
        outputs.give_to(options);
        fill(too_long, [&](auto) { return given.problem.n_kv + 1; });
    }

    /// Throws std::invalid_argument and writes nothing.
    bool is_refused() const
    {
        try {
            headwise::attention(Q, K, V, Y, options);
            return false;
        } catch (const std::invalid_argument&) {
            return outputs.Y.untouched() && outputs.weights.untouched() && outputs.scores.untouched() &&
                   outputs.mean_weights.untouched() && outputs.log_sum_exp.untouched();
        }
    }
};

/// Makes one argument wrong, whatever the others are, and tells which.
template <class E>
const char* spoil(Call<E>& call, ByteSource& source)
{
    struct Way {
        const char* what;
        void (*spoil)(Call<E>&, std::size_t dimension);
    };
    using C = Call<E>&;
    using R = std::size_t;
    constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
    static constexpr double infinity = std::numeric_limits<double>::infinity();
    static constexpr Way ways[] = {
        {"Q of negative extent", [](C c, R r) { c.Q.shape[r] = -1; }},
        {"K of negative extent", [](C c, R r) { c.K.shape[r] = lowest; }},
        {"V of more heads or items", [](C c, R r) { ++c.V.shape[r % 3]; }},
        {"Y longer", [](C c, R r) { ++c.Y.shape[r]; }},
        {"Q without heads", [](C c, R) { c.Q.shape[1] = c.Y.shape[1] = 0; }},
        {"K and V of more heads than Q", [](C c, R) { c.K.shape[1] = c.V.shape[1] = c.Q.shape[1] + 1; }},
        {"softcap negative", [](C c, R) { c.options.softcap = -1; }},
        {"softcap NaN", [](C c, R) { c.options.softcap = infinity - infinity; }},
        {"scale infinite", [](C c, R) { c.options.scale = -infinity; }},
        {"left window", [](C c, R) { c.options.left_window = -2; }},
        {"right window", [](C c, R) { c.options.right_window = lowest; }},
        {"score stage", [](C c, R) { c.options.score_stage = static_cast<headwise::ScoreStage>(4); }},
        {"mask that does not broadcast",
         [](C c, R r) {
             std::array<std::int64_t, 4> shape{1, 1, 1, 1};
             shape[r] = std::array{c.Q.shape[0], c.Q.shape[1], c.Q.shape[2], c.K.shape[2]}[r] + 2;
             c.options.mask = headwise::TensorView<const bool, 4>(nullptr, shape);
         }},
        {"sinks of the wrong length",
         [](C c, R) { c.options.sinks = {c.inputs.sinks.view().data, {c.Q.shape[1] + 1}}; }},
        {"log_sum_exp of the wrong shape",
         [](C c, R r) {
             c.options.log_sum_exp = {nullptr, {c.Q.shape[0], c.Q.shape[1], c.Q.shape[2]}};
             ++c.options.log_sum_exp.shape[r % 3];
         }},
    };
    // These are wrong where there is something to compute only.
    static constexpr Way ways_with_data[] = {
        {"Q null", [](C c, R) { c.Q.data = nullptr; }},
        {"Y null", [](C c, R) { c.Y.data = nullptr; }},
        {"Q of lowest stride", [](C c, R r) { c.Q.strides[r] = lowest; }},
        {"Y on Q", [](C c, R) { c.Y.data = const_cast<E*>(c.Q.data); }},
        {"weights on Y",
         [](C c, R) { c.options.weights = {c.Y.data, {c.Q.shape[0], c.Q.shape[1], c.Q.shape[2], c.K.shape[2]}}; }},
        {"kv_lengths too long", [](C c, R) { c.options.kv_lengths = c.too_long.input(); }},
    };
    const bool with_data = source.chance(0.3) && call.Y.size() > 0 && call.K.size() > 0;
    const auto dimension = static_cast<std::size_t>(source.below(4));
    const std::int64_t count = with_data ? std::size(ways_with_data) : std::size(ways);
    const Way& way = (with_data ? ways_with_data : ways)[source.below(count)];
    way.spoil(call, dimension);
    return way.what;
}

}  // namespace tensors
