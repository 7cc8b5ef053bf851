// A call of attention() as a description: its tensors and options are made from it, run on the kernels and on the
// reference, and compared.
#pragma once

#include "tensors.hpp"

#include <optional>
#include <sstream>
#include <string>

#include <headwise/attention.hpp>
#include <headwise/reference.hpp>

namespace tensors {

using headwise::AttentionOptions;
using headwise::compute_t;

enum class MaskKind { none, boolean, float32, element };

/// What to call. Optional inputs and outputs are given where their field is set.
struct Problem {
    std::int64_t b = 1, h = 1, h_kv = 1, n_q = 1, n_kv = 1, d_k = 1, d_v = 1;
    Layout q_layout = Layout::dense, k_layout = Layout::dense, v_layout = Layout::dense, y_layout = Layout::dense;

    std::optional<double> scale{};
    double softcap = 0;
    bool causal = false;
    std::int64_t query_offset = 0;
    bool query_offsets = false;
    bool kv_lengths = false;
    std::int64_t left_window = -1, right_window = -1;
    MaskKind mask = MaskKind::none;
    std::array<std::int64_t, 4> mask_shape{1, 1, 1, 1};
    Layout mask_layout = Layout::dense;
    bool mask_is_ranges = false;  ///< each row of a boolean mask leaves one range of keys
    bool sinks = false, alibi = false;
    double alibi_slope = 0.02;  ///< of head 0; each later head has half of it

    bool weights = false, mean_weights = false, scores = false, log_sum_exp = false;
    headwise::ScoreStage score_stage = headwise::ScoreStage::scaled;
    Layout output_layout = Layout::dense;
    std::uint64_t seed = 1;

    std::string text() const
    {
        std::ostringstream s;
        s << "b " << b << ", h " << h << ", h_kv " << h_kv << ", n_q " << n_q << ", n_kv " << n_kv << ", d_k " << d_k
          << ", d_v " << d_v << ", layouts " << static_cast<int>(q_layout) << static_cast<int>(k_layout)
          << static_cast<int>(v_layout) << static_cast<int>(y_layout) << ", output layout "
          << static_cast<int>(output_layout);
        if (scale) s << ", scale " << *scale;
        if (softcap != 0) s << ", softcap " << softcap;
        if (causal) s << ", causal";
        if (query_offset != 0) s << ", query_offset " << query_offset;
        if (query_offsets) s << ", query_offsets";
        if (kv_lengths) s << ", kv_lengths";
        if (left_window >= 0) s << ", left_window " << left_window;
        if (right_window >= 0) s << ", right_window " << right_window;
        if (mask != MaskKind::none)
            s << ", mask kind " << static_cast<int>(mask) << " (" << mask_shape[0] << ", " << mask_shape[1] << ", "
              << mask_shape[2] << ", " << mask_shape[3] << ") layout " << static_cast<int>(mask_layout)
              << (mask_is_ranges ? ", ranges" : "");
        s << (sinks ? ", sinks" : "") << (alibi ? ", alibi" : "") << (weights ? ", weights" : "")
          << (mean_weights ? ", mean_weights" : "") << (log_sum_exp ? ", log_sum_exp" : "");
        if (scores) s << ", scores at stage " << static_cast<int>(score_stage);
        s << ", seed " << seed;
        return s.str();
    }
};

/// The tensors that a problem reads, in element type E.
template <class E>
struct Inputs {
    using T = compute_t<E>;

    Problem problem;
    Tensor<E, 4> Q, K, V;
    Tensor<std::int64_t, 1> query_offsets, kv_lengths;
    Tensor<T, 1> sinks, alibi;
    Tensor<bool, 4> boolean_mask;
    Tensor<float, 4> float_mask;
    Tensor<E, 4> element_mask;

