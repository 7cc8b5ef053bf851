// Which keys a query sees by its position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <headwise/attention.hpp>

namespace headwise {

struct KeyRange {
    std::int64_t first;
    std::int64_t end;  ///< first where empty
};

inline constexpr KeyRange every_key{0, std::numeric_limits<std::int64_t>::max()};

/// a + b, at the end of the range where that does not fit.
inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept
{
    std::int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return a < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

/// Position of query 0 of a batch item among its keys.
template <class E>
std::int64_t first_position(const AttentionOptions<E>& options, std::int64_t item) noexcept
{
    return options.query_offsets.given() ? options.query_offsets(item) : options.query_offset;
}

/// The keys that causal, windows, lengths and a short mask leave to the query at `position`, `keys` being what the
/// last two leave to its batch item.
template <class E>
KeyRange visible_keys(const AttentionOptions<E>& options, std::int64_t position, std::int64_t keys) noexcept
{
    std::int64_t first = 0;
    std::int64_t end = keys;
    if (options.causal) end = std::min(end, saturating_add(position, 1));
    if (options.right_window >= 0)
        end = std::min(end, saturating_add(saturating_add(position, options.right_window), 1));
    if (options.left_window >= 0) first = std::max(first, saturating_add(position, -options.left_window));
    if (first >= end) return {0, 0};
    return {first, end};
}

}  // namespace headwise
