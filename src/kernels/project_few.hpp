// The projection of few tokens, as one token of a sequence that grows. A panel costs what its vectors cost, whether
// their lanes hold tokens or not; with one token the time is what it takes to read the matrix. Here the width lies in
// the lanes:
//
//     c[m][token] = bias[m] + sum over k of A(m, k) b[k][token]          rows m in the lanes
//
// As many strips as fill whole vectors are a group. Each sum runs over k in order, so a token gets the bits that it
// gets in a panel.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

template <class Arch, class T>
class ProjectFew {
public:
    /// Whether this beats a panel for as many tokens: up to 4, and where a quarter of the panel's lanes would be idle.
    /// (Zen 3, AVX2, whole layers of 1, 2, 3 and 4 tokens: 1.9 to 2.7, 1.6 to 2.7, 1.5 to 2.0 and 1.4 to 1.8 times as
    /// fast; of 5 and 6 1.2 to 1.5 and 1.1 to 1.3, from memory 1.1 to 1.2; of 9 and 10 1.2 and 1.1; of 12 0.9.)
    static constexpr bool takes(std::int64_t tokens)
    {
        if (n < 4 || tokens <= 4) return tokens <= n;
        return tokens <= most_tokens && 4 * tokens <= 3 * width_of(static_cast<int>(tokens));
    }

    /// Whether it beats the second vector of a panel of two.
    static constexpr bool takes_second_vector(std::int64_t tokens)
    {
        return TileShape<Arch, T>::narrow_is_cheap && tokens > n && takes(tokens - n);
    }

    /// Whether either is the case.
    static constexpr bool takes_last(std::int64_t tokens) { return takes(tokens) || takes_second_vector(tokens); }

    /// The columns of c for p.tokens tokens, and those after them up to a whole vector; p.vectors may be more.
    static void run(const Projection<T>& p)
    {
        using Function = void (*)(const Projection<T>&);
        static constexpr auto functions = []<int... I>(std::integer_sequence<int, I...>) {
            struct Table {
                Function of_tokens[sizeof...(I)];
            };
            return Table{{function_of<I + 1>()...}};
        }(std::make_integer_sequence<int, most_tokens>());
        functions.of_tokens[p.tokens - 1](p);
    }

private:
    using V = Vec<Arch, T>;
    static constexpr int n = lanes_of<Arch, T>;

    /// W of a panel that holds as many tokens.
    static constexpr int width_of(int tokens) { return (tokens + n - 1) / n * n; }

    static constexpr bool many_registers = TileShape<Arch, T>::registers == 32;

    // A strip is a head of 8 rows and a tail of 4. The vectors of a group hold the heads of its strips, then the tails.
    static constexpr int head = 8;
    static constexpr int tail = strip_rows - head;

    // Tokens come in one set or two, of which the second finds the group's strips near. The sums of a set for all
    // vectors of the smallest group fit the registers beside the operands up to 4 tokens, 8 where there are 32
    // registers. Larger sets take a group twice as large, two vectors at a time.
    static constexpr int most_tokens = 10;
    static constexpr int most_of_set = many_registers ? 8 : 6;
    static constexpr int most_of_whole_group = many_registers ? 8 : 4;

    static constexpr int first_set(int tokens) { return tokens <= most_of_set ? tokens : (tokens + 1) / 2; }

    /// As many bytes of a group stay in the first-level cache until all its vectors and both sets have used them.
    static constexpr std::int64_t near_bytes = 12 << 10;

    /// Strips that fill whole vectors, and how many of these are worked on at a time.
    struct Group {
        int strips;
        int at_once;

        constexpr int vectors() const { return strips * strip_rows / n; }
    };
    static constexpr int least_strips = n > tail ? n / tail : 1;
    static constexpr Group whole{least_strips, least_strips * strip_rows / n};
    static constexpr Group in_pairs{2 * least_strips, 2};
    static_assert(whole.vectors() * n == whole.strips * strip_rows && in_pairs.vectors() % 2 == 0);

    template <int tokens>
    static constexpr auto function_of() -> void (*)(const Projection<T>&)
    {
        if constexpr (takes(tokens)) return &run_tokens<tokens>;
        else return nullptr;
    }

    template <int tokens>
    static void run_tokens(const Projection<T>& p)
    {
        constexpr Group group = first_set(tokens) <= most_of_whole_group ? whole : in_pairs;
        const std::int64_t strips = (p.rows + strip_rows - 1) / strip_rows;
        if constexpr (tokens <= most_of_whole_group) {
            // Some groups, whose strips are far from each other, are read side by side, which keeps more reads from
            // memory in flight than one stream does (few_rows.hpp).
            constexpr int groups = groups_of(tokens);
            constexpr int together = groups * group.strips;
            const std::int64_t distance = strips / together;
            for (std::int64_t strip = 0; strip < distance; ++strip)
                do_groups<tokens, groups, group>(p, strip, distance);
            for (std::int64_t strip = together * distance; strip < strips; strip += group.strips)
                do_groups<tokens, 1, group>(p, strip, 1);
        } else {
            std::int64_t strip = 0;
            for (; strip + whole.strips < strips; strip += group.strips) do_groups<tokens, 1, group>(p, strip, 1);
            if (strip < strips) do_groups<tokens, 1, Group{whole.strips, group.at_once}>(p, strip, 1);
        }
    }

