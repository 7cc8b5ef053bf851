// The projection of few tokens, as one token of a sequence that grows. A panel with one token in it costs as much as a
// full one, and the time is what it takes to read the matrix. Here the width lies in the lanes:
//
//     c[m][token] = bias[m] + sum over k of A(m, k) b[k][token]          rows m in the lanes
//
// A strip of strip_rows rows is read as it lies: the numbers of `ks` k fill `vectors` vectors. So each row has `ks` sums,
// of every ks-th k, which are added in order at the end. As many strips as the registers allow, far from each other, are
// read side by side, which keeps more reads from memory in flight than one stream does (few_rows.hpp).
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

template <class Arch, class T>
class ProjectFew {
public:
    /// Tokens up to which this beats a panel. (Zen 3, AVX2, whole layers of 1, 2, 3 and 4 tokens: 1.9 to 2.8, 1.6 to 2.3,
    /// 1.4 to 1.8 and 1.25 to 1.5 times as fast; 5, two at a time, 0.8 to 1.0.)
    static constexpr int max_tokens = lanes_of<Arch, T> < 4 ? lanes_of<Arch, T> : 4;

    static void run(const Projection<T>& p)
    {
        using Function = void (*)(const Projection<T>&);
        static constexpr auto functions = []<int... I>(std::integer_sequence<int, I...>) {
            struct Table {
                Function of_tokens[sizeof...(I)];
            };
            return Table{{&run_tokens<I + 1>...}};
        }(std::make_integer_sequence<int, max_tokens>());
        functions.of_tokens[p.tokens - 1](p);
    }

private:
    using V = Vec<Arch, T>;
    static constexpr int n = lanes_of<Arch, T>;
    static constexpr int ks = n > 4 ? n / 4 : 1;
    static constexpr int vectors = ks * strip_rows / n;
    static_assert(vectors * n == ks * strip_rows);
    static constexpr int line = 64 / sizeof(T);
    static constexpr int fetched_ahead = 32 * line;  ///< numbers, of a strip that is read alone

    /// Strips side by side, as many as leave registers for the operands.
    static constexpr int strips_of(int tokens)
    {
        const int fitting = (TileShape<Arch, T>::registers - 4) / (vectors * tokens);
        return fitting < 1 ? 1 : fitting < 4 ? fitting : 4;
    }

    template <int tokens>
    static void run_tokens(const Projection<T>& p)
    {
        constexpr int together = strips_of(tokens);
        const std::int64_t strips = (p.rows + strip_rows - 1) / strip_rows;
        const std::int64_t distance = strips / together;
        for (std::int64_t strip = 0; strip < distance; ++strip) do_strips<tokens, together>(p, strip, distance);
        for (std::int64_t strip = together * distance; strip < strips; ++strip) do_strips<tokens, 1>(p, strip, 0);
    }

    /// Strips `first`, `first` + distance, ...
    template <int tokens, int strips>
    HEADWISE_INLINE static void do_strips(const Projection<T>& p, std::int64_t first, std::int64_t distance)
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
        const T* b = p.b;
        std::int64_t k = 0;
        for (; k + ks <= p.depth; k += ks, b += ks * n) {
            if constexpr (strips == 1) {
                HEADWISE_UNROLL
                for (int i = 0; i < ks * strip_rows; i += line) fetch_line<Arch>(a[0], fetched_ahead + i);
            }
            HEADWISE_UNROLL
            for (int token = 0; token < tokens; ++token) {
                V x[ks];
                HEADWISE_UNROLL
                for (int i = 0; i < ks; ++i) x[i] = in_register<Arch, T>(set<Arch, T>(b[i * n + token]));
                [&]<int... v>(std::integer_sequence<int, v...>) __attribute__((always_inline)) {
                    (add_products<v, false>(x, a, sums, token), ...);
                    (add_products<v, true>(x, a, sums, token), ...);  // last, when the numbers of x are free to go
                }(std::make_integer_sequence<int, vectors>());
            }
            HEADWISE_UNROLL
            for (int strip = 0; strip < strips; ++strip) a[strip] += ks * strip_rows;
        }
        HEADWISE_UNROLL
        for (int strip = 0; strip < strips; ++strip)
            finish<tokens>(p, first + strip * distance, a[strip], b, p.depth - k, sums[strip]);
    }

    /// Vector v of each strip, if it holds numbers of one k, or of two: its lane i belongs to k (v * n + i) / strip_rows.
    template <int v, bool of_two, int tokens, int strips>
    HEADWISE_INLINE static void add_products(const V (&x)[ks], const T* const (&a)[strips],
                                             V (&sums)[strips][tokens][vectors], int token)
    {
        constexpr int first = v * n / strip_rows;
        constexpr int last = (v * n + n - 1) / strip_rows;
        if constexpr ((first != last) != of_two) return;
        V factor = x[first];
        if constexpr (of_two)
            factor = [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
                return from_native<Arch, T>(__builtin_shufflevector(
                    values_of(x[first]), values_of(x[last]), (i + n * ((v * n + i) / strip_rows - first))...));
            }(std::make_integer_sequence<int, n>());
        HEADWISE_UNROLL
        for (int strip = 0; strip < strips; ++strip)
            sums[strip][token][v] = multiply_add(load<Arch, T>(a[strip] + v * n), factor, sums[strip][token][v]);
    }

    /// Writes the strip's rows, zeros where there is no token. `a`, `b`: what is left of the strip and the panel, `left` k.
    template <int tokens>
    static void finish(const Projection<T>& p, std::int64_t strip, const T* a, const T* b, std::int64_t left,
                       const V (&sums)[tokens][vectors])
    {
        const std::int64_t first_row = strip * strip_rows;
        const std::int64_t rows = p.rows - first_row < strip_rows ? p.rows - first_row : strip_rows;
        T* const c = p.c + first_row * n;
        for (std::int64_t m = 0; m < rows; ++m) write(c + m * n, set<Arch, T>(T(0)));
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
