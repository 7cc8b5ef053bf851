// The projections of a layer as tasks over panels of tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include <headwise/tensor_view.hpp>
#include <headwise/work.hpp>

#include "ceil_div.hpp"
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

/// Products of packed matrices with the tokens of a tensor. Where there are fewer panels than threads want, the
/// matrices' rows are shared out too, in whole strips, which changes no bit of the results.
template <class T>
class ProjectTokens {
    /// What one step of a task works on: some rows of a matrix, one panel of tokens.
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

    /// A matrix, and what is done with its product: step(piece, panel, buffer) does a piece of it.
    template <class Step>
    struct Product {
        const PackedMatrix<T>& W;
        std::int64_t Work::* stage;
        Step step;
    };

public:
    ProjectTokens(const KernelTable<T>& kernels, WorkReport* work) : kernels_(kernels), work_(work) {}

    /// The tokens of `range` times the matrices of all `products`, each of which is to_heads() or to_panels(). Small
    /// matrices share one pass over the tokens.
    template <class... Steps>
    void run(TensorView<const T, 3> from, const PanelRange& range, const Product<Steps>&... products) const
    {
        const auto gather = [&](const Piece& piece, T* to) -> const T* {
            T* const rows = const_cast<T*>(&from(piece.item, piece.token, 0));  // PanelRows serves both directions
            kernels_.rows_to_panel(
                {to, rows, from.strides[1], from.strides[2], piece.tokens, from.shape[2], piece.vectors});
            return to;
        };
        const std::int64_t numbers = (products.W.rows() + ...) * from.shape[2];
        if (numbers * static_cast<std::int64_t>(sizeof(T)) <= max_bytes_together)
            run_tasks_on(range, gather, products...);
        else (run_tasks_on(range, gather, products), ...);
    }

    /// To rows (items, heads, tokens, width).
    auto to_heads(const PackedMatrix<T>& W, TensorView<T, 4> to, std::int64_t Work::* stage) const
    {
        return product(W, stage, [this, &W, to](const Piece& piece, const T* in, T* out) {
            kernels_.project(W.projection(in, out, piece.first_row, piece.rows, piece.vectors, piece.tokens));
            for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows;) {
                const std::int64_t head = row / W.width();
                const std::int64_t column = row % W.width();
                const std::int64_t columns = std::min(W.width() - column, piece.first_row + piece.rows - row);
                kernels_.panel_to_rows({out + (row - piece.first_row) * piece.width,
                                        &to(piece.item, head, piece.token, column), to.strides[2], to.strides[3],
                                        piece.tokens, columns, piece.vectors});
                row += columns;
            }
        });
    }

    /// To panels of W.rows() rows, one after another.
    auto to_panels(const PackedMatrix<T>& W, T* to, std::int64_t Work::* stage) const
    {
        return product(W, stage, [this, &W, to](const Piece& piece, const T* in, T*) {
            T* const panel = to + piece.panel * W.rows() * kernels_.panel_tokens() + piece.first_row * piece.width;
            kernels_.project(W.projection(in, panel, piece.first_row, piece.rows, piece.vectors, piece.tokens));
        });
    }

    /// to (items, tokens, W.rows()), the tokens of `range` only, = panels of W.depth() rows times W.
    void from_panels(const PackedMatrix<T>& W, const T* panels, const PanelRange& range, TensorView<T, 3> to) const
    {
        const auto in_place = [&](const Piece& piece, T*) {
            return panels + piece.panel * W.depth() * kernels_.panel_tokens();
        };
        const auto step = [&](const Piece& piece, const T* in, T* out) {
            kernels_.project(W.projection(in, out, piece.first_row, piece.rows, piece.vectors, piece.tokens));
            kernels_.panel_to_rows({out, &to(piece.item, piece.token, piece.first_row), to.strides[1], to.strides[2],
                                    piece.tokens, piece.rows, piece.vectors});
        };
        run_tasks_on(range, in_place, product(W, &Work::project_o, step));
    }

