#include "check.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace headwise {

namespace {

bool empty(const AnyView& view)
{
    return std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t extent) { return extent == 0; });
}

/// Byte addresses [low, high) that a view touches.
struct Range {
    std::int64_t low;
    std::int64_t high;
};

/// Nothing where an offset does not fit 64 bits.
std::optional<Range> byte_range(const AnyView& view)
{
    Range range{0, 0};
    for (std::size_t r = 0; r < view.shape.size(); ++r) {
        std::int64_t reach = 0;
        std::int64_t& side = view.strides[r] < 0 ? range.low : range.high;
        if (__builtin_mul_overflow(view.shape[r] - 1, view.strides[r], &reach)) return {};
        if (__builtin_add_overflow(side, reach, &side)) return {};
    }
    const auto bytes = static_cast<std::int64_t>(view.element_bytes);
    const auto base = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
    if (__builtin_add_overflow(range.high, std::int64_t{1}, &range.high)) return {};
    for (std::int64_t* side : {&range.low, &range.high})
        if (__builtin_mul_overflow(*side, bytes, side) || __builtin_add_overflow(*side, base, side)) return {};
    return range;
}

std::int64_t magnitude(std::int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/// Whether the dimensions nest: each stride steps over all that the smaller ones reach. Then no two indices meet.
bool nests(const AnyView& view)
{
    // Dimensions in order of their strides, one a round: the smallest stride not looked at yet.
    std::array<bool, 4> seen{};
    std::int64_t reach = 0;
    for (std::size_t round = 0; round < view.shape.size(); ++round) {
        std::size_t next = view.shape.size();
        for (std::size_t r = 0; r < view.shape.size(); ++r) {
            if (seen[r] || view.shape[r] <= 1) continue;
            if (next == view.shape.size() || magnitude(view.strides[r]) < magnitude(view.strides[next])) next = r;
        }
        if (next == view.shape.size()) break;
        seen[next] = true;
        if (magnitude(view.strides[next]) <= reach) return false;
        reach += (view.shape[next] - 1) * magnitude(view.strides[next]);
    }
    return true;
}

/// Byte addresses that a view touches within one period of `period` bytes, the others being whole periods away: its
/// strides that are multiples of the period lead from one to the next, the others stay inside.
Range within_period(const AnyView& view, std::int64_t period)
{
    const auto bytes = static_cast<std::int64_t>(view.element_bytes);
    const auto base = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
    Range range{base, base + bytes};
    for (std::size_t r = 0; r < view.shape.size(); ++r) {
        if (view.shape[r] <= 1) continue;  // its stride reaches nothing, and may be of any size
        const std::int64_t stride = view.strides[r] * bytes;
        if (stride % period != 0) (stride < 0 ? range.low : range.high) += (view.shape[r] - 1) * stride;
    }
    return range;
}

/// Interleaved views of one buffer, such as the columns of packed Q, K and V, overlap as ranges but share no element:
/// within each period, a row of the buffer, they lie apart.
bool interleaved(const AnyView& a, const AnyView& b)
{
    for (std::size_t r = 0; r < a.strides.size(); ++r) {
        if (a.shape[r] <= 1 || a.strides[r] == 0) continue;
        const std::int64_t period = magnitude(a.strides[r]) * static_cast<std::int64_t>(a.element_bytes);
        const Range in_a = within_period(a, period);
        const Range in_b = within_period(b, period);
        const std::int64_t distance = ((in_b.low - in_a.low) % period + period) % period;
        if (distance >= in_a.high - in_a.low && distance + (in_b.high - in_b.low) <= period) return true;
    }
    return false;
}

std::string expected_text(std::span<const Extent> shape)
{
    std::string text = "(";
    for (const Extent& extent : shape) {
        if (text.size() > 1) text += ", ";
        text += extent.meaning;
        if (extent.value >= 0) text += " = " + std::to_string(extent.value);
    }
    return text + ")";
}

}  // namespace

std::size_t bytes_of(ElementType type) noexcept
{
    switch (type) {
        case ElementType::boolean: return sizeof(bool);
        case ElementType::float64: return sizeof(double);
        case ElementType::bfloat16: return sizeof(bfloat16);
        case ElementType::float16: return sizeof(float16);
        case ElementType::float32: break;
    }
    return sizeof(float);
}

AnyView any_view(const Mask& mask)
{
    return {"mask", mask.data(), bytes_of(mask.type()), mask.shape(), mask.strides()};
}

std::string shape_text(std::span<const std::int64_t> shape)
{
    std::string text = "(";
    for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + ")";
}

std::string number_text(double value)
{
    std::ostringstream text;
    text << value;
    return text.str();
}

void Check::fail(std::string_view argument, const std::string& got, std::string_view expected) const
{
    throw std::invalid_argument(std::string(call_) + ": " + std::string(argument) + " is " + got + "; expected " +
                                std::string(expected));
}

void Check::input(const AnyView& view, std::span<const Extent> shape) const
{
    for (std::size_t r = 0; r < shape.size(); ++r) {
        const bool fits = view.shape[r] >= 0 && (shape[r].value < 0 || view.shape[r] == shape[r].value);
        if (!fits) fail(view.name, "of shape " + shape_text(view.shape), expected_text(shape));
    }
    if (empty(view)) return;
    fewer_bytes(view.name, view.element_bytes, view.shape);
    if (view.data == nullptr) fail(view.name, "null", "data for shape " + shape_text(view.shape));
    if (reinterpret_cast<std::uintptr_t>(view.data) % view.element_bytes != 0)
        fail(view.name, "of misaligned data", "data aligned to " + std::to_string(view.element_bytes) + " bytes");
    const auto lowest = std::numeric_limits<std::int64_t>::min();
    const bool strides_fit =
        std::none_of(view.strides.begin(), view.strides.end(), [&](auto s) { return s == lowest; });
    if (!strides_fit || !byte_range(view))
        fail(view.name, "of strides " + shape_text(view.strides), "elements within 64-bit addresses");
}

void Check::fewer_bytes(std::string_view argument, std::size_t element_bytes,
                        std::span<const std::int64_t> extents) const
{
    auto bytes = static_cast<std::int64_t>(element_bytes);
    for (const std::int64_t extent : extents)
        if (__builtin_mul_overflow(bytes, extent, &bytes))
            fail(argument, "of shape " + shape_text(extents), "fewer than 2^63 bytes");
}

void Check::output(const AnyView& view, std::span<const Extent> shape) const
{
    input(view, shape);
    if (!empty(view) && !nests(view))
        fail(view.name, "of shape " + shape_text(view.shape) + " and strides " + shape_text(view.strides),
             "an output whose elements lie apart");
}

void Check::disjoint(const AnyView& view, const AnyView& other) const
{
    if (view.data == nullptr || other.data == nullptr || empty(view) || empty(other)) return;
    const auto a = byte_range(view);
    const auto b = byte_range(other);
    if (a->high <= b->low || b->high <= a->low || interleaved(view, other) || interleaved(other, view)) return;
    fail(view.name, "overlapping " + std::string(other.name), "memory of its own");
}

}  // namespace headwise
