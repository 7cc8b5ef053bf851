// How the query rows of a call are cut into tasks.
//
// A unit is what a block's rows belong to: a key/value head with the query heads that share it, or one query head. Row r
// of unit u is query r / heads_of_unit of head u * heads_of_unit + r % heads_of_unit, so that neighbouring rows see
// neighbouring keys. A task is one block of the rows of one batch item, for one unit or for all of them in turn.
#pragma once

#include <cstdint>

#include <headwise/attention.hpp>

namespace headwise {

/// The sizes of one call.
struct AttendSizes {
    std::int64_t batch;
    std::int64_t heads;
    std::int64_t kv_heads;
    std::int64_t n_q;
    std::int64_t n_kv;
    std::int64_t d_k;
    std::int64_t d_v;
};

/// Queries first_query ... of batch items first_item ...; with `starts`, all queries of items of different lengths.
struct QueryRange {
    std::int64_t first_item;
    std::int64_t item_count;
    std::int64_t first_query;
    std::int64_t query_count;  ///< of the longest item
    const RaggedStarts* starts = nullptr;
};

/// One batch item: where it is in the tensors, and its sizes.
struct AttendItem {
    std::int64_t index;  ///< for what the options give each item
    std::int64_t tensor;  ///< batch index in the tensors
    std::int64_t first_row;  ///< row of its query 0, and of its key 0
    std::int64_t first_key;
    std::int64_t n_q;
    std::int64_t n_kv;
};

/// What a task works on.
struct AttendPlace {
    AttendItem item;
    std::int64_t first_unit;
    std::int64_t first_row;  ///< of the unit
    std::int64_t row_count;  ///< not positive: nothing to do
    std::int64_t rows_of_item;  ///< of each unit
};

class AttendCut {
public:
    /// What limits the blocks of a call.
    struct Limits {
        std::int64_t panel_tokens;
        std::int64_t panel_bytes;  ///< queries and outputs of a panel
        std::int64_t tile_bytes;  ///< of K and V
        bool one_head_units;
        bool units_in_turn;  ///< one task runs all units of its rows
        std::int64_t max_panels = 16;  ///< of a block: enough rows to share each copied tile of K and V
    };

    /// `sizes` and `range` must outlive this object.
    AttendCut(const AttendSizes& sizes, const QueryRange& range, const Limits& limits);

    std::int64_t tasks() const { return blocks_ * units_ / units_of_task(); }
    std::int64_t units() const { return units_; }
    std::int64_t units_of_task() const { return units_in_turn_ ? units_ : 1; }
    std::int64_t heads_of_unit() const { return heads_of_unit_; }
    std::int64_t rows_of_unit() const { return rows_of_unit_; }
    std::int64_t rows_of_block() const { return rows_of_block_; }

    /// The blocks of a unit follow one another, so that they find its K and V near; the last ones first, since with causal
    /// attention they have the most keys.
    AttendPlace place(std::int64_t task) const;

    /// All rows of a unit of the index-th item of the range.
    AttendPlace all_rows(std::int64_t index, std::int64_t unit) const;

    const QueryRange& range() const { return range_; }

private:
    AttendItem item(std::int64_t index) const;
    std::int64_t ragged_rows(std::int64_t item) const;
    std::int64_t first_ragged_block(std::int64_t item) const;

    const AttendSizes& sizes_;
    const QueryRange& range_;
    std::int64_t heads_of_unit_;
    std::int64_t units_;
    bool units_in_turn_;
    std::int64_t rows_of_unit_;  ///< of the longest item
    std::int64_t rows_of_block_;
    std::int64_t blocks_;  ///< of all items together; those of ragged items include one that is empty for some
};

}  // namespace headwise
