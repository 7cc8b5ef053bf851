#include "chunk_cut.hpp"

#include <algorithm>

#include "ceil_div.hpp"

namespace headwise {

ChunkCut::ChunkCut(const AttendCut& cut, const KeyRange& seen, std::int64_t chunk_keys)
    : cut_(cut),
      chunk_keys_(chunk_keys),
      items_(cut.range().item_count),
      first_chunk_(seen.first / chunk_keys_),
      chunks_of_item_(std::max<std::int64_t>(ceil_div(seen.end, chunk_keys_) - first_chunk_, 1))
{
}

ChunkCut::Chunk ChunkCut::chunk(std::int64_t task) const
{
    const std::int64_t of_unit = tasks_before(items_);
    std::int64_t item = 0;
    for (std::int64_t end = items_; end - item > 1;) {
        const std::int64_t middle = item + (end - item) / 2;
        if (tasks_before(middle) <= task % of_unit) item = middle;
        else end = middle;
    }
    Chunk chunk{merge(task / of_unit * items_ + item), 0, {}};
    chunk.index = task - chunk.of.first;
    chunk.keys.first = (first_chunk_ + chunk.index) * chunk_keys_;
    chunk.keys.end = chunk.keys.first + chunk_keys_;
    return chunk;
}

ChunkCut::Merge ChunkCut::merge(std::int64_t index) const
{
    const std::int64_t unit = index / items_;
    const std::int64_t item = index % items_;
    Merge merge{cut_.all_rows(item, unit), unit * tasks_before(items_) + tasks_before(item), chunks_of_item_};
    if (cut_.range().starts)
        merge.chunks = std::max<std::int64_t>(ceil_div(merge.rows.item.n_kv, chunk_keys_), 1);
    return merge;
}

/// Tasks of a unit for the items before `item`. For the ceil(k / chunk_keys) chunks of a ragged item of k keys this
/// leaves room whatever k is, and at most one task too many; so no table of the items is needed.
std::int64_t ChunkCut::tasks_before(std::int64_t item) const
{
    const RaggedStarts* const starts = cut_.range().starts;
    if (!starts) return item * chunks_of_item_;
    return (starts->kv_starts(item) - starts->kv_starts(0)) / chunk_keys_ + item;
}

}  // namespace headwise
