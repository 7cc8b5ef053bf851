// How the plan cuts the keys of few query rows into chunks.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "catch_compat.hpp"
#include "chunk_cut.hpp"

namespace {

using headwise::AttendCut;
using headwise::AttendSizes;
using headwise::ChunkCut;
using headwise::QueryRange;

constexpr std::int64_t chunk_keys = ChunkCut::keys_of_chunk(128);

AttendCut cut_of(const AttendSizes& sizes, const QueryRange& range)
{
    return AttendCut(sizes, range, {16, 16 * 64 * 8, 96 * 64 * 8, false, false});
}

/// Each key that is seen is in one chunk of each unit of its item, and the chunks of a merge are tasks in a row.
void check_keys(const ChunkCut& chunks, std::int64_t units, const std::vector<headwise::KeyRange>& seen_of_item)
{
    const auto items = static_cast<std::int64_t>(seen_of_item.size());
    REQUIRE(chunks.merges() == units * items);
    std::vector<std::int64_t> done(static_cast<std::size_t>(chunks.merges()));
    for (std::int64_t task = 0; task < chunks.tasks(); ++task) {
        const ChunkCut::Chunk chunk = chunks.chunk(task);
        REQUIRE(chunk.index == task - chunk.of.first);
        REQUIRE(chunk.index >= 0);
        if (chunk.index >= chunk.of.chunks) continue;
        REQUIRE(chunk.keys.end - chunk.keys.first == chunk_keys);
        const std::int64_t item = chunk.of.rows.item.index;
        const auto& seen = seen_of_item[static_cast<std::size_t>(item)];
        const std::int64_t keys = std::min(chunk.keys.end, seen.end) - std::max(chunk.keys.first, seen.first);
        done[static_cast<std::size_t>(chunk.of.rows.first_unit * items + item)] += std::max<std::int64_t>(keys, 0);
    }
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < chunks.merges(); ++i) {
        const ChunkCut::Merge merge = chunks.merge(i);
        REQUIRE(merge.chunks >= 1);
        REQUIRE(merge.first >= end);
        end = merge.first + merge.chunks;
        const auto& seen = seen_of_item[static_cast<std::size_t>(merge.rows.item.index)];
        const std::int64_t at = merge.rows.first_unit * items + merge.rows.item.index;
        CHECK(done[static_cast<std::size_t>(at)] == seen.end - seen.first);
    }
    CHECK(end <= chunks.tasks());
}

}  // namespace

TEST_CASE("chunks: wide keys make short ones")
{
    CHECK(chunk_keys == 1024);
    CHECK(ChunkCut::keys_of_chunk(1) == 1024);
    CHECK(ChunkCut::keys_of_chunk(256) == 1024);
    CHECK(ChunkCut::keys_of_chunk(257) == 512);
    CHECK(ChunkCut::keys_of_chunk(1024) == 256);
    CHECK(ChunkCut::keys_of_chunk(1 << 30) == 64);
}

TEST_CASE("chunks: every key is in one")
{
    for (const std::int64_t n_kv : {std::int64_t{0}, std::int64_t{1}, chunk_keys, chunk_keys + 1, 5 * chunk_keys - 3})
        for (const std::int64_t first : {std::int64_t{0}, n_kv / 2}) {
            const AttendSizes sizes{3, 4, 2, 1, n_kv, 64, 64};
            const QueryRange range{0, sizes.batch, 0, 1};
            const AttendCut cut = cut_of(sizes, range);
            check_keys(ChunkCut(cut, {first, n_kv}, chunk_keys), 2, std::vector(3, headwise::KeyRange{first, n_kv}));
        }
}

TEST_CASE("chunks: every key of ragged items is in one")
{
    const std::vector<std::int64_t> lengths{5,     chunk_keys, 0, 2 * chunk_keys + 1, chunk_keys - 1, 1, 7 * chunk_keys,
                                            0,     0,          3, chunk_keys + 700,   900,            40};
    const auto items = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> kv_starts{0}, q_starts(lengths.size() + 1);
    std::vector<headwise::KeyRange> seen;
    for (const std::int64_t length : lengths) {
        kv_starts.push_back(kv_starts.back() + length);
        seen.push_back({0, length});
    }
    std::iota(q_starts.begin(), q_starts.end(), std::int64_t{0});
    const headwise::RaggedStarts starts{{q_starts.data(), {items + 1}}, {kv_starts.data(), {items + 1}}};
    const AttendSizes sizes{items, 6, 3, 1, 7 * chunk_keys, 64, 64};
    const QueryRange range{0, items, 0, 1, &starts};
    const AttendCut cut = cut_of(sizes, range);
    check_keys(ChunkCut(cut, {0, 7 * chunk_keys}, chunk_keys), 3, seen);
}
