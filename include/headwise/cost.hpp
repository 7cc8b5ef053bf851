// headwise: what multi-head attention costs, as arithmetic. A multiply-add counts as one.
#pragma once

#include <cstdint>

#include <headwise/work.hpp>

namespace headwise::cost {

/// The sizes of one layer call on one sequence.
struct Sizes {
    std::int64_t n = 0;        ///< query tokens
    std::int64_t n_kv = 0;     ///< key tokens
    std::int64_t d_model = 0;
    std::int64_t h = 0;        ///< query heads
    std::int64_t h_kv = 0;     ///< key/value heads
    std::int64_t d_k = 0;
    std::int64_t d_v = 0;
};

/// Self-attention over n tokens with d_k = d_v = d_model / h: the sizes for which nothing below but exponentials() and
/// weights_elements() depends on h.
/// Throws std::invalid_argument where h does not divide d_model or a size is negative (h, d_model: below 1).
Sizes square(std::int64_t n, std::int64_t d_model, std::int64_t h);

/// Parameters of each role, biases not counted.
struct Parameters {
    std::int64_t q = 0;  ///< h * d_model * d_k
    std::int64_t k = 0;  ///< h_kv * d_model * d_k
    std::int64_t v = 0;  ///< h_kv * d_model * d_v
    std::int64_t o = 0;  ///< h * d_v * d_model

    std::int64_t without_o() const noexcept { return q + k + v; }  ///< 3 d_model^2 when square
    std::int64_t total() const noexcept { return q + k + v + o; }  ///< 4 d_model^2 when square
};
Parameters parameters(const Sizes& s) noexcept;

/// Work of one call without causal, windows or masks:
/// projections n * h * d_model * d_k and so on, scoring h * n * n_kv * d_k, blending h * n * n_kv * d_v, exponentials
/// h * n * n_kv.
Work work(const Sizes& s) noexcept;

/// Number of (query, key) pairs that causal attention with `query_offset` leaves: sum over i of clamp(i + offset + 1,
/// 0, n_kv).
std::int64_t causal_pairs(std::int64_t n, std::int64_t n_kv, std::int64_t query_offset) noexcept;

/// Numbers in the weights, if asked for: h * n * n_kv.
std::int64_t weights_elements(const Sizes& s) noexcept;

/// Multiply-adds of scoring and blending for each exponential: d_k + d_v.
std::int64_t multiply_adds_per_exponential(const Sizes& s) noexcept;

/// The n at which scoring and blending cost as much as the three input projections and W_o do, square sizes:
/// 2 n^2 d_model = 4 n d_model^2 at n = 2 d_model.
std::int64_t balance_tokens(std::int64_t d_model) noexcept;

/// Floating-point operations of `work`, exponentials not counted: two for each multiply-add.
double flops(const Work& work) noexcept;

}  // namespace headwise::cost
