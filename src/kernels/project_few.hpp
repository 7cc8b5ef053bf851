// The projection of few tokens, as one token of a sequence that grows. A panel with one token in it costs as much as a
// full one, and the time is what it takes to read the matrix. Here the width lies in the lanes:
//
//     c[m][token] = bias[m] + sum over k of A(m, k) b[k][token]          rows m in the lanes
//
// As many strips as fill whole vectors are a group; some groups, whose strips are far from each other, are read side by
// side, which keeps more reads from memory in flight than one stream does (few_rows.hpp). Each sum runs over k in order,
// so a token gets the bits that it gets in a panel.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

template <class Arch, class T>
class ProjectFew {
public:
    /// Tokens up to which this beats a panel. (Zen 3, AVX2, whole layers of 1, 2, 3 and 4 tokens: 1.9 to 2.7, 1.6 to 2.7,
    /// 1.5 to 2.0 and 1.4 to 1.8 times as fast; more would have to be read again from the second-level cache.)
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

    // A strip is a head of 8 rows and a tail of 4. The vectors of a group hold the heads of its strips, then the tails.
    static constexpr int head = 8;
    static constexpr int tail = strip_rows - head;
    static constexpr int strips_of_group = n > tail ? n / tail : 1;
    static constexpr int vectors = strips_of_group * strip_rows / n;  ///< of a group
    static_assert(vectors * n == strips_of_group * strip_rows);

    /// As many groups side by side as leave registers for the operands.
    static constexpr int groups_of(int tokens)
    {
        const int fitting = (TileShape<Arch, T>::registers - 4) / (vectors * tokens);
        const int most = 8 / strips_of_group;
        return fitting < 1 ? 1 : fitting < most ? fitting : most;
    }

    template <int tokens>
    static void run_tokens(const Projection<T>& p)
    {
        constexpr int together = groups_of(tokens) * strips_of_group;
        const std::int64_t strips = (p.rows + strip_rows - 1) / strip_rows;
        const std::int64_t distance = strips / together;
        std::int64_t strip = 0;
        for (; strip < distance; ++strip) do_groups<tokens, groups_of(tokens)>(p, strip, distance);
        for (strip = together * distance; strip < strips; strip += strips_of_group) do_groups<tokens, 1>(p, strip, 1);
    }

    /// The groups of strips `first`, `first` + distance, ... What is past the last strip is another one once more.
    template <int tokens, int groups>
    HEADWISE_INLINE static void do_groups(const Projection<T>& p, std::int64_t first, std::int64_t distance)
    {
        constexpr int strips = groups * strips_of_group;
        const std::int64_t last = (p.rows - 1) / strip_rows;
        const T* a[strips];
        HEADWISE_UNROLL
        for (int i = 0; i < strips; ++i) {
            const std::int64_t strip = first + i * distance < last ? first + i * distance : last;
            a[i] = p.a + strip * strip_rows * p.depth;
        }
        V sums[groups][tokens][vectors];
        HEADWISE_UNROLL
        for (int group = 0; group < groups; ++group) {
            T start[vectors * n];
            for (int i = 0; i < vectors * n; ++i) {
                const std::int64_t row = row_of(first + (group * strips_of_group + strip_of(i)) * distance, i);
                start[i] = p.bias && row < p.rows ? p.bias[row] : T(0);
            }
            HEADWISE_UNROLL
            for (int token = 0; token < tokens; ++token) {
                HEADWISE_UNROLL
                for (int v = 0; v < vectors; ++v) sums[group][token][v] = load<Arch, T>(start + v * n);
            }
        }
        const bool fetches = groups == 1 && p.far;  // two streams are few
        const T* b = p.b;
        for (std::int64_t k = 0; k < p.depth; ++k, b += n) {
            if (fetches) {
                HEADWISE_UNROLL
                for (int i = 0; i < strips; ++i) fetch_line<Arch>(a[i], 1024 / sizeof(T));
            }
            V x[tokens];
            HEADWISE_UNROLL
            for (int group = 0; group < groups; ++group) {
                V w[vectors];
                load_group(w, a + group * strips_of_group, std::make_integer_sequence<int, n>());
                HEADWISE_UNROLL
                for (int token = 0; token < tokens; ++token) {
                    if (group == 0) x[token] = set<Arch, T>(b[token]);
                    HEADWISE_UNROLL
                    for (int v = 0; v < vectors; ++v)
                        sums[group][token][v] = multiply_add(w[v], x[token], sums[group][token][v]);
                }
            }
            HEADWISE_UNROLL
            for (int i = 0; i < strips; ++i) a[i] += strip_rows;
        }
        HEADWISE_UNROLL
        for (int group = 0; group < groups; ++group)
            finish<tokens>(p, first + group * strips_of_group * distance, distance, sums[group]);
    }

    /// Of a group, the strip that number i of its vectors belongs to, and its row where that is strip `strip` of all.
    static constexpr int strip_of(int i)
    {
        return i < head * strips_of_group ? i / head : (i - head * strips_of_group) / tail;
    }
    static constexpr std::int64_t row_of(std::int64_t strip, int i)
    {
        return strip * strip_rows + (i < head * strips_of_group ? i % head : head + (i - head * strips_of_group) % tail);
    }

    template <int... i>
    HEADWISE_INLINE static void load_group(V* w, const T* const* a, std::integer_sequence<int, i...>)
    {
        if constexpr (strips_of_group == 1) {
            HEADWISE_UNROLL
            for (int v = 0; v < vectors; ++v) w[v] = load<Arch, T>(a[0] + v * n);
        } else if constexpr (strips_of_group == 2) {
            w[0] = load<Arch, T>(a[0]);
            w[1] = load<Arch, T>(a[1]);
            w[2] = from_native<Arch, T>(
                __builtin_shufflevector(numbers<tail>(a[0] + head), numbers<tail>(a[1] + head), i...));
        } else {
            static_assert(strips_of_group == 4);
            w[0] = from_native<Arch, T>(__builtin_shufflevector(numbers<head>(a[0]), numbers<head>(a[1]), i...));
            w[1] = from_native<Arch, T>(__builtin_shufflevector(numbers<head>(a[2]), numbers<head>(a[3]), i...));
            const auto tails = [&](int first) __attribute__((always_inline)) {
                return __builtin_shufflevector(numbers<tail>(a[first] + head), numbers<tail>(a[first + 1] + head), 0, 1,
                                               2, 3, 4, 5, 6, 7);
            };
            w[2] = from_native<Arch, T>(__builtin_shufflevector(tails(0), tails(2), i...));
        }
    }

    template <int count>
    HEADWISE_INLINE static auto numbers(const T* from)
    {
        typename Numbers<T, count>::type x;
        __builtin_memcpy(&x, from, sizeof x);
        return x;
    }

    /// Writes the rows of a group's strips `first`, `first` + distance, ..., zeros where there is no token.
    template <int tokens>
    static void finish(const Projection<T>& p, std::int64_t first, std::int64_t distance,
                       const V (&sums)[tokens][vectors])
    {
        alignas(64) T numbers[tokens][vectors * n];
        for (int token = 0; token < tokens; ++token)
            for (int v = 0; v < vectors; ++v) write(numbers[token] + v * n, sums[token][v]);
        for (int i = 0; i < vectors * n; ++i) {
            const std::int64_t row = row_of(first + strip_of(i) * distance, i);
            if (row >= p.rows) continue;
            T* const c = p.c + row * n;
            write(c, set<Arch, T>(T(0)));
            for (int token = 0; token < tokens; ++token) c[token] = numbers[token][i];
        }
    }
};

}  // namespace headwise::kernels
