// headwise: attention with linear biases.
#pragma once

#include <cstdint>
#include <vector>

namespace headwise {

/// The slopes of ALiBi for `heads` heads, AttentionOptions::alibi's values, head 0 first. For a power of two h they are
/// 2^(-8 i / h), i = 1 .. h; for other numbers those of the next lower power of two p, followed by every second one of
/// those for 2 p.
///
/// Source: Press, Smith and Lewis, "Train Short, Test Long" (2022), section 3, and the authors' rule for other numbers.
/// Throws std::invalid_argument for heads below 1.
std::vector<float> alibi_slopes(std::int64_t heads);

}  // namespace headwise
