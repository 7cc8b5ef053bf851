#include "attend_cut.hpp"

#include <algorithm>
#include <limits>

#include "ceil_div.hpp"
#include "parallel.hpp"

namespace headwise {

namespace {

/// Bytes that the queries and outputs of a block may take, and they together with a tile of K and V, so that all stay in
/// the second-level cache. (Zen 3, 512 KiB, AVX2, h 1, d_k 512, share of peak: n 512, 2 panels, which are 128 KiB, 83 %,
/// 4 panels 70 %; n 1024 on a busy machine, 1 panel 69 %, 2 panels 57 %.)
constexpr std::int64_t max_bytes_of_block = 128 << 10;
constexpr std::int64_t max_bytes_with_tile = 448 << 10;

/// Blocks that each thread should have at least, so that one which is held up does not hold up the others for long.
constexpr std::int64_t least_blocks_of_thread = 4;

/// How many panels make a block. They share the tiles of K and V, so as many as may be: up to `most`, with enough blocks
/// for each thread. Fewer are taken where the threads then come out even enough to end 2 % earlier.
std::int64_t panels_of_block(std::int64_t units, std::int64_t panels_of_unit, std::int64_t most)
{
    const std::int64_t threads = thread_count();
    if (threads == 1) return most;
    std::int64_t best = 1;
    std::int64_t best_time = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t panels = most; panels >= 1; --panels) {
        const std::int64_t blocks_of_thread = ceil_div(units * ceil_div(panels_of_unit, panels), threads);
        if (blocks_of_thread < least_blocks_of_thread && panels > 1) continue;
        const std::int64_t time = blocks_of_thread * panels;  // of the thread with most to do, counted in panels
        if (time >= best_time - best_time / 50) continue;
        best = panels;
        best_time = time;
    }
    return best;
}

}  // namespace

AttendCut::AttendCut(const AttendSizes& sizes, const QueryRange& range, const Limits& limits)
    : sizes_(sizes),
      range_(range),
      heads_of_unit_(limits.one_head_units ? 1 : sizes.heads / sizes.kv_heads),
      units_(sizes.heads / heads_of_unit_),
      units_in_turn_(limits.units_in_turn),
      rows_of_unit_(range.query_count * heads_of_unit_)
{
    const std::int64_t panels = ceil_div(rows_of_unit_, limits.panel_tokens);
    const std::int64_t bytes = std::min(max_bytes_of_block, max_bytes_with_tile - limits.tile_bytes);
    const std::int64_t fitting =
        std::clamp<std::int64_t>(bytes / std::max<std::int64_t>(limits.panel_bytes, 1), 1, limits.max_panels);
    const std::int64_t most = std::min(panels, fitting);
    const std::int64_t columns = units_ / units_of_task();
    const std::int64_t panels_in_block =
        range.starts ? panels_of_block(columns, ceil_div(ragged_rows(range.item_count), limits.panel_tokens), most)
                     : panels_of_block(columns * range.item_count, panels, most);
    rows_of_block_ = panels_in_block * limits.panel_tokens;
    blocks_ = range.starts ? first_ragged_block(range.item_count)
                           : range.item_count * ceil_div(rows_of_unit_, rows_of_block_);
}

AttendPlace AttendCut::place(std::int64_t task) const
{
    const std::int64_t units = units_ / units_of_task();
    std::int64_t index = 0;
    std::int64_t blocks = 0;  // of each unit of the item
    if (range_.starts) {
        for (std::int64_t end = range_.item_count; end - index > 1;) {
            const std::int64_t middle = index + (end - index) / 2;
            if (first_ragged_block(middle) * units <= task) index = middle;
            else end = middle;
        }
        task -= first_ragged_block(index) * units;
        blocks = first_ragged_block(index + 1) - first_ragged_block(index);
    } else {
        blocks = blocks_ / range_.item_count;
        index = task / (blocks * units);
        task %= blocks * units;
    }
    AttendPlace place = all_rows(index, task / blocks);
    place.first_row = (blocks - 1 - task % blocks) * rows_of_block_;
    place.row_count = std::min(rows_of_block_, place.rows_of_item - place.first_row);
    return place;
}

AttendPlace AttendCut::all_rows(std::int64_t index, std::int64_t unit) const
{
    AttendPlace place{};
    place.item = item(range_.first_item + index);
    place.first_unit = unit;
    place.rows_of_item = std::min(rows_of_unit_, (place.item.n_q - range_.first_query) * heads_of_unit_);
    place.row_count = place.rows_of_item;
    return place;
}

AttendItem AttendCut::item(std::int64_t index) const
{
    if (!range_.starts) return {index, index, 0, 0, sizes_.n_q, sizes_.n_kv};
    const auto& q = range_.starts->q_starts;
    const auto& kv = range_.starts->kv_starts;
    return {index, 0, q(index), kv(index), q(index + 1) - q(index), kv(index + 1) - kv(index)};
}

/// Rows of a unit in the ragged items before `item`.
std::int64_t AttendCut::ragged_rows(std::int64_t item) const
{
    return (range_.starts->q_starts(item) - range_.starts->q_starts(0)) * heads_of_unit_;
}

/// Number of a ragged item's first block. An item of r rows has ceil(r / rows_of_block) blocks, for which this leaves
/// room whatever r is, and at most one too many; so no table of the items is needed.
std::int64_t AttendCut::first_ragged_block(std::int64_t item) const
{
    return ragged_rows(item) / rows_of_block_ + item;
}

}  // namespace headwise
