// How many parts of a size a whole has.
#pragma once

#include <cstdint>

namespace headwise {

/// a / b rounded up; a is not negative, b is positive.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept
{
    return (a + b - 1) / b;
}

}  // namespace headwise
