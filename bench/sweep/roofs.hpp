// The roofs beside the floating-point one: exponentials a second, and bytes read from memory a second. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "sweep/staged_layer.hpp"

namespace headwise::sweep {

/// The softmax kernel on one tile of scores that stays in the first-level cache: the most exponentials that this
/// library's exp2 reaches on the target.
class SoftmaxTile {
public:
    explicit SoftmaxTile(const KernelTable<float>& table);

    double exponentials() const;  ///< of one run
    void run();

private:
    static constexpr int rounds = 100;

    const KernelTable<float>& table_;
    std::int64_t keys_;
    AlignedBuffer scores_;       ///< keys x W
    AlignedBuffer lane_values_;  ///< W maxima, sums and corrections
};

/// Reads an array far larger than the caches from start to end.
class ReadStream {
public:
    explicit ReadStream(Target target);

    double bytes() const;  ///< of one run
    void run();

private:
    Target target_;
    std::vector<unsigned char> bytes_;
};

}  // namespace headwise::sweep
