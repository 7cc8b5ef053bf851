#include "mask_range.hpp"

#include <cstring>

#include "check.hpp"

namespace headwise {

namespace {

/// The first byte from `from` on that is not 0; `count` where there is none.
std::int64_t first_set(const char* bytes, std::int64_t from, std::int64_t count) noexcept
{
    std::uint64_t eight;
    for (; from + 8 <= count; from += 8) {
        std::memcpy(&eight, bytes + from, sizeof eight);
        if (eight != 0) break;
    }
    while (from < count && bytes[from] == 0) ++from;
    return from;
}

/// The first byte that is 0, likewise.
std::int64_t first_clear(const char* bytes, std::int64_t from, std::int64_t count) noexcept
{
    if (from == count) return count;
    const void* const found = std::memchr(bytes + from, 0, static_cast<std::size_t>(count - from));
    return found ? static_cast<const char*>(found) - bytes : count;
}

}  // namespace

const char* mask_row(const Mask& mask, const MaskPlace& place) noexcept
{
    const auto& shape = mask.shape();
    const auto& strides = mask.strides();
    const std::int64_t offset = (shape[0] == 1 ? 0 : place.item * strides[0]) +
                                (shape[1] == 1 ? 0 : place.head * strides[1]) +
                                (shape[2] == 1 ? 0 : place.query * strides[2]);
    return static_cast<const char*>(mask.data()) + offset * static_cast<std::int64_t>(bytes_of(mask.type()));
}

std::optional<KeyRange> mask_range(const Mask& mask, const MaskPlace& place, const KeyRange& within) noexcept
{
    const bool one_for_all = mask.shape()[3] == 1;
    if (mask.type() != ElementType::boolean || (!one_for_all && mask.strides()[3] != 1)) return std::nullopt;
    const char* const row = mask_row(mask, place);
    if (one_for_all) return *row ? within : KeyRange{within.first, within.first};
    const std::int64_t first = first_set(row, within.first, within.end);
    const std::int64_t end = first_clear(row, first, within.end);
    if (first_set(row, end, within.end) < within.end) return std::nullopt;
    return KeyRange{first, end};
}

bool mask_is_ranges(const Mask& mask, const QueryRange& range, std::int64_t all_heads) noexcept
{
    const auto& shape = mask.shape();
    const std::int64_t items = shape[0] == 1 ? 1 : range.item_count;
    const std::int64_t heads = shape[1] == 1 ? 1 : all_heads;
    const std::int64_t queries = shape[2] == 1 ? 1 : range.query_count;
    for (std::int64_t item = range.first_item; item < range.first_item + items; ++item)
        for (std::int64_t head = 0; head < heads; ++head)
            for (std::int64_t query = range.first_query; query < range.first_query + queries; ++query)
                if (!mask_range(mask, {item, head, query}, {0, shape[3]})) return false;
    return true;
}

}  // namespace headwise
