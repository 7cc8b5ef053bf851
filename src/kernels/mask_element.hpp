// What an element of a mask adds to a score: a boolean 0 or -inf, any other type its value.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/simd.hpp"

namespace headwise::kernels {

template <class Arch, class T, class Element>
struct MaskElement {
    using V = Vec<Arch, T>;

    HEADWISE_INLINE static T number(Element element)
    {
        if constexpr (std::is_same_v<Element, bool>) return element ? T(0) : -infinity<T>;
        else return widened<Arch, T>(element);
    }

    /// Of consecutive elements.
    HEADWISE_INLINE static V vector(const Element* from)
    {
        if constexpr (std::is_same_v<Element, bool>) return load_boolean_bias<Arch, T>(from);
        else return load_widened<Arch, T>(from);
    }

    /// What m makes of scores: -inf where it is -inf, whatever s is. A boolean's m is 0 or -inf, so its sign tells which.
    HEADWISE_INLINE static V masked(V s, V m)
    {
        if constexpr (std::is_same_v<Element, bool>) return negative_or<Arch, T>(m, s);
        const V minus_infinity = set<Arch, T>(-infinity<T>);
        return xsimd::select(m == minus_infinity, minus_infinity, s + m);
    }
};

/// function(null pointer to the type of the mask's elements)
template <class Function>
auto with_mask_type(ElementType type, const Function& function)
{
    switch (type) {
        case ElementType::boolean: return function(static_cast<const bool*>(nullptr));
        case ElementType::float32: return function(static_cast<const float*>(nullptr));
        case ElementType::float64: return function(static_cast<const double*>(nullptr));
        case ElementType::bfloat16: return function(static_cast<const bfloat16*>(nullptr));
        case ElementType::float16: break;
    }
    return function(static_cast<const float16*>(nullptr));
}

}  // namespace headwise::kernels
