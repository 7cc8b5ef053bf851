// How the plan cuts query rows into tasks.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <oneapi/tbb/task_arena.h>

#include "attend_cut.hpp"
#include "catch_compat.hpp"

namespace {

using headwise::AttendCut;
using headwise::AttendPlace;
using headwise::AttendSizes;
using headwise::QueryRange;

constexpr std::int64_t panel_tokens = 16;

AttendCut::Limits limits(std::int64_t width)
{
    const std::int64_t bytes_of_token = 2 * width * static_cast<std::int64_t>(sizeof(float));
    return {panel_tokens, panel_tokens * bytes_of_token, 96 * bytes_of_token, false, false};
}

/// Calls check(cut) with the cut that a call in an arena of `threads` threads is given.
template <class Check>
void with_cut(int threads, const AttendSizes& sizes, const QueryRange& range, const AttendCut::Limits& l,
              const Check& check)
{
    oneapi::tbb::task_arena arena(threads, static_cast<unsigned>(threads));
    arena.execute([&] { check(AttendCut(sizes, range, l)); });
}

/// How often each row of each unit of each item is in a task: it must be 1.
void check_rows(const AttendCut& cut, const std::vector<std::int64_t>& rows_of_item)
{
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> times;  // of (item, unit)
    for (std::int64_t task = 0; task < cut.tasks(); ++task) {
        const AttendPlace place = cut.place(task);
        if (place.row_count <= 0) continue;
        const std::int64_t rows = rows_of_item[static_cast<std::size_t>(place.item.index)];
        REQUIRE(place.rows_of_item == rows);
        REQUIRE(place.first_row >= 0);
        REQUIRE(place.first_row + place.row_count <= rows);
        REQUIRE(place.first_row % panel_tokens == 0);
        for (std::int64_t unit = place.first_unit; unit < place.first_unit + cut.units_of_task(); ++unit) {
            std::vector<int>& of_unit = times[{place.item.index, unit}];
            of_unit.resize(static_cast<std::size_t>(rows));
            for (std::int64_t row = 0; row < place.row_count; ++row)
                ++of_unit[static_cast<std::size_t>(place.first_row + row)];
        }
    }
    std::size_t expected = 0;
    for (const std::int64_t rows : rows_of_item) expected += rows > 0 ? static_cast<std::size_t>(cut.units()) : 0;
    CHECK(times.size() == expected);
    for (const auto& [place, of_unit] : times)
        for (const int count : of_unit) REQUIRE(count == 1);
}

}  // namespace

TEST_CASE("cut: every row is in one task")
{
    for (const int threads : {1, 2, 7, 64})
        for (const std::int64_t n : {1, 16, 17, 300})
            for (const std::int64_t heads : {1, 6}) {
                const AttendSizes sizes{3, heads, heads == 6 ? 2 : 1, n, 100, 64, 64};
                const QueryRange range{0, sizes.batch, 0, n};
                for (const bool in_turn : {false, true}) {
                    AttendCut::Limits l = limits(64);
                    l.units_in_turn = l.one_head_units = in_turn;
                    with_cut(threads, sizes, range, l, [&](const AttendCut& cut) {
                        check_rows(cut, std::vector<std::int64_t>(3, n * cut.heads_of_unit()));
                    });
                }
            }
}

TEST_CASE("cut: every row of ragged items is in one task")
{
    const std::vector<std::int64_t> starts{5, 5, 105, 106, 138, 138, 400};
    const headwise::VectorView<const std::int64_t> view(starts.data(), {6 + 1});
    const headwise::RaggedStarts ragged{view, view};
    const AttendSizes sizes{6, 4, 2, 262, 262, 64, 64};
    const QueryRange range{0, 6, 0, 262, &ragged};
    for (const int threads : {1, 3, 64})
        with_cut(threads, sizes, range, limits(64),
                 [&](const AttendCut& cut) { check_rows(cut, {0, 200, 2, 64, 0, 524}); });
}

TEST_CASE("cut: many threads come out even")
{
    constexpr std::int64_t n = 4096;
    constexpr int threads = 64;
    for (const std::int64_t heads : {1, 4, 8, 12, 16}) {
        const AttendSizes sizes{1, heads, heads, n, n, 64, 64};
        with_cut(threads, sizes, {0, 1, 0, n}, limits(64), [&](const AttendCut& cut) {
            const std::int64_t blocks_of_thread = (cut.tasks() + threads - 1) / threads;
            CHECK(blocks_of_thread >= 4);
            CHECK(blocks_of_thread * cut.rows_of_block() * threads <= heads * n * 102 / 100);
        });
    }
}

TEST_CASE("cut: a block of wide heads leaves room for a tile of K and V")
{
    const AttendSizes sizes{1, 1, 1, 4096, 4096, 512, 512};
    with_cut(1, sizes, {0, 1, 0, 4096}, limits(512),
             [&](const AttendCut& cut) { CHECK(cut.rows_of_block() == panel_tokens); });
    const AttendSizes narrow{1, 1, 1, 4096, 4096, 64, 64};
    with_cut(1, narrow, {0, 1, 0, 4096}, limits(64),
             [&](const AttendCut& cut) { CHECK(cut.rows_of_block() == 16 * panel_tokens); });
}
