// Runs the tests, and says on standard error which instruction sets they cover.
#define CATCH_CONFIG_RUNNER  // Catch2 2 compiles its implementation into this file; Catch2 3 ignores it
#include "catch_compat.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>
#include <vector>

#include <headwise/target.hpp>

namespace {

#if defined(__x86_64__)
constexpr std::string_view family_targets[] = {"sse2", "avx2", "avx512"};
#else
constexpr std::string_view family_targets[] = {"neon"};
#endif

void print_targets()
{
    const std::vector<headwise::Target> available = headwise::available_targets();
    std::cerr << "targets:";
    for (const std::string_view name : family_targets) {
        const bool runs = std::any_of(available.begin(), available.end(),
                                      [name](headwise::Target target) { return headwise::name(target) == name; });
        std::cerr << ' ' << name << (runs ? "" : " (skipped: this processor lacks it)");
    }
    std::cerr << '\n';
}

// Catch2 2 and 3 have different calls to ask whether tests are only listed.
bool lists_only(int argc, char** argv)
{
    return std::any_of(argv, argv + argc, [](std::string_view argument) {
        return argument.starts_with("--list-") || argument == "-l" || argument == "-t";
    });
}

}  // namespace

int main(int argc, char** argv)
{
    if (!lists_only(argc, argv)) print_targets();
    return Catch::Session().run(argc, argv);
}
