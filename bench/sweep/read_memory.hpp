// Reading as fast as one thread can, from whichever cache or memory the bytes lie in.
#pragma once

#include <cstddef>

#include <headwise/target.hpp>

namespace headwise::sweep {

/// Reads `bytes` at `data`, any alignment, with the widest vectors of `target`, which must be available. Returns how many
/// that was: the last few may be left out.
double read_memory(Target target, const void* data, std::size_t bytes);

}  // namespace headwise::sweep
