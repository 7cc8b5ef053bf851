// The mask of a panel's rows, read as it lies in memory: which tiles of it are open or excluded, and its sum with a tile
// of scores.
#pragma once

#include "kernels/mask_element.hpp"
#include "kernels/score_terms.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// What a tile of a mask does to the scores of its keys.
enum class MaskKind { open, mixed, excluded };

/// Row i of the mask begins at rows[i].mask.
template <class Arch, class T>
struct MaskRows {
    const AttendRow<T>* rows;
    std::int64_t row_count;
    ElementType type;
    std::ptrdiff_t stride;

    /// Whether keys [first, first + keys) are all open, all excluded, or neither, which is usually seen soon.
    MaskKind kind(std::int64_t first, std::int64_t keys) const
    {
        return with_mask_type(type, [&]<class E>(const E*) { return kind_as<E>(first, keys); });
    }

    /// s += mask, and -inf where the mask is -inf, whatever s is; maximum[lane] = max(maximum[lane], s[.][lane]) in the
    /// same pass, where a maximum is given.
    void add(const ScoreTile<T>& tile, T* maximum) const
    {
        with_mask_type(type, [&]<class E>(const E*) { add_as<E>(tile, maximum); });
    }

private:
    static constexpr int n = lanes_of<Arch, T>;
    using V = Vec<Arch, T>;

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
                    const V m = MaskElement<Arch, T, E>::vector(from + key);
                    open = open && xsimd::all(m == set<Arch, T>(T(0)));
                    excluded = excluded && xsimd::all(m == set<Arch, T>(-infinity<T>));
                }
            }
            for (; key < keys && (open || excluded); ++key) {
                const T m = MaskElement<Arch, T, E>::number(from[key * stride]);
                open = open && m == T(0);
                excluded = excluded && m == -infinity<T>;
            }
        }
        return open ? MaskKind::open : excluded ? MaskKind::excluded : MaskKind::mixed;
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
        using Element = MaskElement<Arch, T, E>;
        const E* from = row<E>(0, tile.first);
        V top = set<Arch, T>(-infinity<T>);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const V sum = Element::masked(load<Arch, T>(s), set<Arch, T>(Element::number(from[key * stride])));
            write(s, sum);
            top = raised(top, sum);
        }
        return top;
    }

    /// The same for lanes with rows of their own: squares of n keys x n lanes are transposed in registers.
    template <class E>
    V add_square(const ScoreTile<T>& tile, int lane) const
    {
        using Element = MaskElement<Arch, T, E>;
        const E* from[n];
        for (int i = 0; i < n; ++i) from[i] = row<E>(lane + i, tile.first);
        V top = set<Arch, T>(-infinity<T>);
        const auto add_key = [&](std::int64_t key, V m) __attribute__((always_inline)) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const V sum = Element::masked(load<Arch, T>(s), m);
            write(s, sum);
            top = raised(top, sum);
        };
        std::int64_t key = 0;
        if (stride == 1) {
            for (; key + n <= tile.keys; key += n) {
                typename Native<Arch, T>::Values square[n];
                HEADWISE_UNROLL
                for (int i = 0; i < n; ++i) square[i] = values_of(Element::vector(from[i] + key));
                transpose<Arch, T>(square);
                HEADWISE_UNROLL
                for (int i = 0; i < n; ++i) add_key(key + i, from_native<Arch, T>(square[i]));
            }
        }
        for (; key < tile.keys; ++key) {
            alignas(64) T column[n];
            for (int i = 0; i < n; ++i) column[i] = Element::number(from[i][key * stride]);
            add_key(key, load<Arch, T>(column));
        }
        return top;
    }
};

}  // namespace headwise::kernels
