// The projections of a layer as tasks over panels of tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include <headwise/tensor_view.hpp>
#include <headwise/work.hpp>

#include "packed_matrix.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace headwise {

/// Tokens [first_token, first_token + tokens) of items [first_item, first_item + items).
struct PanelRange {
    std::int64_t first_item;
    std::int64_t items;
    std::int64_t first_token;
    std::int64_t tokens;
};

/// Products of a packed matrix with the tokens of a tensor. Where there are fewer panels than threads want, the
/// matrix's rows are shared out too, in whole strips, which changes no bit of the results.
template <class T>
class ProjectTokens {
public:
    ProjectTokens(const KernelTable<T>& kernels, WorkReport* work) : kernels_(kernels), work_(work) {}

    /// to (items, heads, tokens, width) = from (items, tokens, depth) times W, per head.
    void to_heads(const PackedMatrix<T>& W, TensorView<const T, 3> from, TensorView<T, 4> to,
                  std::int64_t Work::* stage) const
    {
        const PanelRange all{0, from.shape[0], 0, from.shape[1]};
        run(W, all, stage, [&](const Piece& piece, Buffers& buffers) {
            gather(from, piece, W.depth(), buffers.in);
            kernels_.project(W.projection(buffers.in, buffers.out, piece.first_row, piece.rows, piece.vectors));
            for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows;) {
                const std::int64_t head = row / W.width();
                const std::int64_t column = row % W.width();
                const std::int64_t columns = std::min(W.width() - column, piece.first_row + piece.rows - row);
                kernels_.panel_to_rows({buffers.out + (row - piece.first_row) * piece.width,
                                        &to(piece.item, head, piece.token, column), to.strides[2], to.strides[3],
                                        piece.tokens, columns, piece.vectors});
                row += columns;
            }
        });
    }

    /// The tokens of `range` times W as panels of W.rows() rows, one after another.
    void to_panels(const PackedMatrix<T>& W, TensorView<const T, 3> from, const PanelRange& range, T* to) const
    {
        run(W, range, &Work::project_q, [&](const Piece& piece, Buffers& buffers) {
            gather(from, piece, W.depth(), buffers.in);
            T* const panel = to + piece.panel * W.rows() * kernels_.panel_tokens() + piece.first_row * piece.width;
            kernels_.project(W.projection(buffers.in, panel, piece.first_row, piece.rows, piece.vectors));
        });
    }

    /// to (items, tokens, W.rows()), the tokens of `range` only, = panels of W.depth() rows times W.
    void from_panels(const PackedMatrix<T>& W, const T* panels, const PanelRange& range, TensorView<T, 3> to) const
    {
        run(W, range, &Work::project_o, [&](const Piece& piece, Buffers& buffers) {
            const T* const panel = panels + piece.panel * W.depth() * kernels_.panel_tokens();
            kernels_.project(W.projection(panel, buffers.out, piece.first_row, piece.rows, piece.vectors));
            kernels_.panel_to_rows({buffers.out, &to(piece.item, piece.token, piece.first_row), to.strides[1],
                                    to.strides[2], piece.tokens, piece.rows, piece.vectors});
        });
    }

private:
    /// What one step of a task works on: some rows of the matrix, one panel of tokens.
    struct Piece {
        std::int64_t panel;  ///< within the range
        std::int64_t item;
        std::int64_t token;
        std::int64_t tokens;
        std::int64_t first_row;
        std::int64_t rows;
        int vectors;
        int width;
    };

    struct Buffers {
        T* in;  ///< depth x W
        T* out;  ///< rows x W
    };

    void gather(const TensorView<const T, 3>& from, const Piece& piece, std::int64_t depth, T* to) const
    {
        T* const rows = const_cast<T*>(&from(piece.item, piece.token, 0));  // PanelRows serves both directions
        kernels_.rows_to_panel({to, rows, from.strides[1], from.strides[2], piece.tokens, depth, piece.vectors});
    }

    template <class Step>
    void run(const PackedMatrix<T>& W, const PanelRange& range, std::int64_t Work::* stage, const Step& step) const
    {
        const std::int64_t full = kernels_.panel_tokens();
        const std::int64_t panels_of_item = (range.tokens + full - 1) / full;
        const std::int64_t panels = range.items * panels_of_item;
        if (panels == 0) return;
        const std::int64_t strips = (W.rows() + strip_rows - 1) / strip_rows;
        const std::int64_t wanted = thread_count() == 1 ? 1 : 4 * thread_count();
        const std::int64_t parts = std::clamp<std::int64_t>(wanted / panels, 1, strips);
        const std::int64_t rows_of_part = (strips + parts - 1) / parts * strip_rows;
        const double work = static_cast<double>(range.items * range.tokens) * static_cast<double>(W.rows() * W.depth());
        const std::size_t bytes = Scratch::size<T>(W.depth() * full) + Scratch::size<T>(W.rows() * full);
        run_tasks(panels * parts, work, [&](const auto& next) {
            Scratch scratch(bytes);
            Buffers buffers;
            buffers.in = scratch.take<T>(W.depth() * full);
            buffers.out = scratch.take<T>(W.rows() * full);
            for (std::int64_t task = next(); task < panels * parts; task = next()) {
                Piece piece;
                piece.panel = task % panels;
                piece.item = range.first_item + piece.panel / panels_of_item;
                const std::int64_t local = piece.panel % panels_of_item * full;
                piece.token = range.first_token + local;
                piece.tokens = std::min(full, range.tokens - local);
                piece.first_row = task / panels * rows_of_part;
                piece.rows = std::min(rows_of_part, W.rows() - piece.first_row);
                piece.vectors = static_cast<int>((piece.tokens + kernels_.lanes - 1) / kernels_.lanes);
                piece.width = piece.vectors * kernels_.lanes;
                if (piece.rows > 0) step(piece, buffers);
            }
        });
        report(W, range, stage);
    }

    /// Every panel meets every row, whatever the tasks were.
    void report(const PackedMatrix<T>& W, const PanelRange& range, std::int64_t Work::* stage) const
    {
        if (!work_) return;
        const std::int64_t lanes = kernels_.lanes;
        const std::int64_t padded = (range.tokens + lanes - 1) / lanes * lanes;
        work_->useful.*stage += range.items * range.tokens * W.rows() * W.depth();
        work_->issued.*stage += range.items * padded * W.rows() * W.depth();
    }

    const KernelTable<T>& kernels_;
    WorkReport* work_;
};

}  // namespace headwise
