// headwise: the mask argument of attention().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <headwise/element.hpp>
#include <headwise/tensor_view.hpp>

namespace headwise {

/// A boolean or additive mask of rank 1 to 4 over (b, h, n_q, n_kv), aligned at the last dimension.
///
/// Dimensions that are missing or 1 broadcast. The last may be shorter than n_kv (and not 1): the keys past it take no
/// part. Boolean: true takes part. Additive (float, or the element type of the tensors): added to the score, and -inf
/// takes no part. The memory belongs to the caller and is read in place.
class Mask {
public:
    Mask() = default;

    template <class T, int Rank>
    Mask(const TensorView<T, Rank>& view) noexcept  // implicit: {.mask = view}
        : data_(view.data), type_(ElementTypeOf<std::remove_const_t<T>>::value)
    {
        if (!view.given()) return;
        given_ = true;
        for (int r = 0; r < Rank; ++r) {
            const auto to = static_cast<std::size_t>(4 - Rank + r);
            shape_[to] = view.shape[static_cast<std::size_t>(r)];
            strides_[to] = view.strides[static_cast<std::size_t>(r)];
        }
    }

    bool given() const noexcept { return given_; }
    const void* data() const noexcept { return data_; }
    ElementType type() const noexcept { return type_; }
    /// Extents over (b, h, n_q, n_kv); missing dimensions are 1.
    const std::array<std::int64_t, 4>& shape() const noexcept { return shape_; }
    /// Strides in elements; those of missing dimensions are 0.
    const std::array<std::int64_t, 4>& strides() const noexcept { return strides_; }

private:
    const void* data_ = nullptr;
    ElementType type_ = ElementType::boolean;
    bool given_ = false;
    std::array<std::int64_t, 4> shape_{1, 1, 1, 1};
    std::array<std::int64_t, 4> strides_{};
};

}  // namespace headwise
