// One tile of a mask, transposed to the scores' layout: keys x W numbers that are added to the scores.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/panel_rows.hpp"

namespace headwise::kernels {

/// What a tile of a mask does to the scores of its keys.
enum class MaskKind { open, mixed, excluded };

/// Row i of the mask begins at rows[i].mask; a boolean adds 0 or -inf, any other element its value.
template <class Arch, class T>
struct MaskTile {
    const AttendRow<T>* rows;
    std::int64_t row_count;
    ElementType type;
    std::ptrdiff_t stride;
    int vectors;

    /// to[key][lane] = row(lane)[first + key].
    void load(T* to, std::int64_t first, std::int64_t keys) const
    {
        switch (type) {
            case ElementType::boolean: return load_boolean(to, first, keys);
            case ElementType::float32: return load_as<float>(to, first, keys);
            case ElementType::float64: return load_as<double>(to, first, keys);
            case ElementType::bfloat16: return load_as<bfloat16>(to, first, keys);
            case ElementType::float16: return load_as<float16>(to, first, keys);
        }
    }

    /// Whether the tile's numbers, as loaded, exclude all, some or none. Looks no further than it has to: a tile that
    /// is neither all 0 nor all -inf usually shows it in its first rows.
    MaskKind kind(const T* tile, std::int64_t keys) const
    {
        if (all_equal(tile, keys, T(0))) return MaskKind::open;
        return all_equal(tile, keys, -infinity<T>) ? MaskKind::excluded : MaskKind::mixed;
    }

private:
    bool all_equal(const T* tile, std::int64_t keys, T number) const
    {
        const auto wanted = set<Arch, T>(number);
        const std::int64_t end = keys * vectors * lanes_of<Arch, T>;
        for (std::int64_t i = 0; i < end; i += lanes_of<Arch, T>)
            if (!xsimd::all(kernels::load<Arch, T>(tile + i) == wanted)) return false;
        return true;
    }

    /// Lanes past the rows repeat the last row, so that they do not change what kind of tile it is.
    HEADWISE_INLINE const void* row(std::int64_t lane) const
    {
        return rows[lane < row_count ? lane : row_count - 1].mask;
    }

    template <class E>
    void load_as(T* to, std::int64_t first, std::int64_t keys) const
    {
        const E* from[TileShape<Arch, T>::panel_tokens];
        const int width = vectors * lanes_of<Arch, T>;
        for (int lane = 0; lane < width; ++lane) from[lane] = static_cast<const E*>(row(lane)) + first * stride;
        gather_panel<Arch, T, E>(to, vectors, from, width, stride, keys, T(1));
    }

    void load_boolean(T* to, std::int64_t first, std::int64_t keys) const
    {
        constexpr int n = lanes_of<Arch, T>;
        const int width = vectors * n;
        const auto from = [&](std::int64_t lane) { return static_cast<const bool*>(row(lane)) + first * stride; };
        for (int lane = 0; lane < width; lane += n) {
            std::int64_t key = 0;
            if (stride == 1) {
                for (; key + n <= keys; key += n) {
                    Vec<Arch, T> square[n];
                    HEADWISE_UNROLL
                    for (int i = 0; i < n; ++i) square[i] = load_boolean_bias<Arch, T>(from(lane + i) + key);
                    transpose<Arch, T>(square);
                    HEADWISE_UNROLL
                    for (int i = 0; i < n; ++i) write(to + (key + i) * width + lane, square[i]);
                }
            }
            for (; key < keys; ++key)
                for (int i = 0; i < n; ++i)
                    to[key * width + lane + i] = from(lane + i)[key * stride] ? T(0) : -infinity<T>;
        }
    }
};

}  // namespace headwise::kernels
