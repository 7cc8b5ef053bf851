// What the weights take in memory when they are asked for, and what the fused layer needs when they are not.
#pragma once

#include <cstdint>
#include <vector>

#include "sweep/options.hpp"

namespace headwise::sweep {

struct MemoryCheck {
    Shape shape;
    std::int64_t arithmetic = 0;       ///< numbers in the weights by cost.hpp: h * n * n
    std::int64_t counted = 0;          ///< numbers that a forward wrote when asked for them
    std::int64_t fused_bytes = 0;      ///< scratch memory of a forward without weights, one thread
    std::int64_t weighing_bytes = 0;   ///< scratch memory of a forward with weights, beside the weights themselves
    bool passed = false;
};

/// Every number of heads at the headline's n and d_model whose weights take at most half a gigabyte.
std::vector<MemoryCheck> check_memory(const Options& options);

}  // namespace headwise::sweep
