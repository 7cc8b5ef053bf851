// What happens to a tile of scores between the product and the softmax, one pass for each term. All work on keys x W
// scores in place; key index 0 of the tile is key `first` of the sequence.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/exp2.hpp"

namespace headwise::kernels {

/// A tile of scores and whose rows its lanes are.
template <class T>
struct ScoreTile {
    T* s;                      ///< keys x W
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
    const auto cap = set<Arch, T>(softcap);
    const auto inverse = set<Arch, T>(T(1) / softcap);
    const std::int64_t end = tile.keys * tile.vectors * lanes_of<Arch, T>;
    for (std::int64_t i = 0; i < end; i += lanes_of<Arch, T>)
        write(tile.s + i, cap * tanh_of<Arch, T>(load<Arch, T>(tile.s + i) * inverse));
}

/// s[key][lane] += slope[lane] * (key - position[lane]). The part up to the tile is formed in double, so that far
/// positions do not lose the distances within the tile.
template <class Arch, class T>
void add_alibi(const ScoreTile<T>& tile)
{
    constexpr int n = lanes_of<Arch, T>;
    for (int lane = 0; lane < tile.vectors * n; lane += n) {
        alignas(64) T slopes[n] = {};
        alignas(64) T starts[n] = {};
        for (int i = 0; i < n && lane + i < tile.row_count; ++i) {
            const AttendRow<T>& row = tile.rows[lane + i];
            const double distance = static_cast<double>(tile.first) - static_cast<double>(row.position);
            slopes[i] = row.alibi_slope;
            starts[i] = static_cast<T>(static_cast<double>(row.alibi_slope) * distance);
        }
        const auto slope = load<Arch, T>(slopes);
        const auto start = load<Arch, T>(starts);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            T* s = tile.s + key * tile.vectors * n + lane;
            const auto bias = multiply_add(slope, set<Arch, T>(static_cast<T>(key)), start);
            write(s, load<Arch, T>(s) + bias);
        }
    }
}

/// s += mask, and -inf where the mask is -inf, whatever s is; maximum[lane] = max(maximum[lane], s[.][lane]) in the same
/// pass, where a maximum is given.
template <class Arch, class T, int Vectors>
HEADWISE_INLINE void add_mask(const ScoreTile<T>& tile, const T* mask, T* maximum)
{
    constexpr int n = lanes_of<Arch, T>;
    const auto minus_infinity = set<Arch, T>(-infinity<T>);
    Vec<Arch, T> top[Vectors];
    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) top[v] = minus_infinity;
    for (std::int64_t i = 0; i < tile.keys * Vectors * n; i += Vectors * n) {
        HEADWISE_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            const auto m = load<Arch, T>(mask + i + v * n);
            T* s = tile.s + i + v * n;
            const auto sum = xsimd::select(m == minus_infinity, minus_infinity, load<Arch, T>(s) + m);
            write(s, sum);
            top[v] = raised(top[v], sum);
        }
    }
    if (!maximum) return;
    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) write(maximum + v * n, raised(load<Arch, T>(maximum + v * n), top[v]));
}

template <class Arch, class T>
void add_mask(const ScoreTile<T>& tile, const T* mask, T* maximum)
{
    if (tile.vectors == 2) add_mask<Arch, T, 2>(tile, mask, maximum);
    else add_mask<Arch, T, 1>(tile, mask, maximum);
}

/// The keys of the tile that every lane sees: [all_from, all_to). Some lanes do not see those outside it.
struct CommonKeys {
    std::int64_t all_from;
    std::int64_t all_to;
};

template <class Arch, class T>
CommonKeys common_keys(const ScoreTile<T>& tile)
{
    CommonKeys common{0, tile.keys};
    for (std::int64_t i = 0; i < tile.row_count; ++i) {
        const std::int64_t from = tile.rows[i].first_key - tile.first;
        const std::int64_t to = tile.rows[i].end_key - tile.first;
        if (from > common.all_from) common.all_from = from;
        if (to < common.all_to) common.all_to = to;
    }
    if (common.all_from > tile.keys) common.all_from = tile.keys;
    if (common.all_to < common.all_from) common.all_to = common.all_from;
    return common;
}

/// s = -inf outside each lane's [first_key, end_key). Lanes without a row keep their scores.
template <class Arch, class T>
void exclude_keys(const ScoreTile<T>& tile, const CommonKeys& common)
{
    constexpr int n = lanes_of<Arch, T>;
    const auto minus_infinity = set<Arch, T>(-infinity<T>);
    const auto within = [&](std::int64_t key) {
        return static_cast<T>(key < 0 ? 0 : key > tile.keys ? tile.keys : key);
    };
    for (int lane = 0; lane < tile.vectors * n; lane += n) {
        alignas(64) T firsts[n] = {};
        alignas(64) T ends[n];
        for (int i = 0; i < n; ++i) {
            const bool has_row = lane + i < tile.row_count;
            if (has_row) firsts[i] = within(tile.rows[lane + i].first_key - tile.first);
            ends[i] = has_row ? within(tile.rows[lane + i].end_key - tile.first) : static_cast<T>(tile.keys);
        }
        const auto first = load<Arch, T>(firsts);
        const auto end = load<Arch, T>(ends);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            if (key == common.all_from) key = common.all_to;
            if (key >= tile.keys) break;
            T* s = tile.s + key * tile.vectors * n + lane;
            const auto k = set<Arch, T>(static_cast<T>(key));
            const auto low = xsimd::select(k < first, minus_infinity, load<Arch, T>(s));
            write(s, xsimd::select(k < end, low, minus_infinity));
        }
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
