// Examples small enough to work out by hand, run on the naive reference.
#pragma once

#include "catch_compat.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headwise/reference.hpp>

namespace reference_example {

using headwise::AttentionOptions;
using headwise::TensorView;

/// Equal but for the rounding of a few double operations.
inline Catch::Approx near(double value)
{
    return Catch::Approx(value).epsilon(1e-13).margin(1e-14);
}

inline std::size_t count(const std::array<std::int64_t, 4>& shape)
{
    return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
}

/// d_k is 1 and every query is 1, so that with the scale 1 the scores of each row are the keys themselves. A key
/// log(m) then has the weight m / (sum of all m). d_v is 1.
struct Example {
    std::int64_t b = 1, h = 1, h_kv = 1, n_q = 1, n_kv = 1;
    std::vector<double> keys = {};    ///< (b, h_kv, n_kv)
    std::vector<double> values = {};  ///< (b, h_kv, n_kv)

    std::vector<double> output = {};       ///< (b, h, n_q)
    std::vector<double> weights = {};      ///< (b, h, n_q, n_kv)
    std::vector<double> log_sum_exp = {};  ///< (b, h, n_q)

    /// Without a scale among the options: 1.
    void run(AttentionOptions<double> options = {})
    {
        if (!options.scale) options.scale = 1;
        const std::array<std::int64_t, 4> q_shape{b, h, n_q, 1}, kv_shape{b, h_kv, n_kv, 1}, s_shape{b, h, n_q, n_kv};
        const std::vector<double> queries(count(q_shape), 1.0);
        output.assign(count(q_shape), -77);
        weights.assign(count(s_shape), -77);
        log_sum_exp.assign(count(q_shape), -77);
        options.weights = {weights.data(), s_shape};
        options.log_sum_exp = {log_sum_exp.data(), {b, h, n_q}};
        headwise::reference::attention(TensorView<const double, 4>(queries.data(), q_shape),
                                       TensorView<const double, 4>(keys.data(), kv_shape),
                                       TensorView<const double, 4>(values.data(), kv_shape),
                                       TensorView<double, 4>(output.data(), q_shape), options);
    }
};

/// Which keys take part, as text: a row for each query of each head of each item, '1' where the weight is not 0.
/// All keys score 0, so that each row's weights must be 1 / (number of its keys); a '?' stands where one is not.
inline std::string participation(Example example, const AttentionOptions<double>& options)
{
    example.keys.assign(static_cast<std::size_t>(example.b * example.h_kv * example.n_kv), 0.0);
    example.values = example.keys;
    example.run(options);
    std::string text;
    const auto n_kv = static_cast<std::size_t>(example.n_kv);
    for (std::size_t row = 0; row < example.output.size(); ++row) {
        std::size_t keys = 0;
        for (std::size_t j = 0; j < n_kv; ++j) keys += example.weights[row * n_kv + j] != 0;
        if (row > 0) text += ' ';
        for (std::size_t j = 0; j < n_kv; ++j) {
            const double weight = example.weights[row * n_kv + j];
            const bool uniform = weight == near(1.0 / static_cast<double>(keys));
            text += weight == 0 ? '0' : uniform ? '1' : '?';
        }
    }
    return text;
}

}  // namespace reference_example
