// What makes a run fail.
#pragma once

#include <string>
#include <vector>

#include "sweep/memory.hpp"
#include "sweep/options.hpp"
#include "sweep/verify.hpp"

namespace headwise::sweep {

/// A text for each check that did not pass; none: all is well.
std::vector<std::string> failures(const Options& options, const Verification& verification,
                                  const std::vector<MemoryCheck>& memory);

}  // namespace headwise::sweep
