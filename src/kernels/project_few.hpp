// The projection of few tokens, as one token of a sequence that grows. A panel with one token in it costs as much as a
// full one, and the time is what it takes to read the matrix. Here the width lies in the lanes:
//
//     c[m][token] = bias[m] + sum over k of A(m, k) b[k][token]          rows m in the lanes
//
// A strip of strip_rows rows is read as it lies: the numbers of `ks` k fill `vectors` vectors. So each row has `ks` sums,
// of every ks-th k, which are added in order at the end. Several strips, far from each other, are read side by side, which
// keeps more reads from memory in flight than one stream does (few_rows.hpp).
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

template <class Arch, class T>
class ProjectFew {
public:
    /// Tokens up to which this beats a panel. (Zen 3, AVX2, whole layers of 1, 2, 3, 4 and 5 tokens: 2.0 to 2.4, 1.6 to
    /// 2.0, 1.2 to 1.3, 1.05 to 1.2 and 0.8 to 1.0 times as fast.)
    static constexpr int max_tokens = lanes_of<Arch, T> < 4 ? lanes_of<Arch, T> : 4;

    static void run(const Projection<T>& p)
    {
        if (p.tokens == 1) run_strips<1>(p);
        else run_strips<2>(p);
    }

private:
    using V = Vec<Arch, T>;
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr int ks = n > 4 ? n / 4 : 1;
    static constexpr int vectors = ks * strip_rows / n;
    static_assert(vectors * n == ks * strip_rows);

    /// All tokens, up to `most` at a time.
    template <int most>
    static void run_strips(const Projection<T>& p)
    {
        constexpr int fitting = (TileShape<Arch, T>::registers - 4) / (vectors * most);  // beside the operands
        constexpr int together = fitting < 4 ? fitting : 4;
        const std::int64_t strips = (p.rows + strip_rows - 1) / strip_rows;
        const std::int64_t distance = strips / together;
        for (std::int64_t strip = 0; strip < distance; ++strip) run_tokens<most, together>(p, strip, distance);
        for (std::int64_t strip = together * distance; strip < strips; ++strip) run_tokens<most, 1>(p, strip, 0);
    }

    /// Strips `first`, `first` + distance, ...
    template <int most, int strips>
    static void run_tokens(const Projection<T>& p, std::int64_t first, std::int64_t distance)
    {
        int token = 0;
        for (; token + most <= p.tokens; token += most) do_strips<most, strips>(p, token, first, distance);
        if constexpr (most > 1)
            for (; token < p.tokens; ++token) do_strips<1, strips>(p, token, first, distance);
    }

    template <int tokens, int strips>
    static void do_strips(const Projection<T>& p, int first_token, std::int64_t first, std::int64_t distance)
    {
        const T* a[strips];
        V sums[strips][tokens][vectors];
        HEADWISE_UNROLL
        for (int strip = 0; strip < strips; ++strip) {
            a[strip] = p.a + (first + strip * distance) * strip_rows * p.depth;
            HEADWISE_UNROLL
            for (int token = 0; token < tokens; ++token) {
                HEADWISE_UNROLL
                for (int v = 0; v < vectors; ++v) sums[strip][token][v] = set<Arch, T>(T(0));
            }
        }
        const T* b = p.b + first_token;
        const auto add_vector = [&]<int v>() __attribute__((always_inline)) {
            V w[strips];
            HEADWISE_UNROLL
            for (int strip = 0; strip < strips; ++strip) w[strip] = load<Arch, T>(a[strip] + v * n);
            HEADWISE_UNROLL
            for (int token = 0; token < tokens; ++token) {
                const V x = factors<v>(b + token, std::make_integer_sequence<int, n>());
                HEADWISE_UNROLL
                for (int strip = 0; strip < strips; ++strip)
                    sums[strip][token][v] = multiply_add(w[strip], x, sums[strip][token][v]);
            }
        };
        std::int64_t k = 0;
        for (; k + ks <= p.depth; k += ks, b += ks * n) {
            [&]<int... v>(std::integer_sequence<int, v...>) __attribute__((always_inline)) {
                (add_vector.template operator()<v>(), ...);
            }(std::make_integer_sequence<int, vectors>());
            HEADWISE_UNROLL
            for (int strip = 0; strip < strips; ++strip) a[strip] += ks * strip_rows;
        }
        HEADWISE_UNROLL
        for (int strip = 0; strip < strips; ++strip)
            finish<tokens>(p, first_token, first + strip * distance, a[strip], b, p.depth - k, sums[strip]);
    }

    /// What vector v of a strip's numbers for `ks` k is multiplied with: lane i belongs to k (v * n + i) / strip_rows.
    template <int v, int... i>
    HEADWISE_INLINE static V factors(const T* b, std::integer_sequence<int, i...>)
    {
        constexpr int first = v * n / strip_rows;
        constexpr int last = (v * n + n - 1) / strip_rows;
        const V x = set<Arch, T>(b[first * n]);
        if constexpr (first == last) return x;
        else
            return from_native<Arch, T>(
                __builtin_shufflevector(values_of(x), values_of(set<Arch, T>(b[last * n])),
                                        (i + n * ((v * n + i) / strip_rows - first))...));
    }

    /// Writes the tokens' numbers in the strip's rows. `a`, `b`: what is left of the strip and the panel, `left` k.
    template <int tokens>
    static void finish(const Projection<T>& p, int first_token, std::int64_t strip, const T* a, const T* b,
                       std::int64_t left, const V (&sums)[tokens][vectors])
    {
        const std::int64_t first_row = strip * strip_rows;
        const std::int64_t rows = p.rows - first_row < strip_rows ? p.rows - first_row : strip_rows;
        T* const c = p.c + first_row * n + first_token;
        for (std::int64_t m = 0; m < rows && first_token == 0; ++m) write(c + m * n, set<Arch, T>(T(0)));
        for (int token = 0; token < tokens; ++token) {
            alignas(64) T numbers[vectors * n];
            for (int v = 0; v < vectors; ++v) write(numbers + v * n, sums[token][v]);
            for (std::int64_t m = 0; m < rows; ++m) {
                T sum = p.bias ? p.bias[first_row + m] : T(0);
                for (int i = 0; i < ks; ++i) sum += numbers[i * strip_rows + m];
                for (std::int64_t k = 0; k < left; ++k) sum += a[k * strip_rows + m] * b[k * n + token];
                c[m * n + token] = sum;
            }
        }
    }
};

}  // namespace headwise::kernels
