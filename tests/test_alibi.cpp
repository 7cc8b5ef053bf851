// Slopes of ALiBi.
#include "catch_compat.hpp"

#include <headwise/alibi.hpp>

#include <stdexcept>

TEST_CASE("ALiBi slopes: powers of two, and numbers between", "[alibi]")
{
    CHECK(headwise::alibi_slopes(8) ==
          std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f});
    const std::vector<float> three = headwise::alibi_slopes(3);  // those of 2, then the first of 4
    CHECK(three == std::vector<float>{0.0625f, 0.00390625f, 0.25f});
    CHECK_THROWS_AS(headwise::alibi_slopes(0), std::invalid_argument);
}
