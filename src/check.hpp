// Checks of arguments at the door. Each throws std::invalid_argument that names the call, the argument, what came and
// what was expected.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <headwise/mask.hpp>
#include <headwise/tensor_view.hpp>

namespace headwise {

/// Any view, its rank and element type made run-time facts.
struct AnyView {
    std::string_view name;
    const void* data;
    std::size_t element_bytes;
    std::span<const std::int64_t> shape;
    std::span<const std::int64_t> strides;
};

template <class T, int Rank>
AnyView any_view(std::string_view name, const TensorView<T, Rank>& view)
{
    return {name, view.data, sizeof(T), view.shape, view.strides};
}

/// Bytes of an element.
std::size_t bytes_of(ElementType type) noexcept;

/// The mask, seen over (b, h, n_q, n_kv).
AnyView any_view(const Mask& mask);

/// One expected extent: a number, or any where below 0. `meaning` is what the message calls it.
struct Extent {
    std::int64_t value;
    std::string_view meaning;
};
constexpr std::int64_t any_extent = -1;

/// The checks of one call.
class Check {
public:
    explicit Check(std::string_view call) : call_(call) {}

    /// Extents as expected and not negative; unless the view is empty, data not null and aligned to its elements, and
    /// all addresses representable.
    void input(const AnyView& view, std::span<const Extent> shape) const;

    /// As input; and no two indices at one address.
    void output(const AnyView& view, std::span<const Extent> shape) const;

    /// The product of `extents` (none negative), in elements of that many bytes, is fewer than 2^63 bytes.
    void fewer_bytes(std::string_view argument, std::size_t element_bytes, std::span<const std::int64_t> extents) const;

    /// `view`, which the message names, shares no element with `other`. Both have passed the checks above.
    void disjoint(const AnyView& view, const AnyView& other) const;

    [[noreturn]] void fail(std::string_view argument, const std::string& got, std::string_view expected) const;

private:
    std::string_view call_;
};

/// "(1, 2, 3)"
std::string shape_text(std::span<const std::int64_t> shape);

/// "0.5", "nan"
std::string number_text(double value);

}  // namespace headwise
