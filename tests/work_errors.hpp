// The work that a call reports against what the reference counts.
#pragma once

#include <array>
#include <sstream>
#include <string>

#include <headwise/work.hpp>

namespace tensors {

/// Each stage whose useful work is not exactly what was counted, or that issued less than that; "" where there is none.
inline std::string work_errors(const headwise::WorkReport& report, const headwise::Work& counted)
{
    using headwise::Work;
    constexpr std::array stages{&Work::project_q,    &Work::project_k, &Work::project_v, &Work::score,
                                &Work::exponentials, &Work::blend,     &Work::project_o};
    constexpr std::array names{"project_q", "project_k", "project_v", "score", "exponentials", "blend", "project_o"};
    std::ostringstream errors;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const std::int64_t useful = report.useful.*stages[i], issued = report.issued.*stages[i];
        const std::int64_t expected = counted.*stages[i];
        if (useful != expected) errors << names[i] << ": useful " << useful << ", counted " << expected << "; ";
        if (issued < expected) errors << names[i] << ": issued " << issued << ", counted " << expected << "; ";
    }
    return errors.str();
}

}  // namespace tensors
