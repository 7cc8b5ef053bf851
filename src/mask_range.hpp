// Rows of the mask argument, and boolean rows that do what bounds do.
#pragma once

#include <cstdint>
#include <optional>

#include <headwise/mask.hpp>

#include "key_range.hpp"

namespace headwise {

struct MaskPlace {
    std::int64_t item;
    std::int64_t head;
    std::int64_t query;
};

/// Where the row begins.
const char* mask_row(const Mask& mask, const MaskPlace& place) noexcept;

/// The keys that a row of a boolean mask leaves of n_kv, if they are one range, as where a batch is padded. Nothing for
/// other types, and for rows whose elements do not lie side by side.
std::optional<KeyRange> mask_range(const Mask& mask, const MaskPlace& place, std::int64_t n_kv) noexcept;

}  // namespace headwise
