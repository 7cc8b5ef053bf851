// How the keys of a call with few query rows are cut, so that one key/value head keeps more than one thread busy: a task
// is all rows of one unit (attend_cut.hpp) of one batch item, for one chunk of its keys. What several chunks leave is
// merged by a task of its own. Chunks depend on the item's sizes alone, hence results neither on the threads nor on what
// else is in a ragged batch.
#pragma once

#include <cstdint>

#include "attend_cut.hpp"
#include "key_range.hpp"

namespace headwise {

class ChunkCut {
public:
    /// Keys of a chunk: some 20 microseconds of reading, beside which merging is nothing.
    static constexpr std::int64_t keys_of_chunk = 1024;

    /// The chunks of a unit and item.
    struct Merge {
        AttendPlace rows;
        std::int64_t first;   ///< tasks of the merges before it
        std::int64_t chunks;  ///< 1: there is nothing to merge
    };

    struct Chunk {
        Merge of;
        std::int64_t index;  ///< of.chunks or more: nothing to do
        KeyRange keys;
    };

    /// `seen`: AttendRows::keys_seen of the range. `cut` must outlive this object.
    ChunkCut(const AttendCut& cut, const KeyRange& seen);

    std::int64_t tasks() const { return cut_.units() * tasks_before(items_); }
    std::int64_t merges() const { return cut_.units() * items_; }

    Chunk chunk(std::int64_t task) const;
    Merge merge(std::int64_t index) const;

private:
    std::int64_t tasks_before(std::int64_t item) const;

    const AttendCut& cut_;
    std::int64_t items_;
    std::int64_t first_chunk_;     ///< of the keys of each item that is not ragged
    std::int64_t chunks_of_item_;  ///< likewise
};

}  // namespace headwise