private:
    /// Matrices that are more than this are done one after the other, so that each stays as near as it can. (Zen 4, layer
    /// n 16, d_model 384 on two threads: together 1.07 times as fast; n 512, d_model 768 on one: 0.98.)
    static constexpr std::int64_t max_bytes_together = 4 << 20;

    /// Panels that a task works on together, so that each block of the matrix is fetched once for all of them, where
    /// the matrix is this large. One or two cores do not need it since strips are fetched ahead, 0.98 to 1.02 of the time
    /// without; 64 that share memory would read a matrix of 64 MiB 256 times for 4096 tokens.
    static constexpr std::int64_t max_panels = 4;
    static constexpr std::int64_t large_matrix_bytes = 8 << 20;

    /// Matrices are cut into more parts where fewer would end so much later.
    static constexpr double most_unevenness = 0.03;

    /// Rows of the matrix in a block are a multiple of this: whole strips, and whole vectors on every instruction set.
    static constexpr std::int64_t row_step = 4 * strip_rows;

    /// Bytes of a block of the matrix, which should stay in the second-level cache beside the panels.
    static constexpr std::int64_t block_bytes = 128 << 10;

    template <class Step>
    static Product<Step> product(const PackedMatrix<T>& W, std::int64_t Work::* stage, const Step& step)
    {
        return {W, stage, step};
    }

    /// Rows of W with those that fill its last strip.
    static std::int64_t padded_rows(const PackedMatrix<T>& W) { return ceil_div(W.rows(), strip_rows) * strip_rows; }

    /// How the products are cut into tasks: tasks = groups of panels x parts of the rows, which are the padded rows of all
    /// matrices one after the other.
    struct Cut {
        std::int64_t panels_of_item;
        std::int64_t panels;
        std::int64_t panels_of_group;
        std::int64_t groups;
        std::int64_t rows;
        std::int64_t rows_of_part;
        std::int64_t parts;
        std::int64_t rows_of_block;
    };

    /// For `rows` rows of matrices of which the largest has `most_rows`.
    Cut cut(std::int64_t rows, std::int64_t most_rows, std::int64_t depth, const PanelRange& range) const
    {
        Cut cut;
        const std::int64_t full = kernels_.panel_tokens();
        const std::int64_t row_bytes = depth * static_cast<std::int64_t>(sizeof(T));
        cut.panels_of_item = ceil_div(range.tokens, full);
        cut.panels = range.items * cut.panels_of_item;
        const std::int64_t wanted = thread_count() == 1 ? 1 : 4 * thread_count();
        const bool large = most_rows * row_bytes > large_matrix_bytes;
        cut.panels_of_group = large ? std::clamp<std::int64_t>(cut.panels / wanted, 1, max_panels) : 1;
        cut.groups = ceil_div(cut.panels, cut.panels_of_group);
        cut.rows = rows;
        const std::int64_t strips = rows / strip_rows;
        std::int64_t parts = std::clamp<std::int64_t>(wanted / cut.groups, 1, strips);
        while (parts < strips && unevenness(cut.groups * parts) > most_unevenness) ++parts;
        cut.rows_of_part = ceil_div(strips, parts) * strip_rows;
        // Few tokens pay for the last strips of a part in pairs (project_few.hpp): whole groups, if that ends earlier.
        const auto time = [&](std::int64_t rows_of_part) {
            const std::int64_t parts_of_thread = ceil_div(ceil_div(rows, rows_of_part) * cut.groups, thread_count());
            return parts_of_thread * ceil_div(rows_of_part, 2 * strip_rows);
        };
        const std::int64_t of_whole_groups = ceil_div(cut.rows_of_part, row_step) * row_step;
        if (time(of_whole_groups) < time(cut.rows_of_part)) cut.rows_of_part = of_whole_groups;
        cut.parts = ceil_div(rows, cut.rows_of_part);
        const std::int64_t steps = std::max<std::int64_t>(1, block_bytes / (row_step * row_bytes));
        cut.rows_of_block = cut.panels_of_group == 1 ? cut.rows_of_part : std::min(cut.rows_of_part, steps * row_step);
        return cut;
    }

    /// By how much the threads with most to do exceed the mean, where they share as many equal tasks.
    static double unevenness(std::int64_t tasks)
    {
        const std::int64_t threads = thread_count();
        return static_cast<double>(ceil_div(tasks, threads) * threads) / static_cast<double>(tasks) - 1;
    }

    Piece piece_of(const Cut& cut, const PanelRange& range, std::int64_t panel) const
    {
        const std::int64_t full = kernels_.panel_tokens();
        Piece piece{};
        piece.panel = panel;
        piece.item = range.first_item + panel / cut.panels_of_item;
        const std::int64_t local = panel % cut.panels_of_item * full;
        piece.token = range.first_token + local;
        piece.tokens = std::min(full, range.tokens - local);
        piece.vectors = static_cast<int>(ceil_div(piece.tokens, kernels_.lanes));
        piece.width = piece.vectors * kernels_.lanes;
        return piece;
    }

    /// panel_of(piece, buffer) gives a piece's panel.
    template <class PanelOf, class... Steps>
    void run_tasks_on(const PanelRange& range, const PanelOf& panel_of, const Product<Steps>&... products) const
    {
        if (range.items == 0 || range.tokens == 0) return;
        const std::int64_t depth = std::max({products.W.depth()...});  // they are all the same
        const std::int64_t most_rows = std::max({padded_rows(products.W)...});
        const Cut how = cut((padded_rows(products.W) + ...), most_rows, depth, range);
        const double work = static_cast<double>(range.items * range.tokens) * static_cast<double>(how.rows * depth);
        const std::int64_t in_numbers = depth * kernels_.panel_tokens();
        const std::int64_t out_numbers = std::min(how.rows_of_block, most_rows) * kernels_.panel_tokens();
        const std::size_t bytes = Scratch::size<T>(how.panels_of_group * in_numbers) + Scratch::size<T>(out_numbers);
        run_tasks(how.groups * how.parts, work, [&](TaskQueue& queue) {
            Scratch scratch(bytes);
            T* const in = scratch.take<T>(how.panels_of_group * in_numbers);
            T* const out = scratch.take<T>(out_numbers);
            for (std::int64_t task = queue.next(); task < how.groups * how.parts; task = queue.next()) {
                const std::int64_t first = task % how.groups * how.panels_of_group;
                const std::int64_t count = std::min(how.panels_of_group, how.panels - first);
                Piece pieces[max_panels];
                const T* panels[max_panels];
                for (std::int64_t i = 0; i < count; ++i) {
                    pieces[i] = piece_of(how, range, first + i);
                    panels[i] = panel_of(pieces[i], in + i * in_numbers);
                }
                const std::int64_t first_row = task / how.groups * how.rows_of_part;
                const std::int64_t end_row = std::min(first_row + how.rows_of_part, how.rows);
                for (std::int64_t row = first_row; row < end_row; row += how.rows_of_block) {
                    const std::int64_t end = std::min(row + how.rows_of_block, end_row);
                    for (std::int64_t i = 0; i < count; ++i) {
                        std::int64_t begin = 0;
                        (step_within(products, pieces[i], panels[i], out, row, end, begin), ...);
                    }
                }
            }
        });
        (report(products.W, range, products.stage), ...);
    }

    /// The step of those rows of a matrix that lie within [first, end) of all; row 0 of the matrix is row `begin`, which
    /// moves on to the next matrix.
    template <class Step>
    static void step_within(const Product<Step>& product, Piece& piece, const T* panel, T* out, std::int64_t first,
                            std::int64_t end, std::int64_t& begin)
    {
        piece.first_row = std::max<std::int64_t>(first - begin, 0);
        piece.rows = std::min(end - begin, product.W.rows()) - piece.first_row;
        if (piece.rows > 0) product.step(piece, panel, out);
        begin += padded_rows(product.W);
    }

    /// Every panel meets every row, whatever the tasks were.
    void report(const PackedMatrix<T>& W, const PanelRange& range, std::int64_t Work::* stage) const
    {
        if (!work_) return;
        const std::int64_t lanes = kernels_.lanes;
        const std::int64_t of_last_panel = (range.tokens - 1) % kernels_.panel_tokens() + 1;
        const bool few = kernels_.projects_few(of_last_panel);
        const std::int64_t tokens = few ? range.tokens : ceil_div(range.tokens, lanes) * lanes;
        work_->useful.*stage += range.items * range.tokens * W.rows() * W.depth();
        work_->issued.*stage += range.items * tokens * W.rows() * W.depth();
    }

    const KernelTable<T>& kernels_;
    WorkReport* work_;
};

}  // namespace headwise
