// 2^x and tanh of vectors. (Named so that xsimd's own functions, found by argument, are not meant.)
#pragma once

#include "kernels/simd.hpp"

namespace headwise::kernels {

template <class T>
inline constexpr T log2e = T(1.4426950408889634074);

/// Coefficients c1, c2, ... of 2^f = 1 + f * (c1 + f * (c2 + ...)) on [-1/2, 1/2]: minimax in relative error with the
/// constant term fixed, so that 2^0 is exactly 1.
template <class T>
struct Exp2Polynomial;

template <>
struct Exp2Polynomial<float> {
    // degree 5, 9.2e-8: with rounding at most 2.2 units in the last place
    static constexpr float c[] = {0.6931469775951151f, 0.24022242077091488f, 0.05550733744476513f,
                                  0.009671513183098873f, 0.0013264728769544036f};
    // degree 6, 2.0e-9, for tanh: it needs 2^f - 1 to its own relative precision, near f = 0 too
    static constexpr float fine[] = {0.6931472028555264f,   0.24022647913604067f,   0.05550332470036712f,
                                     0.009618437356996825f, 0.0013398874871172924f, 0.00015353363207744504f};
    static constexpr float magic =
        0x1.8p23f + 127;  // adding it rounds to an integer and leaves r + 127 in the low bits
    static constexpr float lowest = -127;            // 2^-127 and below become 0
};

template <>
struct Exp2Polynomial<double> {  // degree 11, 1.8e-17
    static constexpr double c[] = {0.69314718055994569675,   0.24022650695910098007,   0.055504108664790394552,
                                   0.0096181291076070023796, 0.0013333558153439964747, 0.0001540353044157213033,
                                   1.5252727385193868197e-5, 1.3215442675329822143e-6, 1.0180647659234138888e-7,
                                   7.0725704128144235096e-9, 4.078071929588336665e-10};
    // Taylor, degree 13, 1e-17 of 2^f - 1: its first coefficient is log(2) itself
    static constexpr double fine[] = {0.69314718055994530942,   0.24022650695910071233,    0.055504108664821579953,
                                      0.009618129107628477162,  0.0013333558146428443423,  0.00015403530393381609954,
                                      1.525273380405984028e-5,  1.3215486790144309488e-6,  1.0178086009239699727e-7,
                                      7.0549116208011233299e-9, 4.4455382718708114976e-10, 2.5678435993488205142e-11,
                                      1.3691488853904128881e-12};
    static constexpr double magic = 0x1.8p52 + 1023;
    static constexpr double lowest = -1023;
};

/// 2^x split as scale * (1 + f * slope): scale is the power of two nearest, |f| <= 1/2, slope = (2^f - 1) / f.
template <class Arch, class T>
struct Exp2Parts {
    Vec<Arch, T> scale;
    Vec<Arch, T> f;
    Vec<Arch, T> slope;
};

/// The parts of `count` vectors, step by step side by side: one power is a chain of about 33 cycles, and a processor
/// that sees the chains one after another has room to wait for five of them only (Zen 3: 64 entries before its units).
/// x from Exp2Polynomial::lowest up to 1023 or 127; see powers_of_two.
template <class Arch, class T, int count, std::size_t terms>
HEADWISE_INLINE void exp2_parts(const Vec<Arch, T> (&x)[count], Exp2Parts<Arch, T> (&parts)[count], const T (&c)[terms])
{
    const auto magic = set<Arch, T>(Exp2Polynomial<T>::magic);
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) parts[i].scale = x[i] + magic;
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) parts[i].f = x[i] - (parts[i].scale - magic);
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) parts[i].scale = exponent_from_low_bits(parts[i].scale);
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) parts[i].slope = set<Arch, T>(c[terms - 1]);
    HEADWISE_UNROLL
    for (int term = static_cast<int>(terms) - 2; term >= 0; --term) {
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i)
            parts[i].slope = multiply_add(parts[i].slope, parts[i].f, set<Arch, T>(c[term]));
    }
}

/// x = 2^x for `count` vectors of x <= 127 (1023 for double). -inf gives exactly 0, 0 gives exactly 1, NaN gives NaN;
/// results of less than 2^-126.5 (2^-1022.5) are 0. float: 10 operations a vector, of which 6 need a multiplier.
template <class Arch, class T, int count>
HEADWISE_INLINE void powers_of_two(Vec<Arch, T> (&x)[count])
{
    Exp2Parts<Arch, T> parts[count];
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) x[i] = at_least(x[i], set<Arch, T>(Exp2Polynomial<T>::lowest));
    exp2_parts<Arch, T>(x, parts, Exp2Polynomial<T>::c);
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) parts[i].f = parts[i].f * parts[i].scale;  // exact unless subnormal
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) x[i] = multiply_add(parts[i].f, parts[i].slope, parts[i].scale);
}

template <class Arch, class T>
HEADWISE_INLINE Vec<Arch, T> power_of_two(Vec<Arch, T> x)
{
    Vec<Arch, T> one[1] = {x};
    powers_of_two<Arch, T>(one);
    return one[0];
}

/// x = tanh(x) = e / (e + 2) with e = exp(2x) - 1, formed without cancellation from the two parts of the power; so small
/// x keep their relative precision. NaN gives NaN.
template <class Arch, class T, int count>
HEADWISE_INLINE void tanh_of(Vec<Arch, T> (&x)[count])
{
    constexpr T limit = T(60);  // tanh is 1 to the last bit from 2x log2(e) = 54 (double) on
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) {
        x[i] = x[i] * set<Arch, T>(2 * log2e<T>);
        x[i] = at_least(x[i], set<Arch, T>(-limit));
        x[i] = -at_least(-x[i], set<Arch, T>(-limit));
    }
    Exp2Parts<Arch, T> parts[count];
    exp2_parts<Arch, T>(x, parts, Exp2Polynomial<T>::fine);
    HEADWISE_UNROLL
    for (int i = 0; i < count; ++i) {
        const auto rest = parts[i].f * parts[i].slope;
        const auto e = multiply_add(parts[i].scale, rest, parts[i].scale - set<Arch, T>(T(1)));
        x[i] = e / (e + set<Arch, T>(T(2)));
    }
}

}  // namespace headwise::kernels
