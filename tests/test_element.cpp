// bfloat16 and float16: every pattern, and rounding, against their definition as numbers s * f * 2^e.
#include "catch_compat.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <headwise/element.hpp>

using headwise::bfloat16;
using headwise::float16;

namespace {

/// A binary format of 16 bits.
struct Format {
    int fraction_bits;
    int exponent_bits;

    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    unsigned infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
};
constexpr Format bfloat16_format{7, 8};
constexpr Format float16_format{10, 5};

template <class Half>
constexpr Format format_of = bfloat16_format;
template <>
constexpr Format format_of<float16> = float16_format;

/// The number that `pattern` stands for; exact in double.
double value_of(unsigned pattern, const Format& format)
{
    const double sign = (pattern & 0x8000u) != 0 ? -1 : 1;
    const unsigned magnitude = pattern & 0x7fffu;
    if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
    const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
    const int fraction = static_cast<int>(magnitude) - (exponent << format.fraction_bits);
    const int significand = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
    const int power = (exponent == 0 ? 1 : exponent) - format.bias() - format.fraction_bits;
    return sign * std::ldexp(significand, power);
}

/// The pattern nearest to a magnitude that is no NaN, ties to the even pattern, by search: patterns are in the order of
/// their values, and infinity stands where the next number would be.
unsigned nearest_pattern(double magnitude, const Format& format)
{
    const double beyond = std::ldexp(1.0, format.bias() + 1);
    const auto value = [&](unsigned pattern) {
        return pattern == format.infinity() ? beyond : value_of(pattern, format);
    };
    if (magnitude >= beyond) return format.infinity();
    unsigned below = 0, above = format.infinity();
    while (above - below > 1) {
        const unsigned middle = (below + above) / 2;
        (value(middle) <= magnitude ? below : above) = middle;
    }
    const double to_below = magnitude - value(below), to_above = value(above) - magnitude;
    if (to_below != to_above) return to_below < to_above ? below : above;
    return below % 2 == 0 ? below : above;
}

template <class Half>
Half from_pattern(unsigned pattern)
{
    Half half;
    half.bits = static_cast<std::uint16_t>(pattern);
    return half;
}

bool is_nan(unsigned pattern, const Format& format)
{
    return (pattern & 0x7fffu) > format.infinity();
}

/// Whether `value` converts to the pattern that the search finds.
template <class Half>
bool rounds_to_nearest(float value)
{
    const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
    return Half(value).bits == (sign | nearest_pattern(std::abs(static_cast<double>(value)), format_of<Half>));
}

}  // namespace

TEMPLATE_TEST_CASE("element: every pattern has its value and comes back", "[element]", bfloat16, float16)
{
    const Format format = format_of<TestType>;
    int wrong_values = 0, wrong_round_trips = 0;
    for (unsigned pattern = 0; pattern <= 0xffffu; ++pattern) {
        const float value = static_cast<float>(from_pattern<TestType>(pattern));
        const unsigned back = TestType(value).bits;
        if (is_nan(pattern, format)) {
            wrong_values += !std::isnan(value) || std::signbit(value) != (pattern >= 0x8000u);
            const unsigned quiet = 1u << (format.fraction_bits - 1);
            wrong_round_trips += back != (pattern | quiet);
        } else {
            const double expected = value_of(pattern, format);
            wrong_values += static_cast<double>(value) != expected || std::signbit(value) != std::signbit(expected);
            wrong_round_trips += back != pattern;
        }
    }
    CHECK(wrong_values == 0);
    CHECK(wrong_round_trips == 0);
}

