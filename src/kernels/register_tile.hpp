// The micro-kernel: one register tile of a product. Every product of the layer is made of these.
//
//     C[m][lane] = start[m][lane] + sum over k of A(m, k) * B[k][lane]      m < Rows, lane < W = Vectors * lanes
//
// A is read by scalar broadcast, B and C are panels (rows of W numbers). Nothing is read past A's last row and column.
// The sum over k runs in order; for each stage the start and the end differ:
//
//   project  start is bias[m], or 0                      A(m, k) = a[m + k * stride]   (a strip of packed weights)
//   project_far  the same, and fetches what is read next
//   score    start is 0; the tile's maximum is kept      A(m, k) = a[m * stride + k]   (rows of K)
//   blend    start is correction[lane] * C[m][lane], or 0   A(m, k) = a[m + k * stride]   (columns of V)
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/tile_shape.hpp"

namespace headwise::kernels {

enum class Stage { project, project_far, score, blend };

constexpr bool projects(Stage stage)
{
    return stage == Stage::project || stage == Stage::project_far;
}

/// What a tile needs beside A, B and C, by stage; null where the start is 0.
template <class T>
struct TileOperands {
    const T* a;
    std::ptrdiff_t a_stride;
    const T* b;
    T* c;
    std::int64_t depth;
    const T* bias = nullptr;        ///< project: one number a row
    const T* correction = nullptr;  ///< blend: W numbers
    T* row_maximum = nullptr;       ///< score: W numbers, in and out
    const T* ahead = nullptr;       ///< project_far: what is fetched meanwhile, `depth` numbers a row
};

/// Pitch: the vectors of a row of B and C, of which the tile has the first `Vectors`.
template <class Arch, class T, Stage stage, int Rows, int Vectors, int Pitch>
HEADWISE_INLINE void register_tile(const TileOperands<T>& t)
{
    using V = Vec<Arch, T>;
    constexpr int n = lanes_of<Arch, T>;
    constexpr int width = Pitch * n;
    constexpr int steps = 2;  // of k in one turn of the loop; 4 and 8 lost up to a tenth, 1 a little
    V accumulator[Rows][Vectors];

    HEADWISE_UNROLL
    for (int m = 0; m < Rows; ++m) {
        HEADWISE_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            accumulator[m][v] = set<Arch, T>(T(0));
            if constexpr (projects(stage))
                if (t.bias) accumulator[m][v] = set<Arch, T>(t.bias[m]);
            if constexpr (stage == Stage::blend)
                if (t.correction)
                    accumulator[m][v] = load<Arch, T>(t.correction + v * n) * load<Arch, T>(t.c + m * width + v * n);
        }
    }

    const T* row[Rows];
    if constexpr (stage == Stage::score) {
        HEADWISE_UNROLL
        for (int m = 0; m < Rows; ++m) row[m] = t.a + m * t.a_stride;
    }
    const T* b = t.b;
    const auto add_products = [&](std::int64_t k, const T* column) __attribute__((always_inline)) {
        V b_row[Vectors];
        HEADWISE_UNROLL
        for (int v = 0; v < Vectors; ++v) b_row[v] = load<Arch, T>(b + v * n);
        HEADWISE_UNROLL
        for (int m = 0; m < Rows; ++m) {
            const V element = set<Arch, T>(stage == Stage::score ? row[m][k] : column[m]);
            HEADWISE_UNROLL
            for (int v = 0; v < Vectors; ++v) accumulator[m][v] = multiply_add(element, b_row[v], accumulator[m][v]);
        }
        b += width;
    };
    const T* column = t.a;
    const T* ahead = t.ahead;
    std::int64_t k = 0;
    using Shape = TileShape<Arch, T>;
    constexpr int last_steps = Rows * Vectors > Shape::stores_at_once ? Shape::steps_between : 0;
    const bool ends_by_vector = last_steps > 0 && t.depth >= last_steps;
    const std::int64_t depth = ends_by_vector ? t.depth - last_steps : t.depth;
    for (; k + steps <= depth; k += steps) {
        if constexpr (stage == Stage::project_far) {
            constexpr int line = 64 / sizeof(T);
            HEADWISE_UNROLL
            for (int i = 0; i < steps * Rows; i += line) fetch_line<Arch>(ahead, i);
            ahead += steps * Rows;
        }
        HEADWISE_UNROLL
        for (int u = 0; u < steps; ++u) add_products(k + u, column + u * t.a_stride);
        column += steps * t.a_stride;
    }
    for (; k < depth; ++k, column += t.a_stride) add_products(k, column);

