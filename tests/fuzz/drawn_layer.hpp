// A layer and a forward drawn from bytes.
#pragma once

#include "drawn_call.hpp"
#include "layer_problem.hpp"

#include <variant>

namespace tensors {

/// The matrices that weights come in.
enum class WeightsForm { per_head, linear, packed };

struct BiasesGiven {
    bool q = true, k = true, v = true, o = true;
};

struct DrawnLayer {
    LayerProblem problem;
    Problem options_of;
    WeightsForm form = WeightsForm::per_head;
    BiasesGiven biases;
    Layout weights_layout = Layout::dense, form_layout = Layout::dense;

    std::string text() const
    {
        const LayerShape s = headwise::resolved(problem.shape);
        std::ostringstream out;
        out << "d_model " << s.d_model << ", d_model_kv " << s.d_model_kv << ", d_k " << s.d_k << ", d_v " << s.d_v
            << (problem.n_kv ? ", cross" : ", self") << "-attention, weights' form " << static_cast<int>(form)
            << ", layouts of the weights " << static_cast<int>(weights_layout) << static_cast<int>(form_layout)
            << ", biases " << biases.q << biases.k << biases.v << biases.o << ", layouts of the tokens "
            << static_cast<int>(problem.x_layout) << static_cast<int>(problem.x_kv_layout)
            << static_cast<int>(problem.y_layout) << "; options of an attention() with " << options_of.text();
        return out.str();
    }
};

/// Multiply-adds of a forward.
inline std::int64_t multiply_adds(const LayerShape& s, const Problem& p)
{
    const std::int64_t widths = s.d_k + s.d_v;
    return p.b * (p.n_q * s.d_model * s.heads * widths + p.n_kv * s.d_model_kv * s.kv_heads * widths +
                  s.heads * p.n_q * p.n_kv * widths);
}

/// Halves the largest of the sizes until the forward is a small one. Keys that draw_problem() made many stay many.
inline void shrink(LayerShape& s, Problem& p, bool self)
{
    const bool keeps_keys = !self && p.b == 1 && p.n_kv >= 1000;
    while (multiply_adds(s, p) > 300'000) {
        std::int64_t* largest = &p.n_q;
        for (std::int64_t* size : {&p.n_kv, &s.d_model, &s.d_model_kv, &s.d_k, &s.d_v})
            if (*size > *largest && !(keeps_keys && size == &p.n_kv)) largest = size;
        *largest = (*largest + 1) / 2;
        if (self) p.n_kv = p.n_q, s.d_model_kv = s.d_model;
    }
}

/// So many tokens that a forward does not hold the queries of all of them at a time.
inline void make_long(LayerShape& s, Problem& p, ByteSource& source)
{
    constexpr std::int64_t bytes = std::int64_t{9} << 20;  // more than the layer's chunk_bytes
    s.d_model = 1;
    s.d_k = 60 + source.below(40);
    s.d_v = 60 + source.below(40);
    p.b = 1 + source.below(20);
    p.n_q = 1 + bytes / (p.b * s.heads * (s.d_k + s.d_v) * static_cast<std::int64_t>(sizeof(float)));
    p.n_kv = source.below(3);
}

/// Sizes of a layer for the heads of `p`, and the tokens in `p` fitted to them.
inline LayerShape draw_shape(Problem& p, bool self, ByteSource& source)
{
    LayerShape s{.d_model = 1 + source.below(70), .heads = p.h, .kv_heads = p.h_kv, .d_k = p.d_k, .d_v = p.d_v};
    const bool one_width = self || source.chance(0.5);
    s.d_model_kv = one_width ? s.d_model : 1 + source.below(70);
    if (self) p.n_q = p.n_kv;
    if (!self && source.chance(0.002)) {
        make_long(s, p, source);
        return s;
    }
    shrink(s, p, self);
    if (source.chance(0.3)) {  // as most layers are
        s.d_k = s.d_v = (s.d_model + s.heads - 1) / s.heads;
        s.d_model = s.d_k * s.heads;
        if (one_width) s.d_model_kv = s.d_model;
    }
    return s;
}

/// `s` with some of the sizes left out that have defaults.
inline LayerShape with_defaults(LayerShape s, ByteSource& source)
{
    if (s.d_model_kv == s.d_model && source.chance(0.5)) s.d_model_kv = 0;
    if (s.heads == s.kv_heads && source.chance(0.5)) s.kv_heads = 0;
    if (s.d_v == s.d_k && source.chance(0.5)) s.d_v = 0;
    if (s.d_k * s.heads == s.d_model && source.chance(0.5)) s.d_k = 0;
    return s;
}

inline DrawnLayer draw_layer(ByteSource& source)
{
    DrawnLayer d;
    Problem& p = d.options_of = draw_problem(source);
    const bool self = source.chance(0.5);
    const LayerShape s = draw_shape(p, self, source);
    fit_mask(p);
    p.d_k = p.d_v = 1;  // of the operator's tensors, which the layer makes by itself

    d.problem = {.shape = with_defaults(s, source), .b = p.b, .n = p.n_q};
    if (!self) d.problem.n_kv = p.n_kv;
    d.problem.x_layout = p.q_layout;
    d.problem.x_kv_layout = p.k_layout;
    d.problem.y_layout = p.y_layout;
    d.weights_layout = p.v_layout;
    d.form_layout = layouts[static_cast<std::size_t>(source.below(layouts.size()))];
    d.form = static_cast<WeightsForm>(source.below(s.d_model_kv == s.d_model ? 3 : 2));
    for (bool* given : {&d.biases.q, &d.biases.k, &d.biases.v, &d.biases.o}) *given = source.chance(0.7);
    if (d.form == WeightsForm::packed) d.biases.k = d.biases.v = d.biases.q;
    return d;
}

/// `weights` without the biases that are not given.
template <class Weights>
Weights with_biases(Weights weights, const BiasesGiven& given)
{
    if constexpr (requires { weights.b_qkv; }) {
        if (!given.q) weights.b_qkv = {};
    } else {
        if (!given.q) weights.b_q = {};
        if (!given.k) weights.b_k = {};
        if (!given.v) weights.b_v = {};
    }
    if (!given.o) weights.b_o = {};
    return weights;
}

/// The tensors of a drawn forward, and its weights in their form.
template <class T>
class LayerTensors {
public:
    using AnyWeights =
        std::variant<headwise::LayerWeights<T>, headwise::LinearWeights<T>, headwise::PackedLinearWeights<T>>;

