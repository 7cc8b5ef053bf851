// Rows of the mask argument, and boolean rows that do what bounds do.
#pragma once

#include <cstdint>
#include <optional>

#include <headwise/mask.hpp>

#include "attend_cut.hpp"
#include "key_range.hpp"

namespace headwise {

struct MaskPlace {
    std::int64_t item;
    std::int64_t head;
    std::int64_t query;
};

/// Where the row begins.
const char* mask_row(const Mask& mask, const MaskPlace& place) noexcept;

/// The keys that a row of a boolean mask leaves of those `within`, if they are one range, as where a batch is padded.
/// Nothing for other types, and for rows whose elements do not lie side by side.
std::optional<KeyRange> mask_range(const Mask& mask, const MaskPlace& place, const KeyRange& within) noexcept;

/// Whether every row that queries of `range` have leaves one range.
bool mask_is_ranges(const Mask& mask, const QueryRange& range, std::int64_t all_heads) noexcept;

}  // namespace headwise