    explicit Inputs(const Problem& p)
        : problem(p),
          Q({p.b, p.h, p.n_q, p.d_k}, p.q_layout),
          K({p.b, p.h_kv, p.n_kv, p.d_k}, p.k_layout),
          V({p.b, p.h_kv, p.n_kv, p.d_v}, p.v_layout),
          query_offsets({p.b}, Layout::spread),
          kv_lengths({p.b}),
          sinks({p.h}),
          alibi({p.h}, Layout::spread),
          boolean_mask(shape_of_mask(p, MaskKind::boolean), p.mask_layout),
          float_mask(shape_of_mask(p, MaskKind::float32), p.mask_layout),
          element_mask(shape_of_mask(p, MaskKind::element), p.mask_layout)
    {
        Random random(p.seed);
        randomize(Q, random);
        randomize(K, random);
        randomize(V, random);
        fill(query_offsets, [&](auto) { return p.n_kv - p.n_q + random.below(7) - 3; });
        fill(kv_lengths, [&](auto) { return random.chance(0.1) ? 0 : random.below(p.n_kv + 1); });
        fill(sinks, [&](auto) { return static_cast<T>(random.normal()); });
        fill(alibi, [&](auto i) { return static_cast<T>(p.alibi_slope * std::exp2(-static_cast<double>(i[0]))); });
        make_mask(random);
    }

    /// The same numbers, dense, in the type that E is computed in.
    template <class Narrow>
        requires(!std::is_same_v<Narrow, E>)
    explicit Inputs(const Inputs<Narrow>& from) : Inputs(dense(from.problem))
    {
        const auto widen = [](const auto& to, const auto& source) {
            fill(to, [&](const auto& index) { return element<E>(number(at(source.input(), index))); });
        };
        widen(Q, from.Q);
        widen(K, from.K);
        widen(V, from.V);
        widen(element_mask, from.element_mask);
        fill(float_mask, [&](const auto& index) { return at(from.float_mask.input(), index); });
        fill(boolean_mask, [&](const auto& index) { return at(from.boolean_mask.input(), index); });
    }

    AttentionOptions<E> options() const
    {
        const Problem& p = problem;
        AttentionOptions<E> o;
        o.scale = p.scale;
        o.softcap = p.softcap;
        o.causal = p.causal;
        o.query_offset = p.query_offset;
        if (p.query_offsets) o.query_offsets = query_offsets.input();
        o.left_window = p.left_window;
        o.right_window = p.right_window;
        if (p.kv_lengths) o.kv_lengths = kv_lengths.input();
        if (p.mask == MaskKind::boolean) o.mask = boolean_mask.input();
        if (p.mask == MaskKind::float32) o.mask = float_mask.input();
        if (p.mask == MaskKind::element) o.mask = element_mask.input();
        if (p.sinks) o.sinks = sinks.input();
        if (p.alibi) o.alibi = alibi.input();
        return o;
    }

private:
    static std::array<std::int64_t, 4> shape_of_mask(const Problem& p, MaskKind kind)
    {
        return p.mask == kind ? p.mask_shape : std::array<std::int64_t, 4>{1, 1, 1, 1};
    }

    static Problem dense(Problem p)
    {
        p.q_layout = p.k_layout = p.v_layout = p.mask_layout = Layout::dense;
        return p;
    }

    /// Open, mixed and closed regions of some rows by some keys, so that whole tiles of each kind occur.
    void make_mask(Random& random)
    {
        const std::uint64_t salt = random.bits();
        const auto excluded = [&](const std::array<std::int64_t, 4>& index) {
            const auto region = static_cast<std::uint64_t>(index[1] * 1009 + index[2] / 24 * 31 + index[3] / 96);
            const auto kind = Random(salt + region).below(3);
            return kind == 0 ? false : kind == 1 ? true : random.chance(0.4);
        };
        constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
        const auto in_range = [&](const std::array<std::int64_t, 4>& index) {
            const std::int64_t keys = problem.mask_shape[3];
            Random of_row(salt + static_cast<std::uint64_t>(index[0] * 10007 + index[1] * 1009 + index[2] * 31));
            const std::int64_t first = of_row.chance(0.5) ? 0 : of_row.below(keys + 1);
            const std::int64_t end = of_row.chance(0.3) ? keys : of_row.below(keys + 1);
            return first <= index[3] && index[3] < end;
        };
        fill(boolean_mask,
             [&](const auto& index) { return problem.mask_is_ranges ? in_range(index) : !excluded(index); });
        fill(float_mask,
             [&](const auto& index) { return element<float>(excluded(index) ? minus_infinity : random.normal()); });
        fill(element_mask,
             [&](const auto& index) { return element<E>(excluded(index) ? minus_infinity : random.normal()); });
    }
};

/// The tensors that a problem writes.
template <class E>
struct Outputs {
    Problem problem;
    Tensor<E, 4> Y, weights, scores;
    Tensor<E, 3> mean_weights;
    Tensor<compute_t<E>, 3> log_sum_exp;

