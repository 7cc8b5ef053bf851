// The instruction sets that are compiled in, and the choice among them.
#include <headwise/target.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/kernel_table.hpp"

namespace headwise {

namespace isa {
#define HEADWISE_DECLARE_TABLES(set)             \
    extern const KernelTable<float> set##_float; \
    extern const KernelTable<double> set##_double;
HEADWISE_DECLARE_TABLES(sse2)
HEADWISE_DECLARE_TABLES(avx2)
HEADWISE_DECLARE_TABLES(avx512)
HEADWISE_DECLARE_TABLES(neon)
#undef HEADWISE_DECLARE_TABLES
}  // namespace isa

namespace {

struct CompiledTarget {
    Target target;
    const char* name;
    bool (*runs_here)();  ///< asks the processor and the operating system
    const KernelTable<float>* float_table;
    const KernelTable<double>* double_table;
};

// Best last. One row for each file of src/isa/.
constexpr std::array compiled_targets{
#ifdef HEADWISE_HAVE_SSE2
    CompiledTarget{Target::sse2, "sse2", [] { return true; }, &isa::sse2_float, &isa::sse2_double},
#endif
#ifdef HEADWISE_HAVE_AVX2
    CompiledTarget{Target::avx2, "avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); },
                   &isa::avx2_float, &isa::avx2_double},
#endif
#ifdef HEADWISE_HAVE_AVX512
    CompiledTarget{Target::avx512, "avx512",
                   [] {
                       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
                   },
                   &isa::avx512_float, &isa::avx512_double},
#endif
#ifdef HEADWISE_HAVE_NEON
    CompiledTarget{Target::neon, "neon", [] { return true; }, &isa::neon_float, &isa::neon_double},
#endif
};

constexpr std::array names{"sse2", "avx2", "avx512", "neon"};  // by Target

std::string available_names()
{
    std::string text;
    for (const Target target : available_targets()) text += (text.empty() ? "" : ", ") + std::string(name(target));
    return text;
}

const CompiledTarget& available(Target target, const char* argument)
{
    for (const CompiledTarget& compiled : compiled_targets)
        if (compiled.target == target && compiled.runs_here()) return compiled;
    throw std::invalid_argument(std::string(argument) + " is " + std::string(name(target)) +
                                ", which this library or this processor lacks; available: " + available_names());
}

Target initial_target()
{
    const char* const wanted = std::getenv("HEADWISE_TARGET");
    if (wanted == nullptr || *wanted == '\0') return available_targets().back();
    Target target;
    try {
        target = target_from_name(wanted);
    } catch (const std::invalid_argument&) {
        throw std::invalid_argument("HEADWISE_TARGET is \"" + std::string(wanted) +
                                    "\"; expected one of: " + available_names());
    }
    return available(target, "HEADWISE_TARGET").target;
}

/// The chosen target, or -1 before the first use.
std::atomic<int> chosen{-1};

}  // namespace

std::string_view name(Target target) noexcept
{
    return names[static_cast<std::size_t>(target)];
}

std::vector<Target> available_targets()
{
    std::vector<Target> targets;
    for (const CompiledTarget& compiled : compiled_targets)
        if (compiled.runs_here()) targets.push_back(compiled.target);
    return targets;
}

Target active_target()
{
    int target = chosen.load(std::memory_order_relaxed);
    if (target < 0) {
        const int initial = static_cast<int>(initial_target());
        // Another thread, or set_active_target, may have been first.
        if (chosen.compare_exchange_strong(target, initial)) target = initial;
    }
    return static_cast<Target>(target);
}

void set_active_target(Target target)
{
    chosen = static_cast<int>(available(target, "target").target);
}

Target target_from_name(std::string_view text)
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (text == names[i]) return static_cast<Target>(i);
    throw std::invalid_argument("target name is \"" + std::string(text) + "\"; expected sse2, avx2, avx512 or neon");
}

template <>
const KernelTable<float>& kernel_table<float>(Target target) noexcept
{
    for (const CompiledTarget& compiled : compiled_targets)
        if (compiled.target == target) return *compiled.float_table;
    __builtin_unreachable();
}

template <>
const KernelTable<double>& kernel_table<double>(Target target) noexcept
{
    for (const CompiledTarget& compiled : compiled_targets)
        if (compiled.target == target) return *compiled.double_table;
    __builtin_unreachable();
}

}  // namespace headwise
