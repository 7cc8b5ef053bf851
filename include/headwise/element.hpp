// headwise: the element types of tensors, and the type each is computed in.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace headwise {

/// bfloat16 storage: the upper half of an IEEE binary32. Arithmetic is done in float.
struct bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;

    /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
    explicit constexpr bfloat16(float value) noexcept
    {
        const auto u = std::bit_cast<std::uint32_t>(value);
        const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
        bits = nan ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
                   : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }

    /// Exact.
    explicit constexpr operator float() const noexcept
    {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
};

/// IEEE binary16 storage (subnormals included). Arithmetic is done in float.
struct float16 {
    std::uint16_t bits = 0;

    float16() = default;

    /// Rounds to nearest, ties to even; values from 65520 up become infinity; a NaN stays a (quiet) NaN.
    explicit constexpr float16(float value) noexcept
    {
        const auto u = std::bit_cast<std::uint32_t>(value);
        const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
        const std::uint32_t magnitude = u & 0x7fffffffu;
        if (magnitude > 0x7f800000u) {
            bits = static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
        } else if (magnitude >= 0x477ff000u) {  // 65520: halfway to what would be the next number
            bits = static_cast<std::uint16_t>(sign | 0x7c00u);
        } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the last bit to 2^-24 and rounds
            const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
            bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
        } else {
            const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
            bits = static_cast<std::uint16_t>(sign | (rounded >> 13));
        }
    }

    /// Exact.
    explicit constexpr operator float() const noexcept
    {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
        const std::uint32_t exponent = (bits >> 10) & 0x1fu;
        const std::uint32_t fraction = bits & 0x3ffu;
        if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
        if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
};

/// The type in which a tensor of T is computed and accumulated: float for float, bfloat16 and float16; double for
/// double.
template <class T>
struct ComputeType {
    using type = float;
};
template <>
struct ComputeType<double> {
    using type = double;
};
template <class T>
using compute_t = typename ComputeType<T>::type;

/// The element types that views carry; used where a view's type is known at run time only (masks).
enum class ElementType : std::uint8_t { boolean, float32, float64, bfloat16, float16 };

template <class T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<bool> {
    static constexpr ElementType value = ElementType::boolean;
};
template <>
struct ElementTypeOf<float> {
    static constexpr ElementType value = ElementType::float32;
};
template <>
struct ElementTypeOf<double> {
    static constexpr ElementType value = ElementType::float64;
};
template <>
struct ElementTypeOf<bfloat16> {
    static constexpr ElementType value = ElementType::bfloat16;
};
template <>
struct ElementTypeOf<float16> {
    static constexpr ElementType value = ElementType::float16;
};

}  // namespace headwise
