// The mask of a panel's rows, read as it lies in memory: which tiles of it are open or excluded, and its sum with a tile
// of scores.
#pragma once

#include "kernels/score_terms.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// What a tile of a mask does to the scores of its keys.
enum class MaskKind { open, mixed, excluded };

/// Row i of the mask begins at rows[i].mask; a boolean adds 0 or -inf, any other element its value.
template <class Arch, class T>
struct MaskRows {
    const AttendRow<T>* rows;
    std::int64_t row_count;
    ElementType type;
    std::ptrdiff_t stride;

    /// Whether keys [first, first + keys) are all open, all excluded, or neither, which is usually seen soon.
    MaskKind kind(std::int64_t first, std::int64_t keys) const
    {
        return with_type([&]<class E>(const E*) { return kind_as<E>(first, keys); });
    }

    /// s += mask, and -inf where the mask is -inf, whatever s is; maximum[lane] = max(maximum[lane], s[.][lane]) in the
    /// same pass, where a maximum is given.
    void add(const ScoreTile<T>& tile, T* maximum) const
    {
        with_type([&]<class E>(const E*) { add_as<E>(tile, maximum); });
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    using V = Vec<Arch, T>;

    /// function(a null pointer to the type of the mask's elements)
    template <class Function>
    auto with_type(const Function& function) const
    {
        switch (type) {
            case ElementType::boolean: return function(static_cast<const bool*>(nullptr));
            case ElementType::float32: return function(static_cast<const float*>(nullptr));
            case ElementType::float64: return function(static_cast<const double*>(nullptr));
            case ElementType::bfloat16: return function(static_cast<const bfloat16*>(nullptr));
            case ElementType::float16: break;
        }
        return function(static_cast<const float16*>(nullptr));
    }

    /// What consecutive elements add.
    template <class E>
    HEADWISE_INLINE static V vector(const E* from)
    {
        if constexpr (std::is_same_v<E, bool>) return load_boolean_bias<Arch, T>(from);
        else return load_widened<Arch, T>(from);
    }

    template <class E>
    HEADWISE_INLINE static T number(E element)
    {
        if constexpr (std::is_same_v<E, bool>) return element ? T(0) : -infinity<T>;
        else return widened<Arch, T>(element);
    }

    template <class E>
    const E* row(std::int64_t lane, std::int64_t first) const
    {
        // Lanes past the rows repeat the last one.
        return static_cast<const E*>(rows[lane < row_count ? lane : row_count - 1].mask) + first * stride;
    }

    template <class E>
    MaskKind kind_as(std::int64_t first, std::int64_t keys) const
    {
        bool open = true;
        bool excluded = true;
        for (std::int64_t i = 0; i < row_count && (open || excluded); ++i) {
            if (i > 0 && rows[i].mask == rows[i - 1].mask) continue;
            const E* from = row<E>(i, first);
            std::int64_t key = 0;
            if (stride == 1) {
                for (; key + n <= keys && (open || excluded); key += n) {
                    const V m = vector(from + key);
                    open = open && xsimd::all(m == set<Arch, T>(T(0)));
                    excluded = excluded && xsimd::all(m == set<Arch, T>(-infinity<T>));
                }
            }
            for (; key < keys && (open || excluded); ++key) {
                const T m = number(from[key * stride]);
                open = open && m == T(0);
                excluded = excluded && m == -infinity<T>;
            }
        }
        return open ? MaskKind::open : excluded ? MaskKind::excluded : MaskKind::mixed;
    }

    /// What the mask makes of scores. A boolean's m is 0 or -inf, so its sign tells which.
    template <class E>
    HEADWISE_INLINE static V masked(V s, V m)
    {
        if constexpr (std::is_same_v<E, bool>) return negative_or<Arch, T>(m, s);
        const V minus_infinity = set<Arch, T>(-infinity<T>);
        return xsimd::select(m == minus_infinity, minus_infinity, s + m);
    }

    template <class E>
    void add_as(const ScoreTile<T>& tile, T* maximum) const
    {
        bool one_row = true;
        for (std::int64_t i = 1; i < row_count; ++i) one_row = one_row && rows[i].mask == rows[0].mask;
        for (int lane = 0; lane < tile.vectors * n; lane += n) {
            const V top = one_row ? add_row<E>(tile, lane) : add_square<E>(tile, lane);
            if (maximum) write(maximum + lane, raised(load<Arch, T>(maximum + lane), top));
        }
    }

    /// Lanes lane .. lane + n - 1, which share one row. Returns their maximum.
    template <class E>
    V add_row(const ScoreTile<T>& tile, int lane) const
    {
        const E* from = row<E>(0, tile.first);
        V top = set<Arch, T>(-infinity<T>);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const V sum = masked<E>(load<Arch, T>(s), set<Arch, T>(number(from[key * stride])));
            write(s, sum);
            top = raised(top, sum);
        }
        return top;
    }

    /// The same for lanes with rows of their own: squares of n keys x n lanes are transposed in registers.
    template <class E>
    V add_square(const ScoreTile<T>& tile, int lane) const
    {
        const E* from[n];
        for (int i = 0; i < n; ++i) from[i] = row<E>(lane + i, tile.first);
        V top = set<Arch, T>(-infinity<T>);
        const auto add_key = [&](std::int64_t key, V m) __attribute__((always_inline)) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const V sum = masked<E>(load<Arch, T>(s), m);
            write(s, sum);
            top = raised(top, sum);
        };
        std::int64_t key = 0;
        if (stride == 1) {
            for (; key + n <= tile.keys; key += n) {
                V square[n];
                HEADWISE_UNROLL
                for (int i = 0; i < n; ++i) square[i] = vector(from[i] + key);
                transpose<Arch, T>(square);
                HEADWISE_UNROLL
                for (int i = 0; i < n; ++i) add_key(key + i, square[i]);
            }
        }
        for (; key < tile.keys; ++key) {
            alignas(64) T column[n];
            for (int i = 0; i < n; ++i) column[i] = number(from[i][key * stride]);
            add_key(key, load<Arch, T>(column));
        }
        return top;
    }
};

}  // namespace headwise::kernels
