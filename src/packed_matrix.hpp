// A weight matrix in the layout that the projection kernel reads.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include <headwise/tensor_view.hpp>

#include "ceil_div.hpp"
#include "kernels/kernel_table.hpp"

namespace headwise {

/// W (heads, depth, width) as heads * width rows of depth numbers, in strips (see Projection), and its bias.
template <class T>
class PackedMatrix {
public:
    /// Copies W and, where given, bias (heads, width).
    PackedMatrix(const TensorView<const T, 3>& W, const MatrixView<const T>& bias)
        : rows_(W.shape[0] * W.shape[2]), depth_(W.shape[1]), width_(W.shape[2])
    {
        const std::int64_t strips = ceil_div(rows_, strip_rows);
        numbers_ = allocate(strips * strip_rows * depth_);
        for (std::int64_t m = 0; m < strips * strip_rows; ++m)
            for (std::int64_t k = 0; k < depth_; ++k)
                numbers_.get()[(m / strip_rows * depth_ + k) * strip_rows + m % strip_rows] =
                    m < rows_ ? W(m / width_, k, m % width_) : T(0);
        if (!bias.given()) return;
        bias_ = allocate(rows_);
        for (std::int64_t m = 0; m < rows_; ++m) bias_.get()[m] = bias(m / width_, m % width_);
    }

    std::int64_t rows() const { return rows_; }
    std::int64_t depth() const { return depth_; }
    /// Columns of one head.
    std::int64_t width() const { return width_; }

    /// Rows [first, first + rows) of the product with b, a panel of depth rows; first is a multiple of strip_rows.
    Projection<T> projection(const T* b, T* c, std::int64_t first, std::int64_t rows, int vectors,
                             std::int64_t tokens) const
    {
        return {numbers_.get() + first * depth_, bias_ ? bias_.get() + first : nullptr, b, c, rows, depth_, vectors,
                is_far(rows_, depth_, vectors), tokens};
    }

    /// Whether a matrix is read from so far that a product with a panel of `vectors` vectors gains by fetching it ahead:
    /// where its bytes times the vectors are more than 1 MiB, since narrow panels have fewer loads to spare. (Zen 3, AVX2,
    /// 512 KiB of second-level cache, layers on one thread: n 16, d_model 1024 to 4096 1.25 to 1.5 times as fast, n 64 1.1
    /// to 1.2, d_model 512, n 16 to 128 1.02 to 1.1; n 8, d_model 768 1.13, 512 0.95 to 1, 256 0.92.)
    static bool is_far(std::int64_t rows, std::int64_t depth, int vectors)
    {
        return rows * depth * vectors * static_cast<std::int64_t>(sizeof(T)) > 1 << 20;
    }

private:
    struct Free {
        void operator()(T* numbers) const { ::operator delete(numbers, std::align_val_t{64}); }
    };
    using Numbers = std::unique_ptr<T[], Free>;

    static Numbers allocate(std::int64_t count)
    {
        return Numbers(
            static_cast<T*>(::operator new(static_cast<std::size_t>(count) * sizeof(T), std::align_val_t{64})));
    }

    std::int64_t rows_;
    std::int64_t depth_;
    std::int64_t width_;
    Numbers numbers_;
    Numbers bias_;
};

}  // namespace headwise
