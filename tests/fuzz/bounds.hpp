// How far the kernels may be from the reference in any one call.
#pragma once

#include "attention_problem.hpp"

#include <cmath>

namespace tensors {

/// Bounds on rounding errors, from the sizes of the numbers. They are wider than the tests' earned tolerances, which
/// hold on the average of many calls and not for the unluckiest of millions: what is looked for here are wrong numbers.
struct Bounds {
    double score;
    double weight;
    double Y;
};

/// The largest numbers that a call's results are made of, with all signs taken as positive and what is not finite left
/// out; how many roundings they come with; and how large the smallest normal number can have become in them: below it,
/// roundings are as large as they are there.
struct Magnitudes {
    double product;  ///< |scale| times the sum over k of |q_k k_k|
    double product_roundings;
    double product_gain;
    double value;  ///< what a row of weights 1 could make of V
    double value_roundings;
    double value_gain;
};

/// A sum of n terms is off by some sqrt(n) roundings of its largest partial sum; its terms are rounded too. Terms that
/// are `alike`, as of a tensor whose elements are one number, are all rounded the same way: then it is n.
inline double roundings_of_sum(std::int64_t n, bool alike = false)
{
    const double terms = static_cast<double>(n);
    return 8 + (alike ? terms : 2 * std::sqrt(terms));
}

inline double scale_magnitude(const Problem& p, std::int64_t d_k)
{
    return std::abs(p.scale.value_or(1 / std::sqrt(static_cast<double>(d_k))));
}

/// What the smallest normal number in q or k, which are at most `largest`, can make of a product.
inline double product_gain(const Problem& p, std::int64_t d_k, double largest)
{
    return (1 + scale_magnitude(p, d_k)) * (1 + static_cast<double>(d_k) * largest);
}

/// Of attention().
template <class E>
Magnitudes magnitudes(const Inputs<E>& inputs)
{
    const Problem& p = inputs.problem;
    double largest = 0;
    for_each_index(std::array{p.b, p.h, p.n_q, p.n_kv}, [&](const auto& i) {
        const std::int64_t kv_head = i[1] / (p.h / p.h_kv);
        double sum = 0;
        for (std::int64_t k = 0; k < p.d_k; ++k) {
            const double product =
                number(inputs.Q.view()(i[0], i[1], i[2], k)) * number(inputs.K.view()(i[0], kv_head, i[3], k));
            if (std::isfinite(product)) sum += std::abs(product);
        }
        largest = std::max(largest, sum);
    });
    const double q_or_k = std::max(max_magnitude(inputs.Q.view()), max_magnitude(inputs.K.view()));
    return {
        .product = scale_magnitude(p, p.d_k) * largest,
        .product_roundings = roundings_of_sum(p.d_k, p.q_layout == Layout::repeated || p.k_layout == Layout::repeated),
        .product_gain = product_gain(p, p.d_k, q_or_k),
        .value = max_magnitude(inputs.V.view()),
        .value_roundings = 0,
        .value_gain = 1};
}

/// `inputs` has the options.
template <class E>
Bounds bounds(const Inputs<E>& inputs, const Magnitudes& largest)
{
    const Problem& p = inputs.problem;
    using Computed = std::numeric_limits<compute_t<E>>;
    const double rounding = number(Computed::epsilon());
    const double result_rounding = std::is_same_v<E, headwise::bfloat16>  ? 0x1p-8
                                   : std::is_same_v<E, headwise::float16> ? 0x1p-11
                                                                          : rounding;
    const double smallest_result = std::is_same_v<E, headwise::float16> ? 0x1p-14 : number(Computed::min());
    const double product = std::max(largest.product, number(Computed::min()) * largest.product_gain);
    const double value = std::max(largest.value, number(Computed::min()) * largest.value_gain);
    const double addends =
        max_magnitude(inputs.float_mask.view()) + max_magnitude(inputs.element_mask.view()) +
        (p.alibi ? p.alibi_slope * static_cast<double>(p.n_q + p.n_kv + std::abs(p.query_offset)) : 0);
    Bounds b;
    b.score = rounding * (largest.product_roundings * product + 8 * (p.softcap + addends));
    const bool alike = p.k_layout == Layout::repeated || p.v_layout == Layout::repeated;
    b.weight = 2 * b.score + rounding * roundings_of_sum(p.n_kv, alike) + result_rounding;
    b.Y = value * (b.weight + rounding * largest.value_roundings) + result_rounding * std::max(value, smallest_result);
    // An infinite product is the soft cap.
    b.score += result_rounding * std::max(product + p.softcap + addends, smallest_result);
    return b;
}

}  // namespace tensors
