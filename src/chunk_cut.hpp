// How the keys of a call with few query rows are cut, so that one key/value head keeps more than one thread busy: a task
// is all rows of one unit (attend_cut.hpp) of one batch item, for one chunk of its keys. What several chunks leave is
// merged by a task of its own. Where chunks begin and end depends on the item's sizes alone; whether a call is cut at all,
// and how far items of equal length are, on what the others see. Nothing depends on the threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "attend_cut.hpp"
#include "key_range.hpp"

namespace headwise {

class ChunkCut {
public:
    /// Keys of a chunk where each has `numbers` numbers of K and V: up to 1024, fewer where they are wide, so that a
    /// chunk is some 40 microseconds of reading at most. (Zen 3, d_k 64 and 128: chunks of 512 keys take 2 to 4 % longer,
    /// of 256 7 to 13 %.)
    static constexpr std::int64_t keys_of_chunk(std::int64_t numbers)
    {
        const auto fitting = static_cast<std::uint64_t>(most_numbers / std::max<std::int64_t>(numbers, 1));
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(fitting)), 64, most_keys);
    }

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

    /// `seen`: AttendRows::keys_seen of the range; `chunk_keys`: keys_of_chunk(). `cut` must outlive this object.
    ChunkCut(const AttendCut& cut, const KeyRange& seen, std::int64_t chunk_keys);

    std::int64_t tasks() const { return cut_.units() * tasks_before(items_); }
    std::int64_t merges() const { return cut_.units() * items_; }

    Chunk chunk(std::int64_t task) const;
    Merge merge(std::int64_t index) const;

private:
    static constexpr std::int64_t most_keys = 1024;
    static constexpr std::int64_t most_numbers = 256 << 10;

    std::int64_t tasks_before(std::int64_t item) const;

    const AttendCut& cut_;
    std::int64_t chunk_keys_;
    std::int64_t items_;
    std::int64_t first_chunk_;     ///< of the keys of each item that is not ragged
    std::int64_t chunks_of_item_;  ///< likewise
};

}  // namespace headwise
