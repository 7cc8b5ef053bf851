// The kernels of one instruction set as a table of function pointers: all that lies between the plan (src/) and the
// arithmetic (src/kernels/). Plain types only: this header is read by files that are compiled for different
// instruction sets.
//
// A panel holds W tokens in its columns: `rows` contiguous rows of W numbers, W = vectors * lanes, aligned to 64 bytes.
// vectors is 1 .. max_vectors, so that the last panel of a sequence need not be a full one. Every product of the layer
// has the form
//
//     C[m][lane] (op)= sum over k of A(m, k) * B[k][lane]          A is read by scalar broadcast, B and C are panels
//
// All functions are noexcept in fact and expect checked arguments. Panels must not overlap. Columns of a panel that
// stand for no token are computed like the rest (they are zero on the way in) and never read on the way out.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/target_list.hpp>

#include "kernels/attend_block.hpp"

namespace headwise {

/// One product: A(m, k) = a[m * a_row_stride + k * a_column_stride], m < rows, k < depth.
template <class T>
struct Product {
    const T* a;
    std::ptrdiff_t a_row_stride;
    std::ptrdiff_t a_column_stride;
    const T* b;  ///< panel, depth x W
    T* c;  ///< panel, rows x W
    std::int64_t rows;
    std::int64_t depth;
    int vectors;
};

/// Rows of numbers that become, or came from, the columns of a panel.
template <class T>
struct PanelRows {
    T* panel;  ///< depth x W
    T* rows;  ///< element (token, k) at rows[token * row_stride + k * column_stride]
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride;
    std::int64_t tokens;  ///< 1 .. W; columns from here on are filled with zeros on the way in
    std::int64_t depth;
    int vectors;
};

/// Rows of a strip of packed weights: whole register tiles on every instruction set, so that packed weights do not depend
/// on the one that is active.
constexpr int strip_rows = 12;

/// C = A B + bias with A packed in strips: strip s holds rows s * strip_rows ..., element (m, k) of it at
/// a[(s * depth + k) * strip_rows + m]. The last strip is filled up with zeros.
template <class T>
struct Projection {
    const T* a;
    const T* bias;  ///< rows numbers, or null
    const T* b;  ///< panel, depth x W
    T* c;  ///< panel, rows x W
    std::int64_t rows;
    std::int64_t depth;
    int vectors;
    bool far;  ///< A comes from beyond the second-level cache
    std::int64_t tokens;  ///< 1 .. W; where projects_few(tokens), the other columns of C become zero
};

template <class T>
struct KernelTable {
    Target target;
    int lanes;  ///< numbers in a vector
    int max_vectors;  ///< vectors of a full panel

    int panel_tokens() const { return lanes * max_vectors; }

    /// Keys whose scores are held at a time.
    std::int64_t (*key_tile)(std::int64_t d_k, std::int64_t d_v);
    /// panel[k][token] = row(token)[k]
    void (*rows_to_panel)(const PanelRows<T>&);
    /// row(token)[k] = panel[k][token]
    void (*panel_to_rows)(const PanelRows<T>&);
    /// Whether project does no work for the columns of a panel that stand for no token, where it has so many.
    bool (*projects_few)(std::int64_t tokens);
    /// Projection: c[m][lane] = bias[m] + sum over k of A(m, k) b[k][lane]
    void (*project)(const Projection<T>&);
    /// Scoring: c[key][lane] = sum over k of K(key, k) b[k][lane]; row_maximum[lane] = max(itself, c[.][lane]).
    /// row_maximum has W numbers.
    void (*score)(const Product<T>&, T* row_maximum);
    /// Softmax of a tile of `keys` rows of scores in units of log2: s[key][lane] = exp2(s[key][lane] - m_new[lane]);
    /// sum[lane] = sum[lane] * correction[lane] + their sum; correction[lane] = exp2(m_old - m_new). m_new must be at
    /// least every score of the tile and m_old.
    void (*softmax)(T* s, std::int64_t keys, int vectors, SoftmaxState<T> state);
    /// Blend: c[m][lane] = correction[lane] * c[m][lane] + sum over keys of V(key, m) b[key][lane]; A(m, key) is V.
    void (*blend)(const Product<T>&, const T* correction);

    /// Whether attend can do this block in chunks of keys, see AttendBlock::partials.
    bool (*attends_few)(const AttendBlock<T>&);
    /// Numbers of scratch that attend needs for this block.
    std::int64_t (*attend_scratch)(const AttendBlock<T>&);
    /// The fused operator on one block of query rows; T is also the element type of the tensors.
    void (*attend)(const AttendBlock<T>&);
    void (*attend_bfloat16)(const AttendBlock<T>&);  ///< null where T is double
    void (*attend_float16)(const AttendBlock<T>&);  ///< null where T is double
};

/// The table of `target`, which must be available.
template <class T>
const KernelTable<T>& kernel_table(Target target) noexcept;

}  // namespace headwise
