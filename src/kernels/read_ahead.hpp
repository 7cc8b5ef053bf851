// Memory that will be read soon, fetched into the second-level cache a few lines at a time while other work runs.
//
// The hardware's own prefetchers follow a stream once it has begun. Short streams, as the rows of a short sequence's
// heads are, end before that pays, and the first tile of every block comes from far away.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/simd.hpp"

namespace headwise::kernels {

template <class Arch>
class ReadAhead {
public:
    /// Forgets what has not been fetched; what is added now is fetched in `turns` turns.
    void start(std::int64_t turns)
    {
        turns_ = turns;
        share_ = 0;
        count_ = 0;
        current_ = 0;
        offset_ = 0;
        lines_ = 0;
    }

    /// Rows that lie side by side are one, so that a line that two share is fetched once.
    void add(const MemoryRows& rows)
    {
        if (!rows.data || rows.rows <= 0 || count_ == most_pieces) return;
        MemoryRows& piece = pieces_[count_++] = rows;
        if (rows.stride_bytes == rows.bytes) piece = {rows.data, 0, 1, rows.rows * rows.bytes};
        // A row that begins within a line may end in one more than its length has.
        const auto address = reinterpret_cast<std::uintptr_t>(rows.data);
        piece.bytes += piece.stride_bytes % line == 0 ? static_cast<std::int64_t>(address % line) : line - 1;
        lines_ += piece.rows * lines_of_row(piece);
        share_ = (lines_ + turns_ - 1) / turns_;
    }

    void take_turn()
    {
        if (lines_ > 0) fetch(lines_ < share_ ? lines_ : share_);
    }

    void take_rest()
    {
        if (lines_ > 0) fetch(lines_);
    }

private:
    static constexpr std::int64_t line = 64;
    static constexpr int most_pieces = max_pieces_ahead + 1;  ///< what the plan names, and the V of the last tile

    static std::int64_t lines_of_row(const MemoryRows& rows) { return (rows.bytes + line - 1) / line; }

    /// Not inline: it would take registers and room from the loops around it.
    __attribute__((noinline)) void fetch(std::int64_t lines)
    {
        lines_ -= lines;
        while (lines > 0) {
            MemoryRows& piece = pieces_[current_];
            const char* row = static_cast<const char*>(piece.data);
            for (; offset_ < piece.bytes && lines > 0; offset_ += line, --lines)
                fetch_line<Arch>(row, offset_);
            if (offset_ < piece.bytes) return;
            offset_ = 0;
            piece.data = row + piece.stride_bytes;
            if (--piece.rows == 0) ++current_;
        }
    }

    MemoryRows pieces_[most_pieces];
    int count_ = 0;
    int current_ = 0;
    std::int64_t offset_ = 0;  ///< in the row that is being fetched
    std::int64_t lines_ = 0;   ///< not fetched yet
    std::int64_t turns_ = 1;
    std::int64_t share_ = 0;  ///< lines of a turn
};

}  // namespace headwise::kernels