    LayerTensors(const DrawnLayer& d, ByteSource& source, bool special)
        : drawn(d),
          inputs(d.problem, d.options_of),
          random_(d.problem.shape, true, d.weights_layout, d.options_of.seed),
          stacked_(special ? sprinkled(source) : random_, d.form_layout)
    {
    }

    const DrawnLayer drawn;
    const LayerInputs<T> inputs;

    /// As the reference takes them, whatever the form.
    headwise::LayerWeights<T> weights() const { return with_biases(random_.weights(), drawn.biases); }

    AnyWeights weights_in_form() const
    {
        switch (drawn.form) {
            case WeightsForm::linear: return with_biases(stacked_.linear(), drawn.biases);
            case WeightsForm::packed: return with_biases(stacked_.packed(), drawn.biases);
            default: return weights();
        }
    }

    /// What the values are made of is finite.
    bool finite_values() const
    {
        return finite(inputs.X_kv) && finite(random_.W_v) && finite(random_.b_v) && finite(random_.W_o) &&
               finite(random_.b_o);
    }

private:
    /// Numbers of special kinds are put into all that is read.
    const RandomLayer<T>& sprinkled(ByteSource& source) const
    {
        for (const auto& tensor : {inputs.X, inputs.X_kv, random_.W_q, random_.W_k, random_.W_v})
            sprinkle(tensor, source);
        for (const auto& tensor : {random_.W_o, random_.b_q, random_.b_k, random_.b_v}) sprinkle(tensor, source);
        sprinkle(random_.b_o, source);
        sprinkle(inputs.optional_inputs.float_mask, source);
        sprinkle(inputs.optional_inputs.element_mask, source);
        return random_;
    }

    RandomLayer<T> random_;
    StackedWeights<T> stacked_;
};

}  // namespace tensors
