#include "sweep/roofs.hpp"

#include <algorithm>

#include "sweep/read_memory.hpp"

namespace headwise::sweep {
namespace {

/// Four times the last-level cache that one core of current server processors can fill.
constexpr std::size_t stream_bytes = std::size_t{128} << 20;

}  // namespace

SoftmaxTile::SoftmaxTile(const KernelTable<float>& table) : table_(table), keys_(table.key_tile(64, 64))
{
    // Scores and maxima of 1 give weights of exp2(1 - 1) = 1: the tile can be run again as it is.
    const std::int64_t W = table.panel_tokens();
    std::fill_n(scores_.reserve(keys_ * W), keys_ * W, 1.0f);
    std::fill_n(lane_values_.reserve(3 * W), 3 * W, 1.0f);
}

double SoftmaxTile::exponentials() const
{
    return static_cast<double>(rounds * keys_ * table_.panel_tokens());
}

void SoftmaxTile::run()
{
    const std::int64_t W = table_.panel_tokens();
    float* const maxima = lane_values_.data();
    for (int round = 0; round < rounds; ++round)
        table_.softmax(scores_.data(), keys_, table_.max_vectors,
                       {maxima, maxima, maxima + W, maxima + 2 * W});
}

ReadStream::ReadStream(Target target) : target_(target), bytes_(stream_bytes, 1) {}

double ReadStream::bytes() const
{
    return static_cast<double>(bytes_.size());
}

void ReadStream::run()
{
    read_memory(target_, bytes_.data(), bytes_.size());
}

}  // namespace headwise::sweep
