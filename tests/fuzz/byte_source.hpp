// Random choices that are taken from bytes, so that a fuzzer can change them one by one.
#pragma once

#include "tensors.hpp"

namespace tensors {

/// Has what random_problem() asks of its source. Each choice takes two bytes; after the last of them choices go on at
/// random, from a seed that the bytes give, so that short inputs are whole problems too.
class ByteSource {
public:
    ByteSource(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), left_(size), random_(hash(bytes, size)) {}

    std::uint64_t bits()
    {
        if (left_ < 2) return random_.bits() & 0xffffu;
        const std::uint64_t low = bytes_[0], high = bytes_[1];
        bytes_ += 2;
        left_ -= 2;
        return high << 8 | low;
    }

    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
    double uniform() { return static_cast<double>(bits()) * 0x1p-16; }
    bool chance(double probability) { return uniform() < probability; }

private:
    /// FNV-1a.
    static std::uint64_t hash(const std::uint8_t* bytes, std::size_t size)
    {
        std::uint64_t h = 0xcbf29ce484222325u;
        for (std::size_t i = 0; i < size; ++i) h = (h ^ bytes[i]) * 0x100000001b3u;
        return h;
    }

    const std::uint8_t* bytes_;
    std::size_t left_;
    Random random_;
};

}  // namespace tensors
