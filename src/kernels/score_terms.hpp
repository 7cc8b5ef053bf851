// What happens to a tile of scores between the product and the softmax, one pass for each term. All work on keys x W
// scores in place; key index 0 of the tile is key `first` of the sequence.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/exp2.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

/// A tile of scores and whose rows its lanes are.
template <class T>
struct ScoreTile {
    T* s;                      ///< keys x W
    std::int64_t of_grid;      ///< where the whole tile begins in the grid of key tiles
    std::int64_t first;
    std::int64_t keys;
    int vectors;
    const AttendRow<T>* rows;  ///< of the lanes; lanes from row_count on have none
    std::int64_t row_count;
};

/// s = softcap * tanh(s / softcap)
template <class Arch, class T>
void apply_softcap(const ScoreTile<T>& tile, T softcap)
{
    constexpr int n = lanes_of<Arch, T>;
    constexpr int at_once = 4;  // for the same reason as in exp2_parts
    const auto cap = set<Arch, T>(softcap);
    const auto inverse = set<Arch, T>(T(1) / softcap);
    const auto apply = [&]<int count>(T* s, std::integral_constant<int, count>) __attribute__((always_inline)) {
        Vec<Arch, T> x[count];
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i) x[i] = load<Arch, T>(s + i * n) * inverse;
        tanh_of<Arch, T>(x);
        HEADWISE_UNROLL
        for (int i = 0; i < count; ++i) write(s + i * n, cap * x[i]);
    };
    const std::int64_t vectors = tile.keys * tile.vectors;
    std::int64_t v = 0;
    for (; v + at_once <= vectors; v += at_once) apply(tile.s + v * n, std::integral_constant<int, at_once>());
    for (; v < vectors; ++v) apply(tile.s + v * n, std::integral_constant<int, 1>());
}

/// How far a key is from a row's position. In double first: the two may be further apart than std::int64_t reaches.
template <class Arch, class T>
T distance_of(const AttendRow<T>& row, std::int64_t key)
{
    return static_cast<T>(static_cast<double>(key) - static_cast<double>(row.position));
}

/// s[key][lane] += slope[lane] * (key - position[lane]). The distance is exact up to a tile less than 2^24 (2^53); it is
/// counted from where the tile begins in the grid, whatever keys the panel's other rows see, so that it is one number for a
/// row beyond, too.
template <class Arch, class T>
void add_alibi(const ScoreTile<T>& tile)
{
    constexpr int n = lanes_of<Arch, T>;
    const std::int64_t within = tile.first - tile.of_grid;
    for (int lane = 0; lane < tile.vectors * n; lane += n) {
        alignas(64) T slopes[n] = {};
        alignas(64) T starts[n] = {};
        for (int i = 0; i < n && lane + i < tile.row_count; ++i) {
            const AttendRow<T>& row = tile.rows[lane + i];
            slopes[i] = row.alibi_slope;
            starts[i] = distance_of<Arch>(row, tile.of_grid);
        }
        const auto slope = load<Arch, T>(slopes);
        const auto start = load<Arch, T>(starts);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const auto distance = start + set<Arch, T>(static_cast<T>(within + key));
            write(s, multiply_add(slope, distance, load<Arch, T>(s)));
        }
    }
}

/// Keys [from, to) of the tile.
template <class Arch, class T>
ScoreTile<T> part_of(const ScoreTile<T>& tile, std::int64_t from, std::int64_t to)
{
    ScoreTile<T> part = tile;
    part.s += from * tile.vectors * lanes_of<Arch, T>;
    part.first += from;
    part.keys = to - from;
    return part;
}

/// s = -inf outside each lane's [first_key, end_key). Lanes without a row keep their scores. maximum, unless null, is
/// raised to what is left.
template <class Arch, class T>
void exclude_keys(const ScoreTile<T>& tile, T* maximum = nullptr)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    const V minus_infinity = set<Arch, T>(-infinity<T>);
    const int width = tile.vectors * n;
    for (int lane = 0; lane < width; lane += n) {
        // Keys counted from the tile's first one, which T holds exactly where they are of the tile.
        alignas(64) T firsts[n];
        alignas(64) T ends[n];
        std::int64_t latest_first = 0;
        for (int i = 0; i < n; ++i) {
            const bool has_row = lane + i < tile.row_count;
            const std::int64_t first = has_row ? tile.rows[lane + i].first_key - tile.first : 0;
            const std::int64_t end = has_row ? tile.rows[lane + i].end_key - tile.first : tile.keys;
            firsts[i] = static_cast<T>(first < tile.keys ? first : tile.keys);
            ends[i] = static_cast<T>(end < tile.keys ? end : tile.keys);
            latest_first = first > latest_first ? first : latest_first;
        }
        const V first = load<Arch, T>(firsts);
        const V end = load<Arch, T>(ends);
        const auto exclude = [&]<bool before_first>(std::bool_constant<before_first>) __attribute__((always_inline)) {
            V key = set<Arch, T>(T(0));
            V highest = minus_infinity;
            for (T* s = tile.s + lane; s < tile.s + tile.keys * width; s += width, key = key + set<Arch, T>(T(1))) {
                V left = xsimd::select(key < end, load<Arch, T>(s), minus_infinity);
                if constexpr (before_first) left = xsimd::select(key < first, minus_infinity, left);
                write(s, left);
                highest = raised(highest, left);
            }
            if (maximum) write(maximum + lane, raised(load<Arch, T>(maximum + lane), highest));
        };
        if (latest_first > 0) exclude(std::true_type());
        else exclude(std::false_type());
    }
}

/// maximum[lane] = max(maximum[lane], s[.][lane])
template <class Arch, class T>
void raise_maximum(const ScoreTile<T>& tile, T* maximum)
{
    constexpr int n = lanes_of<Arch, T>;
    const int width = tile.vectors * n;
    for (int lane = 0; lane < width; lane += n) {
        // Two chains, to hide the latency of the comparison.
        auto even = load<Arch, T>(maximum + lane);
        auto odd = even;
        std::int64_t key = 0;
        for (; key + 2 <= tile.keys; key += 2) {
            even = raised(even, load<Arch, T>(tile.s + key * width + lane));
            odd = raised(odd, load<Arch, T>(tile.s + (key + 1) * width + lane));
        }
        if (key < tile.keys) even = raised(even, load<Arch, T>(tile.s + key * width + lane));
        write(maximum + lane, raised(even, odd));
    }
}

}  // namespace headwise::kernels
