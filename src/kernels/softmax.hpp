// The softmax over the keys of one tile of scores, with running maximum and sum (Milakov and Gimelshein 2018).
//
// s: keys x W scores in units of log2 (or, with a factor, in other units). For each lane:
//   m      = maximum[lane], at least every score of the tile and maximum_before[lane]; 0 is used where it is -inf, so
//            that a row without a key so far gives zeros and not NaN
//   s      = exp2((s - m) * factor)
//   correction = exp2((maximum_before - m) * factor), the factor of everything that was summed before
//   sum    = sum * correction + the tile's sum
// Rows of the tile are summed in order. A score of -inf gives exactly 0, a NaN gives NaN.
#pragma once

#include "kernels/exp2.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// `count` keys of the tile, count * Vectors vectors from s on.
template <class Arch, class T, int Vectors, bool scaled, int count>
HEADWISE_INLINE void softmax_keys(T* s, const Vec<Arch, T> (&maximum)[Vectors], Vec<Arch, T> (&sum)[Vectors], T factor)
{
    constexpr int n = lanes_of<Arch, T>;
    Vec<Arch, T> x[count * Vectors];
    HEADWISE_UNROLL
    for (int i = 0; i < count * Vectors; ++i) {
        x[i] = load<Arch, T>(s + i * n) - maximum[i % Vectors];
        if constexpr (scaled) x[i] = x[i] * set<Arch, T>(factor);
    }
    powers_of_two<Arch, T>(x);
    HEADWISE_UNROLL
    for (int i = 0; i < count * Vectors; ++i) {
        write(s + i * n, x[i]);
        sum[i % Vectors] = sum[i % Vectors] + x[i];
    }
}

template <class Arch, class T, int Vectors, bool scaled>
HEADWISE_INLINE void softmax_tile(T* s, std::int64_t keys, const SoftmaxState<T>& state, T factor)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    constexpr int at_once = 4 / Vectors;
    V maximum[Vectors];
    V sum[Vectors];
    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        const V m = load<Arch, T>(state.maximum + v * n);
        maximum[v] = xsimd::select(m == set<Arch, T>(-infinity<T>), set<Arch, T>(T(0)), m);
        sum[v] = set<Arch, T>(T(0));
    }
    std::int64_t key = 0;
    for (; key + at_once <= keys; key += at_once)
        softmax_keys<Arch, T, Vectors, scaled, at_once>(s + key * Vectors * n, maximum, sum, factor);
    for (; key < keys; ++key) softmax_keys<Arch, T, Vectors, scaled, 1>(s + key * Vectors * n, maximum, sum, factor);

    V correction[Vectors];
    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        correction[v] = load<Arch, T>(state.maximum_before + v * n) - maximum[v];
        if constexpr (scaled) correction[v] = correction[v] * set<Arch, T>(factor);
    }
    powers_of_two<Arch, T>(correction);
    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        write(state.correction + v * n, correction[v]);
        write(state.sum + v * n, multiply_add(load<Arch, T>(state.sum + v * n), correction[v], sum[v]));
    }
}

template <class Arch, class T>
void softmax(T* s, std::int64_t keys, int vectors, SoftmaxState<T> state)
{
    if (vectors == 2) softmax_tile<Arch, T, 2, false>(s, keys, state, T(1));
    else softmax_tile<Arch, T, 1, false>(s, keys, state, T(1));
}

/// The same for scores in natural units.
template <class Arch, class T>
void softmax_natural(T* s, std::int64_t keys, int vectors, const SoftmaxState<T>& state)
{
    if (vectors == 2) softmax_tile<Arch, T, 2, true>(s, keys, state, log2e<T>);
    else softmax_tile<Arch, T, 1, true>(s, keys, state, log2e<T>);
}

}  // namespace headwise::kernels
