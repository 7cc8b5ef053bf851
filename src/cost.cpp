// The cost arithmetic of cost.hpp.
#include <headwise/cost.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace headwise::cost {
namespace {

void require(bool holds, const char* name, std::int64_t value, const std::string& expected)
{
    if (!holds)
        throw std::invalid_argument("square: " + std::string(name) + " is " + std::to_string(value) + ", expected " +
                                    expected);
}

}  // namespace

Sizes square(std::int64_t n, std::int64_t d_model, std::int64_t h)
{
    require(n >= 0, "n", n, "0 or more");
    require(d_model >= 1, "d_model", d_model, "1 or more");
    require(h >= 1, "h", h, "1 or more");
    require(d_model % h == 0, "h", h, "a divisor of d_model, which is " + std::to_string(d_model));
    const std::int64_t width = d_model / h;
    return {.n = n, .n_kv = n, .d_model = d_model, .h = h, .h_kv = h, .d_k = width, .d_v = width};
}

Parameters parameters(const Sizes& s) noexcept
{
    return {.q = s.h * s.d_model * s.d_k,
            .k = s.h_kv * s.d_model * s.d_k,
            .v = s.h_kv * s.d_model * s.d_v,
            .o = s.h * s.d_v * s.d_model};
}

Work work(const Sizes& s) noexcept
{
    const Parameters each_token = parameters(s);  // a token is multiplied by every parameter once
    const std::int64_t pairs = s.h * s.n * s.n_kv;
    return {.project_q = s.n * each_token.q,
            .project_k = s.n_kv * each_token.k,
            .project_v = s.n_kv * each_token.v,
            .score = pairs * s.d_k,
            .exponentials = pairs,
            .blend = pairs * s.d_v,
            .project_o = s.n * each_token.o};
}

std::int64_t causal_pairs(std::int64_t n, std::int64_t n_kv, std::int64_t query_offset) noexcept
{
    // Offsets beyond these see no key, or all keys, in every row; the sums below then cannot overflow.
    const std::int64_t offset = std::clamp(query_offset, -n, n_kv);
    // Query i sees i + offset + 1 keys in the rows first .. full - 1, none before, n_kv after.
    const std::int64_t first = std::max<std::int64_t>(0, -offset);
    const std::int64_t full = std::clamp(n_kv - 1 - offset, first, n);
    const std::int64_t ramp = ((first + offset + 1) + (full + offset)) * (full - first) / 2;
    return ramp + (n - full) * n_kv;
}

std::int64_t weights_elements(const Sizes& s) noexcept
{
    return s.h * s.n * s.n_kv;
}

std::int64_t multiply_adds_per_exponential(const Sizes& s) noexcept
{
    return s.d_k + s.d_v;
}

std::int64_t balance_tokens(std::int64_t d_model) noexcept
{
    return 2 * d_model;
}

double flops(const Work& work) noexcept
{
    const double multiply_adds = static_cast<double>(work.project_q) + static_cast<double>(work.project_k) +
                                 static_cast<double>(work.project_v) + static_cast<double>(work.score) +
                                 static_cast<double>(work.blend) + static_cast<double>(work.project_o);
    return 2 * multiply_adds;
}

}  // namespace headwise::cost
