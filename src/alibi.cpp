#include <headwise/alibi.hpp>

#include <bit>
#include <cmath>
#include <string>

#include "check.hpp"

namespace headwise {

std::vector<float> alibi_slopes(std::int64_t heads)
{
    if (heads < 1 || heads > std::int64_t{1} << 31)
        Check("alibi_slopes").fail("heads", std::to_string(heads), "1 to 2^31");
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
    const auto slope = [](std::int64_t i, std::int64_t of) {
        return static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(of)));
    };
    std::vector<float> slopes;
    slopes.reserve(static_cast<std::size_t>(heads));
    for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
    for (std::int64_t i = 1; static_cast<std::int64_t>(slopes.size()) < heads; i += 2)
        slopes.push_back(slope(i, 2 * power));
    return slopes;
}

}  // namespace headwise
