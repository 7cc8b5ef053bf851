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

/// The part of `range` that is in `chunk`.
inline KeyRange within(const KeyRange& chunk, const KeyRange& range) noexcept
{
    return {std::clamp(range.first, chunk.first, chunk.end), std::clamp(range.end, chunk.first, chunk.end)};
}

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

/// The keys that causal, windows, lengths and a short mask leave to a query, `keys` being what the last two leave to its
/// batch item.
class KeyBounds {
public:
    template <class E>
    KeyBounds(const AttentionOptions<E>& options, std::int64_t keys) noexcept
        : keys_(keys),
          before_(options.left_window),
          after_(options.causal ? 0 : options.right_window)
    {
    }

    /// Whether all queries see the same keys.
    bool alike() const noexcept { return before_ < 0 && after_ < 0; }

    KeyRange at(std::int64_t position) const noexcept
    {
        const std::int64_t first = before_ < 0 ? 0 : std::max<std::int64_t>(saturating_add(position, -before_), 0);
        const std::int64_t end =
            after_ < 0 ? keys_ : std::min(keys_, saturating_add(saturating_add(position, after_), 1));
        return first < end ? KeyRange{first, end} : KeyRange{0, 0};
    }

private:
    std::int64_t keys_;
    std::int64_t before_;  ///< keys before its position that a query sees at most; negative: all
    std::int64_t after_;   ///< likewise after its position
};

}  // namespace headwise
