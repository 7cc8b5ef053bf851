// The tests run with Catch2 2.13 (Debian 12) and with Catch2 3. What differs between them is here and nowhere else.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define HEADWISE_CATCH2_MAJOR 3
#else
#include <catch2/catch.hpp>
#define HEADWISE_CATCH2_MAJOR 2
namespace Catch {
using Detail::Approx;  // so that `using Catch::Approx` means the same in both; 2 has a matcher of that name there
}
#endif

#include <string>

namespace catch_compat {

/// Matches a string that has `part` in it, for REQUIRE_THAT and REQUIRE_THROWS_WITH.
inline auto contains_substring(const std::string& part)
{
#if HEADWISE_CATCH2_MAJOR == 3
    return Catch::Matchers::ContainsSubstring(part);
#else
    return Catch::Matchers::Contains(part);
#endif
}

}  // namespace catch_compat
