// The end of the sweep on the terminal.
#pragma once

#include <iosfwd>

#include "sweep/results.hpp"

namespace headwise::sweep {

/// What was found, in one sentence.
std::string headline(const Json& results);

/// The headline and a table: the layer, the operator and the stages at one n and d_model over h, for every target.
void print_summary(std::ostream& out, const Json& results);

}  // namespace headwise::sweep
