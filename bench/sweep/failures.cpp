#include "sweep/failures.hpp"

#include <sstream>

namespace headwise::sweep {

std::vector<std::string> failures(const Options& options, const Verification& verification,
                                  const std::vector<MemoryCheck>& memory)
{
    std::vector<std::string> all;
    const auto where = [](const auto& check) {
        return check.subject + " at " + text(check.shape) + " on " + std::string(name(check.target));
    };
    for (const ErrorCheck& check : verification.errors) {
        if (check.passed) continue;
        std::ostringstream what;
        what << where(check) << ": maximum error " << check.error << ", allowed " << check.limit;
        all.push_back(what.str());
    }
    for (const CountCheck& check : verification.counts)
        if (!check.passed) all.push_back(where(check) + ": counts of work differ");
    for (const ParameterCheck& check : verification.parameters)
        if (!check.passed)
            all.push_back("parameters at d_model " + std::to_string(check.d_model) + ", h " + std::to_string(check.h) +
                          ": counts differ");
    for (const MemoryCheck& check : memory)
        if (!check.passed)
            all.push_back("weights at " + text(check.shape) + ": " + std::to_string(check.counted) +
                          " numbers were written, expected " + std::to_string(check.arithmetic));
    if (options.real_layer_status != 0) all.push_back("the real layer: headwise_cases failed");
    return all;
}

}  // namespace headwise::sweep
