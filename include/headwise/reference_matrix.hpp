// headwise: the numbers and matrices of the naive reference (reference.hpp), and the one form of its products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <headwise/element.hpp>
#include <headwise/tensor_view.hpp>
#include <headwise/work.hpp>

namespace headwise::reference {

/// While it lives, the products and exponentials of this thread belong to `stage`, such as &Work::score. Plain numbers
/// count nothing; counted.hpp specialises it.
template <class Number>
struct StageMarker {
    explicit StageMarker(std::int64_t Work::* /*stage*/) noexcept {}
};

/// sum + a * b: the operation that the products consist of, and the only one that is counted as a multiply-add.
template <class Number>
Number multiply_add(Number sum, Number a, Number b)
{
    return sum + a * b;
}

/// A dense row-major matrix.
template <class Number>
struct Matrix {
    std::int64_t rows;
    std::int64_t columns;
    std::vector<Number> numbers;

    Matrix(std::int64_t rows_, std::int64_t columns_)
        : rows(rows_), columns(columns_), numbers(static_cast<std::size_t>(rows_ * columns_), Number(0))
    {
    }

    Number* row(std::int64_t i) { return numbers.data() + i * columns; }
    const Number* row(std::int64_t i) const { return numbers.data() + i * columns; }
};

/// Keys first .. last - 1.
struct KeyRange {
    std::int64_t first;
    std::int64_t last;
};

template <class Number, class T>
Number to_number(T element)
{
    return static_cast<Number>(static_cast<compute_t<T>>(element));
}

template <class T, class Number>
T to_element(Number number)
{
    return static_cast<T>(static_cast<compute_t<T>>(number));
}

/// The rows x columns matrix of element_at(i, j).
template <class Number, class ElementAt>
Matrix<Number> make_matrix(std::int64_t rows, std::int64_t columns, const ElementAt& element_at)
{
    Matrix<Number> matrix(rows, columns);
    for (std::int64_t i = 0; i < rows; ++i) {
        Number* row = matrix.row(i);
        for (std::int64_t j = 0; j < columns; ++j) row[j] = to_number<Number>(element_at(i, j));
    }
    return matrix;
}

template <class Number>
Matrix<Number> transposed(const Matrix<Number>& matrix)
{
    Matrix<Number> result(matrix.columns, matrix.rows);
    for (std::int64_t i = 0; i < matrix.rows; ++i)
        for (std::int64_t j = 0; j < matrix.columns; ++j) result.row(j)[i] = matrix.row(i)[j];
    return result;
}

/// sum[j] += a * row[j] for j in range. Every product below is a sum of scaled rows: in this order memory is streamed
/// and the compiler may vectorise, while each sum still runs in the order of its definition.
template <class Number>
void add_scaled_row(Number* sum, Number a, const Number* row, KeyRange range)
{
    for (std::int64_t j = range.first; j < range.last; ++j) sum[j] = multiply_add(sum[j], a, row[j]);
}

/// X W + bias, counted for `stage`. X (n, d_in), W (d_in, d_out), bias (d_out) or empty, to (n, d_out).
template <class Number>
Matrix<Number> project(const Matrix<Number>& X, const Matrix<Number>& W, const std::vector<Number>& bias,
                       std::int64_t Work::* stage)
{
    const StageMarker<Number> marker(stage);
    Matrix<Number> Y(X.rows, W.columns);
    for (std::int64_t t = 0; t < X.rows; ++t) {
        Number* y = Y.row(t);
        for (std::int64_t k = 0; k < W.rows; ++k) add_scaled_row(y, X.row(t)[k], W.row(k), {0, W.columns});
        for (std::size_t j = 0; j < bias.size(); ++j) y[j] = y[j] + bias[j];
    }
    return Y;
}

}  // namespace headwise::reference
