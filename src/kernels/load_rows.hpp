// Copies of a few rows of K or V as close rows of the compute type.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/simd.hpp"

namespace headwise::kernels {

/// to[r * width + c] = from(first + r, c) for r < rows, c < width, widened from E. Nothing past a row's end is read.
template <class Arch, class T, class E>
void load_rows(T* to, const AttendMatrix& from, std::int64_t first, std::int64_t rows, std::int64_t width)
{
    constexpr int n = lanes_of<Arch, T>;
    const E* data = static_cast<const E*>(from.data);
    for (std::int64_t r = 0; r < rows; ++r) {
        const E* row = data + (first + r) * from.row_stride;
        T* copy = to + r * width;
        std::int64_t c = 0;
        if (from.column_stride == 1)
            for (; c + n <= width; c += n) write(copy + c, load_widened<Arch, T>(row + c));
        for (; c < width; ++c) copy[c] = widened<Arch, T>(row[c * from.column_stride]);
    }
}

}  // namespace headwise::kernels