    /// As many groups side by side as leave registers for the operands.
    static constexpr int groups_of(int tokens)
    {
        const int fitting = (TileShape<Arch, T>::registers - 4) / (whole.vectors() * tokens);
        const int most = 8 / whole.strips;
        return fitting < 1 ? 1 : fitting < most ? fitting : most;
    }

    /// The groups of strips `first`, `first` + distance, ... What is past the last strip is another one once more.
    template <int tokens, int groups, Group group>
    HEADWISE_INLINE static void do_groups(const Projection<T>& p, std::int64_t first, std::int64_t distance)
    {
        constexpr int strips = groups * group.strips;
        const std::int64_t last = (p.rows - 1) / strip_rows;
        const T* a[strips];
        HEADWISE_UNROLL
        for (int i = 0; i < strips; ++i) {
            const std::int64_t strip = first + i * distance < last ? first + i * distance : last;
            a[i] = p.a + strip * strip_rows * p.depth;
        }
        Sums<tokens, groups, group> sums;
        for (int g = 0; g < groups; ++g) {
            T start[group.vectors() * n] = {};
            if (p.bias)
                each_row<group>(p, first, distance, g, [&](int i, std::int64_t row) { start[i] = p.bias[row]; });
            for (int token = 0; token < tokens; ++token)
                for (int i = 0; i < group.vectors() * n; i += n) write(sums.of[g][token] + i, load<Arch, T>(start + i));
        }
        constexpr int set = first_set(tokens);
        constexpr std::int64_t near_steps = near_bytes / (group.strips * strip_rows * sizeof(T));
        const std::int64_t steps = is_used_once<tokens, group> ? p.depth : near_steps;
        for (std::int64_t k = 0; k < p.depth; k += steps) {
            const std::int64_t end = k + steps < p.depth ? k + steps : p.depth;
            add_products<0, set, 0>(p, a, k, end, sums);
            if constexpr (tokens > set) add_products<set, tokens - set, 0>(p, a, k, end, sums);
        }
        for (int g = 0; g < groups; ++g) finish<group>(p, first, distance, g, sums.of[g]);
    }

    /// Whether one set of tokens and all vectors use a step of k together.
    template <int tokens, Group group>
    static constexpr bool is_used_once = first_set(tokens) == tokens && group.at_once == group.vectors();

    template <int tokens, int groups, Group group>
    struct Sums {
        alignas(64) T of[groups][tokens][group.vectors() * n];
    };

    /// Steps [first, end) of k, for `count` tokens from first_token on and all vectors from first_vector on.
    template <int first_token, int count, int first_vector, int tokens, int groups, Group group>
    HEADWISE_INLINE static void add_products(const Projection<T>& p, const T* const* strips, std::int64_t first,
                                             std::int64_t end, Sums<tokens, groups, group>& all)
    {
        constexpr int left = group.vectors() - first_vector;
        constexpr int vectors = left < group.at_once ? left : group.at_once;
        const std::int64_t width = p.vectors * n;
        const T* a[groups * group.strips];
        HEADWISE_UNROLL
        for (int i = 0; i < groups * group.strips; ++i) a[i] = strips[i] + first * strip_rows;
        V sums[groups][count][vectors];
        HEADWISE_UNROLL
        for (int g = 0; g < groups; ++g) {
            HEADWISE_UNROLL
            for (int token = 0; token < count; ++token) {
                HEADWISE_UNROLL
                for (int v = 0; v < vectors; ++v)
                    sums[g][token][v] = load<Arch, T>(all.of[g][first_token + token] + (first_vector + v) * n);
            }
        }
        // One group's streams from far are too few. What follows soon is fetched, or, where steps are used several times,
        // the next ones while these are for the last time.
        constexpr bool is_last = first_token + count == tokens && vectors == left;
        const bool fetches = groups == 1 && is_last && p.far;
        const std::int64_t ahead = is_used_once<tokens, group> ? 1024 / std::int64_t{sizeof(T)}
                                   : end < p.depth            ? (end - first) * strip_rows
                                                              : (group.strips * p.depth - first) * strip_rows;
        const T* b = p.b + first * width + first_token;
        for (std::int64_t k = first; k < end; ++k, b += width) {
            if (fetches) {
                HEADWISE_UNROLL
                for (int i = 0; i < group.strips; ++i) fetch_line<Arch>(a[i], ahead);
            }
            HEADWISE_UNROLL
            for (int g = 0; g < groups; ++g) {
                asm("" : "+r"(b));  // or GCC keeps the tokens' numbers for all groups, and some of the sums in memory
                V w[vectors];
                load_vectors<group, first_vector>(w, a + g * group.strips, std::make_integer_sequence<int, vectors>());
                HEADWISE_UNROLL
                for (int token = 0; token < count; ++token) {
                    const V x = set<Arch, T>(b[token]);
                    HEADWISE_UNROLL
                    for (int v = 0; v < vectors; ++v)
                        sums[g][token][v] = multiply_add(w[v], x, sums[g][token][v]);
                }
            }
            HEADWISE_UNROLL
            for (int i = 0; i < groups * group.strips; ++i) a[i] += strip_rows;
        }
        HEADWISE_UNROLL
        for (int g = 0; g < groups; ++g) {
            HEADWISE_UNROLL
            for (int token = 0; token < count; ++token) {
                HEADWISE_UNROLL
                for (int v = 0; v < vectors; ++v)
                    write(all.of[g][first_token + token] + (first_vector + v) * n, sums[g][token][v]);
            }
        }
        if constexpr (vectors < left)
            add_products<first_token, count, first_vector + vectors>(p, strips, first, end, all);
    }

