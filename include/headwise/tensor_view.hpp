// headwise: strided views. The library owns no tensors; every argument is a view of memory the caller keeps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace headwise {

/// A view of Rank dimensions over elements that belong to the caller and must outlive the call.
///
/// Element (i0, i1, ...) is data[i0 * strides[0] + i1 * strides[1] + ...]. Strides are in elements, may be 0 (one
/// element broadcast along that dimension) or negative for inputs, and the last need not be 1; data is aligned for T. A
/// view whose data is null and whose shape is all zero stands for "not given".
///
/// A view of lower rank converts to one of higher rank: the missing leading dimensions are 1. So a single sequence
/// (n, d_model) can be passed where a batch (b, n, d_model) is expected.
template <class T, int Rank>
struct TensorView {
    static_assert(Rank >= 1 && Rank <= 4);

    T* data = nullptr;
    std::array<std::int64_t, Rank> shape{};
    std::array<std::int64_t, Rank> strides{};

    constexpr TensorView() = default;

    /// A dense row-major view.
    constexpr TensorView(T* data_, std::array<std::int64_t, Rank> shape_) noexcept : data(data_), shape(shape_)
    {
        std::int64_t stride = 1;
        for (int r = Rank - 1; r >= 0; --r) {
            strides[static_cast<std::size_t>(r)] = stride;
            // A product that does not fit is left to the checks of the call, which see the shape itself.
            if (__builtin_mul_overflow(stride, shape[static_cast<std::size_t>(r)], &stride)) stride = 0;
        }
    }

    constexpr TensorView(T* data_, std::array<std::int64_t, Rank> shape_,
                         std::array<std::int64_t, Rank> strides_) noexcept
        : data(data_), shape(shape_), strides(strides_)
    {
    }

    /// From a view of lower or equal rank, and from one of non-const elements.
    template <class U, int LowerRank>
        requires(LowerRank <= Rank && (std::is_same_v<U, T> || std::is_same_v<const U, T>) &&
                 !(LowerRank == Rank && std::is_same_v<U, T>))
    constexpr TensorView(const TensorView<U, LowerRank>& other) noexcept : data(other.data)
    {
        constexpr int missing = Rank - LowerRank;
        for (int r = 0; r < Rank; ++r) {
            const auto i = static_cast<std::size_t>(r);
            shape[i] = r < missing ? (other.given() ? 1 : 0) : other.shape[static_cast<std::size_t>(r - missing)];
            strides[i] = r < missing ? 0 : other.strides[static_cast<std::size_t>(r - missing)];
        }
    }

    /// False for the default view, which stands for an argument that is not given.
    constexpr bool given() const noexcept
    {
        if (data != nullptr) return true;
        for (const std::int64_t extent : shape)
            if (extent != 0) return true;
        return false;
    }

    /// Number of elements; the shape must have been checked.
    constexpr std::int64_t size() const noexcept
    {
        std::int64_t product = 1;
        for (const std::int64_t extent : shape) product *= extent;
        return product;
    }

    template <class... Index>
        requires(sizeof...(Index) == Rank)
    constexpr T& operator()(Index... index) const noexcept
    {
        const std::array<std::int64_t, Rank> position{static_cast<std::int64_t>(index)...};
        std::int64_t offset = 0;
        for (std::size_t r = 0; r < Rank; ++r) offset += position[r] * strides[r];
        return data[offset];
    }
};

template <class T>
using VectorView = TensorView<T, 1>;
template <class T>
using MatrixView = TensorView<T, 2>;

}  // namespace headwise
