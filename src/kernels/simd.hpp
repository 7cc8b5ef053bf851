// The only file that includes xsimd. It gives the kernels one small vector vocabulary, and holds what differs between
// xsimd's versions (8.1 to 14) and what xsimd has no name for. That last part uses the vector extension that GCC and
// Clang share; intrinsics stand only where GCC 12 makes poor code of it.
//
// Every name here is a template on Arch (an xsimd architecture): files compiled for different instruction sets must not
// define the same symbol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
// GCC 12's own AVX-512 header passes a deliberately undefined operand to masked instructions, and GCC then warns of it.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <xsimd/xsimd.hpp>

#include <headwise/element.hpp>

#define HEADWISE_INLINE inline __attribute__((always_inline))

// Full unrolling of the short loops whose bounds are template parameters; without it the accumulators of a register
// tile would live in memory.
#if defined(__clang__)
#define HEADWISE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HEADWISE_UNROLL _Pragma("GCC unroll 64")
#endif

namespace headwise::kernels {

template <class Arch, class T>
using Vec = xsimd::batch<T, Arch>;

template <class Arch, class T>
inline constexpr int lanes_of = static_cast<int>(Vec<Arch, T>::size);

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> set(T value)
{
    return Vec<Arch, T>(value);
}

/// Panels and scratch are aligned, but narrow panels start at any multiple of a vector: unaligned loads cost nothing
/// where the address is aligned.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> load(const T* from)
{
    return Vec<Arch, T>::load_unaligned(from);
}

template <class Arch, class T>
HEADWISE_INLINE void write(T* to, Vec<Arch, T> v)
{
    v.store_unaligned(to);
}

/// Fetches the line that lies `numbers` after `from` into the second-level cache. It may be past the end of its array.
template <class Arch, class T>
HEADWISE_INLINE void fetch_line(const T* from, std::int64_t numbers)
{
    const auto address = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(numbers) * sizeof(T);
    __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}

/// x, from a register: GCC 12 would load it again for each use, which costs the multiply-adds their loads.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> in_register(Vec<Arch, T> x)
{
    typename Vec<Arch, T>::register_type value = x;
#if defined(__x86_64__)
    asm("" : "+v"(value));
#endif
    return Vec<Arch, T>(value);
}

/// x * y + z, fused where the instruction set has it (SSE2 has not).
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> multiply_add(Vec<Arch, T> x, Vec<Arch, T> y, Vec<Arch, T> z)
{
#if defined(__AVX512F__) && XSIMD_VERSION_MAJOR < 11
    // xsimd 8.1 has no such kernel for AVX-512 and leaves fusing to the compiler's contraction, which is off here.
    if constexpr (std::is_base_of_v<xsimd::avx512f, Arch>) {
        if constexpr (sizeof(T) == 4) return _mm512_fmadd_ps(x, y, z);
        else return _mm512_fmadd_pd(x, y, z);
    } else
#endif
        return xsimd::fma(x, y, z);
}

/// The larger of a running maximum and x; the running maximum where x is NaN.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> raised(Vec<Arch, T> running, Vec<Arch, T> x)
{
#if (defined(__x86_64__) || defined(__i386__)) && XSIMD_VERSION_MAJOR < 14
    return xsimd::max(x, running);  // maxps gives its second operand where one is NaN
#else
    return xsimd::select(x > running, x, running);
#endif
}

/// The larger of bound and x, and NaN where x is NaN.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> at_least(Vec<Arch, T> x, Vec<Arch, T> bound)
{
#if (defined(__x86_64__) || defined(__i386__)) && XSIMD_VERSION_MAJOR < 14
    return xsimd::max(bound, x);  // as in raised
#else
    return xsimd::select(x < bound, bound, x);
#endif
}

// ---- the vector extension -------------------------------------------------------------------------------------------

template <class Arch, class T>
struct Native {
    using Register = typename Vec<Arch, T>::register_type;
    using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    typedef T Values __attribute__((vector_size(sizeof(Register))));
    typedef Integer Bits __attribute__((vector_size(sizeof(Register))));
};

/// n numbers of type E in the compiler's own vector type. (A typedef inside a function template confuses GCC 12.)
template <class E, int n>
struct Numbers {
    typedef E type __attribute__((vector_size(sizeof(E) * n)));
};

/// n consecutive numbers, no more than a vector holds.
template <class Arch, int n, class E>
HEADWISE_INLINE typename Numbers<E, n>::type load_numbers(const E* from)
{
    typename Numbers<E, n>::type numbers;
    __builtin_memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

template <class Arch, class E, class Values>
HEADWISE_INLINE void write_numbers(E* to, const Values& numbers)
{
    __builtin_memcpy(to, &numbers, sizeof numbers);
}

template <class Arch, class T>
HEADWISE_INLINE typename Native<Arch, T>::Values values_of(Vec<Arch, T> v)
{
    return (typename Native<Arch, T>::Values)(typename Native<Arch, T>::Register)(v);
}

template <class Arch, class T, class Vector>
HEADWISE_INLINE Vec<Arch, T> from_native(Vector v)
{
    return Vec<Arch, T>((typename Native<Arch, T>::Register)(v));
}

/// The number whose exponent field is the low bits of x's representation: bits(x) << mantissa width.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> exponent_from_low_bits(Vec<Arch, T> x)
{
    using Bits = typename Native<Arch, T>::Bits;
    return from_native<Arch, T>((Bits)values_of(x) << (std::numeric_limits<T>::digits - 1));
}

/// x where its sign bit is set, else otherwise.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> negative_or(Vec<Arch, T> x, Vec<Arch, T> otherwise)
{
    using Bits = typename Native<Arch, T>::Bits;
    return from_native<Arch, T>((Bits)values_of(x) < 0 ? values_of(x) : values_of(otherwise));
}

/// Within each span of numbers, units of low and high in turn: the first halves of the spans to low, the others to high.
template <class Arch, int unit, int span, class Row, int... I>
HEADWISE_INLINE void interleave(Row& low, Row& high, std::integer_sequence<int, I...>)
{
    constexpr int n = sizeof...(I);
    constexpr auto from = [](int i, int half) {
        const int turn = i % span / unit;
        return i / span * span + half * (span / 2) + turn / 2 * unit + i % unit + (turn % 2 ? n : 0);
    };
    const Row a = low;
    const Row b = high;
    low = __builtin_shufflevector(a, b, from(I, 0)...);
    high = __builtin_shufflevector(a, b, from(I, 1)...);
}

/// The same of vectors.
template <class Arch, int unit, int span, class T, int... I>
HEADWISE_INLINE void interleave(xsimd::batch<T, Arch>& low, xsimd::batch<T, Arch>& high,
                                std::integer_sequence<int, I...> numbers)
{
    auto a = values_of(low);
    auto b = values_of(high);
    interleave<Arch, unit, span>(a, b, numbers);
    low = from_native<Arch, T>(a);
    high = from_native<Arch, T>(b);
}

/// log2(count) rounds that interleave row i with row i + count / 2, the rows `stride` apart.
template <class Arch, class T, int unit, int span, int count, int stride, class Row>
HEADWISE_INLINE void interleave_rounds(Row* rows)
{
    constexpr int n = sizeof(Row) / sizeof(T);
    Row next[count];
    HEADWISE_UNROLL
    for (int round = 1; round < count; round *= 2) {
        HEADWISE_UNROLL
        for (int i = 0; i < count / 2; ++i) {
            next[2 * i] = rows[i * stride];
            next[2 * i + 1] = rows[(i + count / 2) * stride];
            interleave<Arch, unit, span>(next[2 * i], next[2 * i + 1], std::make_integer_sequence<int, n>());
        }
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i) rows[i * stride] = next[i];
    }
}

/// Numbers in a row of the squares that panels are transposed by: a vector, but no more than 256 bits. A Zen 4 core takes
/// two shuffles and one store of 256 bits a cycle, and half as many of 512: 16 x 16 numbers as four squares of 8 x 8 take
/// 44 to 55 cycles, as one 77 to 90.
template <class Arch, class T>
inline constexpr int square_lanes = lanes_of<Arch, T> * sizeof(T) > 32 ? 32 / sizeof(T) : lanes_of<Arch, T>;

template <class Arch, class T>
using SquareRow = typename Numbers<T, square_lanes<Arch, T>>::type;

/// Transposes a square of numbers, given as its rows in the compiler's own vector type: first the small squares within each
/// 128 bits, whose shuffles cost least, then those squares as wholes.
template <class Arch, class T, class Row>
HEADWISE_INLINE void transpose(Row* square)
{
    constexpr int n = sizeof(Row) / sizeof(T);
    constexpr int small = 16 / sizeof(T);
    HEADWISE_UNROLL
    for (int first = 0; first < n; first += small) interleave_rounds<Arch, T, 1, small, small, 1>(square + first);
    if constexpr (n > small) {
        HEADWISE_UNROLL
        for (int first = 0; first < small; ++first)
            interleave_rounds<Arch, T, small, n, n / small, small>(square + first);
    }
}

/// log2(count) rounds that interleave and add vector i and vector i + count / 2, the vectors `stride` apart.
template <class Arch, class T, int unit, int span, int count, int stride>
HEADWISE_INLINE void sum_rounds(Vec<Arch, T>* vectors)
{
    HEADWISE_UNROLL
    for (int half = count / 2; half > 0; half /= 2) {
        HEADWISE_UNROLL
        for (int i = 0; i < half; ++i) {
            Vec<Arch, T> low = vectors[i * stride];
            Vec<Arch, T> high = vectors[(i + half) * stride];
            interleave<Arch, unit, span>(low, high, std::make_integer_sequence<int, lanes_of<Arch, T>>());
            vectors[i * stride] = low + high;
        }
    }
}

/// The sum of row i's numbers in lane i. `square`, its `lanes` rows, is overwritten. As transpose, with fewer shuffles
/// than that and a sum of what it gives.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> sums_of_rows(Vec<Arch, T>* square)
{
    constexpr int n = lanes_of<Arch, T>;
    constexpr int small = 16 / sizeof(T);
    HEADWISE_UNROLL
    for (int first = 0; first < n; first += small) sum_rounds<Arch, T, 1, small, small, 1>(square + first);
    if constexpr (n > small) sum_rounds<Arch, T, small, n, n / small, small>(square);
    return square[0];
}

/// One element of storage type E, widened to T. Exact.
template <class Arch, class T, class E>
HEADWISE_INLINE T widened(E element)
{
    if constexpr (std::is_arithmetic_v<E>) return static_cast<T>(element);
    else return static_cast<T>(static_cast<float>(element));
}

/// n 16-bit integers as the integers of a vector of type Words.
template <class Arch, class Words, int n>
HEADWISE_INLINE Words widened_halves(const void* from)
{
#if defined(__AVX512F__)
    // GCC 12 takes the vector apart and puts it together again: five instructions for one.
    if constexpr (n == 16) return (Words)_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
#endif
    return __builtin_convertvector(load_numbers<Arch, n>(static_cast<const std::uint16_t*>(from)), Words);
}

/// n consecutive elements of storage type E, widened to T, in the compiler's own vector type. Exact.
template <class Arch, class T, int n, class E>
HEADWISE_INLINE typename Numbers<T, n>::type widened_numbers(const E* from)
{
    using Values = typename Numbers<T, n>::type;
    if constexpr (std::is_same_v<E, bfloat16> || std::is_same_v<E, float16>) {
        using Words = typename Numbers<std::uint32_t, n>::type;
        using Floats = typename Numbers<float, n>::type;
        const Words words = widened_halves<Arch, Words, n>(from);
        Floats floats;
        if constexpr (std::is_same_v<E, bfloat16>) {
            floats = (Floats)(words << 16);
        } else {
            // The fraction moves to its place, a multiplication by 2^112 moves the exponent (and makes subnormals
            // normal); exponent 31, infinity and NaN, is set to all ones.
            const Words magnitude = words & 0x7fffu;
            const Words special = (Words)(magnitude >= 0x7c00u) & 0x7f800000u;
            const Words scaled = (Words)((Floats)(magnitude << 13) * 0x1p112f);
            floats = (Floats)(scaled | special | ((words & 0x8000u) << 16));
        }
        return __builtin_convertvector(floats, Values);
    } else {
        typename Numbers<E, n>::type elements;  // not load_numbers: it may be wider than what a function can return
        __builtin_memcpy(&elements, from, sizeof elements);
        return __builtin_convertvector(elements, Values);
    }
}

/// One vector of consecutive elements of storage type E, widened to T. Exact.
template <class Arch, class T, class E>
HEADWISE_INLINE Vec<Arch, T> load_widened(const E* from)
{
    if constexpr (std::is_same_v<E, T>) return load<Arch, T>(from);
    else return from_native<Arch, T>(widened_numbers<Arch, T, lanes_of<Arch, T>>(from));
}

/// n bytes, up to 8, as the integers of a vector of type Bits. In steps that GCC 12 has instructions for: it takes narrow
/// vectors apart and widens their bytes one by one.
template <class Arch, class Bits, int n>
HEADWISE_INLINE Bits widened_bytes(const void* from)
{
    using Bytes = typename Numbers<std::uint8_t, 16>::type;
    using Halves = typename Numbers<std::uint16_t, 8>::type;
    using Words = typename Numbers<std::uint32_t, 4>::type;
    Bytes bytes{};
    __builtin_memcpy(&bytes, from, n);
    const Halves halves =
        (Halves)__builtin_shufflevector(bytes, Bytes{}, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    if constexpr (n == 8) {
        return __builtin_convertvector(halves, Bits);
    } else {
        const Words words = (Words)__builtin_shufflevector(halves, Halves{}, 0, 8, 1, 9, 2, 10, 3, 11);
        if constexpr (n == 4) return __builtin_convertvector(words, Bits);
        else return (Bits)__builtin_shufflevector(words, Words{}, 0, 4, 1, 5);
    }
}

/// One vector of consecutive booleans as what they add to a score: 0 where true, -inf where false.
template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> load_boolean_bias(const bool* from)
{
    constexpr int n = lanes_of<Arch, T>;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (std::is_base_of_v<xsimd::avx512f, Arch>) {  // the bytes make a mask without being widened
        __m128i bytes{};
        __builtin_memcpy(&bytes, from, n);
        const __mmask16 excluded = _mm_cmpeq_epi8_mask(bytes, __m128i{});
        if constexpr (n == 16) return _mm512_maskz_mov_ps(excluded, _mm512_set1_ps(-infinity<float>));
        else return _mm512_maskz_mov_pd(static_cast<__mmask8>(excluded), _mm512_set1_pd(-infinity<double>));
    } else
#endif
    {
        using Values = typename Native<Arch, T>::Values;
        using Bits = typename Native<Arch, T>::Bits;
        const Bits excluded = (widened_bytes<Arch, Bits, n>(from) == 0);
        const Values minus_infinity = Values{} - infinity<T>;
        return from_native<Arch, T>((Values)(excluded & (Bits)minus_infinity));
    }
}

}  // namespace headwise::kernels