    HEADWISE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        if (ends_by_vector) {
            HEADWISE_UNROLL
            for (int u = 0; u < last_steps; ++u) {
                const V b_row = load<Arch, T>(b + u * width + v * n);
                HEADWISE_UNROLL
                for (int m = 0; m < Rows; ++m) {
                    const T element = stage == Stage::score ? row[m][k + u] : column[u * t.a_stride + m];
                    accumulator[m][v] = multiply_add(set<Arch, T>(element), b_row, accumulator[m][v]);
                }
            }
        }
        HEADWISE_UNROLL
        for (int m = 0; m < Rows; ++m) write(t.c + m * width + v * n, accumulator[m][v]);
        if constexpr (stage == Stage::score) {
            V maximum = load<Arch, T>(t.row_maximum + v * n);
            HEADWISE_UNROLL
            for (int m = 0; m < Rows; ++m) maximum = raised(maximum, accumulator[m][v]);
            write(t.row_maximum + v * n, maximum);
        }
    }
}

template <class Arch, class T, Stage stage, int Rows, int Vectors, int Pitch>
void small_tile(const TileOperands<T>& t)
{
    register_tile<Arch, T, stage, Rows, Vectors, Pitch>(t);
}

/// A tile of `rows` rows, 1 .. Rows, for what is left of a product after its full tiles.
template <class Arch, class T, Stage stage, int Rows, int Vectors, int Pitch>
HEADWISE_INLINE void partial_tile(int rows, const TileOperands<T>& t)
{
    using Function = void (*)(const TileOperands<T>&);
    static constexpr auto functions = []<int... I>(std::integer_sequence<int, I...>) {
        struct Table {
            Function of_rows[sizeof...(I)];
        };
        return Table{{&small_tile<Arch, T, stage, I + 1, Vectors, Pitch>...}};
    }(std::make_integer_sequence<int, Rows>());
    functions.of_rows[rows - 1](t);
}

/// Moves the operands of a tile down by `rows` rows.
template <Stage stage, class T>
HEADWISE_INLINE void advance(TileOperands<T>& t, std::int64_t rows, int width)
{
    t.a += stage == Stage::score ? rows * t.a_stride : rows;
    t.c += rows * width;
    if (projects(stage) && t.bias) t.bias += rows;
    if (stage == Stage::project_far) t.ahead += rows * t.depth;
}

/// All rows of a product: full tiles, and the last rows, fewer than two tiles, in two halves, since a tile of few rows
/// cannot hide the latency of its multiply-adds. before_tile() is called before each of them.
template <class Arch, class T, Stage stage, int Vectors, int Pitch, class BeforeTile>
HEADWISE_INLINE void tile_rows(TileOperands<T> t, std::int64_t rows, const BeforeTile& before_tile)
{
    constexpr int tile = TileShape<Arch, T>::rows(Vectors);
    constexpr int width = Pitch * lanes_of<Arch, T>;
    while (rows == tile || rows >= 2 * tile) {
        before_tile();
        register_tile<Arch, T, stage, tile, Vectors, Pitch>(t);
        advance<stage>(t, tile, width);
        rows -= tile;
    }
    if (rows > tile) {
        const std::int64_t half = (rows + 1) / 2;
        before_tile();
        partial_tile<Arch, T, stage, tile, Vectors, Pitch>(static_cast<int>(half), t);
        advance<stage>(t, half, width);
        rows -= half;
    }
    if (rows == 0) return;
    before_tile();
    partial_tile<Arch, T, stage, tile, Vectors, Pitch>(static_cast<int>(rows), t);
}

struct Nothing {
    void operator()() const {}
};

template <class Arch, class T, Stage stage, class BeforeTile = Nothing>
HEADWISE_INLINE void tile_rows(const TileOperands<T>& t, std::int64_t rows, int vectors,
                               const BeforeTile& before_tile = {})
{
    static_assert(TileShape<Arch, T>::max_vectors == 2);
    if (vectors == 2) tile_rows<Arch, T, stage, 2, 2>(t, rows, before_tile);
    else tile_rows<Arch, T, stage, 1, 1>(t, rows, before_tile);
}

}  // namespace headwise::kernels