    /// Of a group, the strip that number i of its vectors belongs to, and its row of that strip.
    template <Group group>
    static constexpr int strip_of(int i)
    {
        return i < head * group.strips ? i / head : (i - head * group.strips) / tail;
    }
    template <Group group>
    static constexpr int row_in_strip(int i)
    {
        return i < head * group.strips ? i % head : head + (i - head * group.strips) % tail;
    }

    /// each(i, row) for the rows of the matrix that the g-th of the groups of strips `first`, `first` + distance, ...
    /// has, number i of its vectors being row `row`'s.
    template <Group group, class Each>
    HEADWISE_INLINE static void each_row(const Projection<T>& p, std::int64_t first, std::int64_t distance, int g,
                                         const Each& each)
    {
        for (int strip = 0; strip < group.strips; ++strip) {
            const std::int64_t row = (first + (g * group.strips + strip) * distance) * strip_rows;
            const int of_strip = static_cast<int>(p.rows - row < strip_rows ? p.rows - row : strip_rows);
            for (int i = 0; i < of_strip; ++i)
                each(i < head ? strip * head + i : head * group.strips + strip * tail + i - head, row + i);
        }
    }

    template <Group group, int first_vector, int... v>
    HEADWISE_INLINE static void load_vectors(V* w, const T* const* a, std::integer_sequence<int, v...>)
    {
        ((w[v] = load_vector<group, first_vector + v>(a, std::make_integer_sequence<int, n>())), ...);
    }

    template <Group group, int vector, int... i>
    HEADWISE_INLINE static V load_vector(const T* const* a, std::integer_sequence<int, i...>)
    {
        constexpr int first = strip_of<group>(vector * n);
        constexpr int pieces = strip_of<group>(vector * n + n - 1) - first + 1;
        constexpr int row = row_in_strip<group>(vector * n);
        constexpr int size = n / pieces;
        const auto piece = [&](int of) __attribute__((always_inline)) { return load_numbers<Arch, size>(a[of] + row); };
        if constexpr (pieces == 1) {
            return load<Arch, T>(a[first] + row);
        } else if constexpr (pieces == 2) {
            return from_native<Arch, T>(__builtin_shufflevector(piece(first), piece(first + 1), i...));
        } else {
            static_assert(pieces == 4 && size == 4);
            const auto two = [&](int of) __attribute__((always_inline)) {
                return __builtin_shufflevector(piece(of), piece(of + 1), 0, 1, 2, 3, 4, 5, 6, 7);
            };
            return from_native<Arch, T>(__builtin_shufflevector(two(first), two(first + 2), i...));
        }
    }

    /// Writes the rows of the g-th group, zeros where there is no token.
    template <Group group, int tokens, int numbers>
    static void finish(const Projection<T>& p, std::int64_t first, std::int64_t distance, int g,
                       const T (&sums)[tokens][numbers])
    {
        const std::int64_t width = p.vectors * n;
        T* c[numbers] = {};  // null for rows past the matrix's last one
        each_row<group>(p, first, distance, g, [&](int i, std::int64_t row) { c[i] = p.c + row * width; });
        constexpr int m = square_lanes<Arch, T>;
        constexpr int columns = (tokens + n - 1) / n * n;
        for (int number = 0; number < numbers; number += m) {
            HEADWISE_UNROLL
            for (int token = 0; token < columns; token += m) {
                SquareRow<Arch, T> square[m] = {};
                HEADWISE_UNROLL
                for (int i = 0; i < m; ++i)
                    if (token + i < tokens) square[i] = load_numbers<Arch, m>(&sums[token + i][number]);
                transpose<Arch, T>(square);
                HEADWISE_UNROLL
                for (int i = 0; i < m; ++i)
                    if (c[number + i]) write_numbers<Arch>(c[number + i] + token, square[i]);
            }
        }
    }
};

}  // namespace headwise::kernels