TEMPLATE_TEST_CASE("element: between neighbours it rounds to nearest, ties to even", "[element]", bfloat16, float16)
{
    const Format format = format_of<TestType>;
    const float infinity = std::numeric_limits<float>::infinity();
    int wrong = 0;
    for (unsigned pattern = 0; pattern + 1 < format.infinity(); ++pattern) {
        const double below = value_of(pattern, format), above = value_of(pattern + 1, format);
        const auto middle = static_cast<float>((below + above) / 2);  // exact: float has a bit more
        const unsigned even = pattern % 2 == 0 ? pattern : pattern + 1;
        wrong += TestType(middle).bits != even;
        wrong += TestType(-middle).bits != (even | 0x8000u);
        wrong += TestType(std::nextafter(middle, 0.0f)).bits != pattern;
        wrong += TestType(std::nextafter(middle, infinity)).bits != pattern + 1;
    }
    CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("element: any float rounds to nearest", "[element]", bfloat16, float16)
{
    std::mt19937 generator(1);
    int wrong = 0;
    for (int i = 0; i < 200'000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
        if (std::isnan(value)) wrong += !std::isnan(static_cast<float>(TestType(value)));
        else wrong += !rounds_to_nearest<TestType>(value);
    }
    std::uniform_real_distribution<float> logarithm(-28, 18);  // where float16 has its numbers
    for (int i = 0; i < 200'000; ++i) wrong += !rounds_to_nearest<TestType>(std::exp2(logarithm(generator)));
    CHECK(wrong == 0);
}

TEST_CASE("element: overflow", "[element]")
{
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(float16(65504.0f).bits == 0x7bff);
    CHECK(float16(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
    CHECK(float16(65520.0f).bits == 0x7c00);
    CHECK(float16(-65520.0f).bits == 0xfc00);
    CHECK(float16(std::numeric_limits<float>::max()).bits == 0x7c00);
    CHECK(float16(infinity).bits == 0x7c00);
    CHECK(bfloat16(std::bit_cast<float>(0x7f7f7fffu)).bits == 0x7f7f);
    CHECK(bfloat16(std::bit_cast<float>(0x7f7f8000u)).bits == 0x7f80);  // halfway to what would be 2^128
    CHECK(bfloat16(-std::numeric_limits<float>::max()).bits == 0xff80);
    CHECK(bfloat16(-infinity).bits == 0xff80);
}

TEST_CASE("element: underflow and subnormals", "[element]")
{
    CHECK(float16(0x1p-24f).bits == 1);
    CHECK(float16(0x1p-25f).bits == 0);  // a tie, to the even 0
    CHECK(float16(std::nextafter(0x1p-25f, 1.0f)).bits == 1);
    CHECK(float16(-0x1p-26f).bits == 0x8000);
    CHECK(float16(0x1.ff8p-15f).bits == 0x3ff);  // 1023 * 2^-24, the largest subnormal
    CHECK(float16(0x1.ffcp-15f).bits == 0x400);  // a tie with 2^-14, to the even
    CHECK(float16(std::numeric_limits<float>::denorm_min()).bits == 0);
    CHECK(bfloat16(0x1p-133f).bits == 1);  // a subnormal of float too
    CHECK(bfloat16(0x1p-134f).bits == 0);
    CHECK(bfloat16(-0.0f).bits == 0x8000);
}

TEST_CASE("element: a NaN stays a quiet NaN", "[element]")
{
    // Signs and payloads, among them those that are lost when the lower bits are cut off.
    for (const std::uint32_t pattern : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7f801fffu, 0xffffffffu, 0x7fbfffffu}) {
        CAPTURE(pattern);
        const auto value = std::bit_cast<float>(pattern);
        const unsigned sign = pattern >> 16 & 0x8000u;
        CHECK((bfloat16(value).bits & 0xffc0u) == (sign | 0x7fc0u));
        CHECK((float16(value).bits & 0xfe00u) == (sign | 0x7e00u));
    }
}

#if defined(__FLT16_MANT_DIG__)
#if defined(__aarch64__)
using CompilersFloat16 = __fp16;  // g++ 12 knows _Float16 there in C only
#else
using CompilersFloat16 = _Float16;
#endif

TEST_CASE("element: float16 agrees with the compiler's own type", "[element]")
{
    std::mt19937 generator(2);
    int wrong = 0;
    for (int i = 0; i < 200'000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
        if (!std::isnan(value))
            wrong += float16(value).bits != std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(value));
    }
    CHECK(wrong == 0);
}
#endif

TEST_CASE("element: conversions are constant expressions", "[element]")
{
    static_assert(bfloat16(1.5f).bits == 0x3fc0);
    static_assert(float16(1.5f).bits == 0x3e00);
    static_assert(static_cast<float>(float16(0x1p-24f)) == 0x1p-24f);
    static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2);
    SUCCEED();
}