    explicit Outputs(const Problem& p)
        : problem(p),
          Y({p.b, p.h, p.n_q, p.d_v}, p.y_layout, End::canaries),
          weights(pairs(p, p.weights), p.output_layout, End::canaries),
          scores(pairs(p, p.scores), p.output_layout, End::canaries),
          mean_weights(p.mean_weights ? std::array{p.b, p.n_q, p.n_kv} : std::array<std::int64_t, 3>{0, 0, 0},
                       p.output_layout, End::canaries),
          log_sum_exp(p.log_sum_exp ? std::array{p.b, p.h, p.n_q} : std::array<std::int64_t, 3>{0, 0, 0},
                      p.output_layout, End::canaries)
    {
    }

    void give_to(AttentionOptions<E>& options) const
    {
        if (problem.weights) options.weights = weights.view();
        if (problem.scores) options.scores = scores.view();
        options.score_stage = problem.score_stage;
        if (problem.mean_weights) options.mean_weights = mean_weights.view();
        if (problem.log_sum_exp) options.log_sum_exp = log_sum_exp.view();
    }

    bool intact_around() const
    {
        return Y.intact_around() && weights.intact_around() && scores.intact_around() && mean_weights.intact_around() &&
               log_sum_exp.intact_around();
    }

    /// Nothing was written at all.
    bool untouched() const
    {
        return Y.untouched() && weights.untouched() && scores.untouched() && mean_weights.untouched() &&
               log_sum_exp.untouched();
    }

    bool same_bits_as(const Outputs& other) const
    {
        return same_bits(Y.view(), other.Y.view()) && same_bits(weights.view(), other.weights.view()) &&
               same_bits(scores.view(), other.scores.view()) &&
               same_bits(mean_weights.view(), other.mean_weights.view()) &&
               same_bits(log_sum_exp.view(), other.log_sum_exp.view());
    }

private:
    static std::array<std::int64_t, 4> pairs(const Problem& p, bool given)
    {
        return given ? std::array{p.b, p.h, p.n_q, p.n_kv} : std::array<std::int64_t, 4>{0, 0, 0, 0};
    }
};

template <class E>
Outputs<E> run_kernels(const Inputs<E>& inputs, headwise::WorkReport* work = nullptr)
{
    const Outputs<E> outputs(inputs.problem);
    auto options = inputs.options();
    outputs.give_to(options);
    options.work = work;
    headwise::attention(inputs.Q.view(), inputs.K.view(), inputs.V.view(), outputs.Y.view(), options);
    return outputs;
}

template <class Number, class E>
Outputs<E> run_reference(const Inputs<E>& inputs)
{
    const Outputs<E> outputs(inputs.problem);
    auto options = inputs.options();
    outputs.give_to(options);
    headwise::reference::attention<E, Number>(inputs.Q.view(), inputs.K.view(), inputs.V.view(), outputs.Y.view(),
                                              options);
    return outputs;
}

/// The oracle of a call: naive<Number>(inputs) with wider numbers than E is computed in, results rounded to the type
/// that E is computed in.
template <class E, class Naive>
Outputs<compute_t<E>> oracle(const Inputs<E>& inputs, const Naive& naive)
{
    using T = compute_t<E>;
    using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;
    if constexpr (std::is_same_v<E, T>) return naive.template operator()<Wide>(inputs);
    else return naive.template operator()<Wide>(Inputs<T>(inputs));
}

template <class E>
Outputs<compute_t<E>> run_oracle(const Inputs<E>& inputs)
{
    return oracle(inputs, []<class Number>(const auto& wide) { return run_reference<Number>(wide); });
}

// Compiled once, in attention_problem.cpp.
#define HEADWISE_FOR_EACH_ELEMENT_TYPE(DO) DO(float) DO(double) DO(headwise::bfloat16) DO(headwise::float16)
#define HEADWISE_EXTERN_PROBLEM(E)                                                   \
    extern template struct Inputs<E>;                                                \
    extern template struct Outputs<E>;                                               \
    extern template Outputs<E> run_kernels(const Inputs<E>&, headwise::WorkReport*); \
    extern template Outputs<E> run_reference<compute_t<E>>(const Inputs<E>&);        \
    extern template Outputs<compute_t<E>> run_oracle(const Inputs<E>&);
HEADWISE_FOR_EACH_ELEMENT_TYPE(HEADWISE_EXTERN_PROBLEM)
#undef HEADWISE_EXTERN_PROBLEM

}  // namespace tensors
