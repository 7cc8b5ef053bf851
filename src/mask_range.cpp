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

std::optional<KeyRange> mask_range(const Mask& mask, const MaskPlace& place, std::int64_t n_kv) noexcept
{
    const std::int64_t keys = mask.shape()[3];
    if (mask.type() != ElementType::boolean || (keys != 1 && mask.strides()[3] != 1)) return std::nullopt;
    const char* const row = mask_row(mask, place);
    if (keys == 1) return KeyRange{0, *row ? n_kv : 0};
    const std::int64_t first = first_set(row, 0, keys);
    const std::int64_t end = first_clear(row, first, keys);
    if (first_set(row, end, keys) < keys) return std::nullopt;
    return KeyRange{first, end};
}

}  // namespace headwise
