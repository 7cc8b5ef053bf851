#include "attend_plan.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <type_traits>

#include "ceil_div.hpp"
#include "check.hpp"
#include "key_range.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace headwise {

namespace {

/// Panels of a block at most: enough rows to share each copied tile of K and V.
constexpr std::int64_t max_panels_of_block = 16;

/// Bytes that their queries and outputs may take, so that they stay in the second-level cache beside the tiles. (Zen 3,
/// AVX2, h 1, n 512, d_k 512, share of peak: 2 panels, which are 128 KiB, 83 %; 4 panels 70 %; 8 panels 68 %.)
constexpr std::int64_t max_bytes_of_block = 128 << 10;

/// Blocks wanted for each thread, so that the last ones to finish do not leave the others idle for long.
constexpr std::int64_t blocks_per_thread = 8;

/// Null where the view is, as one without elements may be.
template <class T>
T* element(const TensorView<T, 4>& view, std::int64_t i, std::int64_t j, std::int64_t k)
{
    if (!view.data) return nullptr;
    return view.data + i * view.strides[0] + j * view.strides[1] + k * view.strides[2];
}

/// Rows of a matrix that lie further apart than this many times their width, and than this many bytes, fall on few
/// cache sets and many pages; copying each tile of them costs less.
template <class E>
bool far_apart(std::int64_t row_stride, std::int64_t width)
{
    const std::int64_t stride = row_stride < 0 ? -row_stride : row_stride;
    return stride > 2 * width && stride * static_cast<std::int64_t>(sizeof(E)) >= 1024;
}

template <class E>
AttendMatrix matrix_of(const TensorView<const E, 4>& view, std::int64_t query_rows)
{
    AttendMatrix matrix;
    matrix.data = view.data;
    matrix.row_stride = view.strides[2];
    matrix.column_stride = view.strides[3];
    const bool worth_copying = far_apart<E>(matrix.row_stride, view.shape[3]) && query_rows >= 64;
    matrix.copied = !std::is_same_v<E, compute_t<E>> || matrix.column_stride != 1 || worth_copying;
    return matrix;
}

template <class E>
bool keeps_weights(const AttentionOptions<E>& options)
{
    return options.weights.given() || options.mean_weights.given() ||
           (options.scores.given() && options.score_stage == ScoreStage::weights);
}

}  // namespace

/// Where the query rows are.
template <class E>
struct AttendPlan<E>::Queries {
    TensorView<const E, 4> Q;
    TensorView<E, 4> Y;
    const QueryPanels<T>* panels = nullptr;  ///< instead of Q and Y
    std::int64_t first_item;
    std::int64_t item_count;
    std::int64_t first_query;
    std::int64_t query_count;
    const RaggedStarts* starts = nullptr;
};

/// One batch item: where it is in the tensors, and its sizes.
template <class E>
struct AttendPlan<E>::Item {
    std::int64_t index;  ///< for what the options give each item
    std::int64_t tensor;  ///< batch index in the tensors
    std::int64_t first_row;  ///< row of its query 0, and of its key 0
    std::int64_t first_key;
    std::int64_t n_q;
    std::int64_t n_kv;
};

/// A task's place: one block of the rows of one item, for one unit, or for all of them.
template <class E>
struct AttendPlan<E>::Place {
    Item item;
    std::int64_t first_unit;
    std::int64_t block;
};

/// How the rows are cut. A unit is what a block's rows belong to: a key/value head with the query heads that share it,
/// or one query head. Row r of unit u is query r / heads_of_unit of head u * heads_of_unit + r % heads_of_unit, so that
/// neighbouring rows see neighbouring keys.
template <class E>
struct AttendPlan<E>::Cut {
    std::int64_t heads_of_unit;
    std::int64_t units;
    bool units_in_turn;  ///< one task runs all units of its rows in turn: the mean over heads is summed in order
    std::int64_t rows_of_unit;  ///< of the longest item
    std::int64_t rows_of_block;
    std::int64_t blocks;  ///< of all items together; those of ragged items include one that is empty for some

    std::int64_t units_of_task() const { return units_in_turn ? units : 1; }
};

template <class E>
AttendPlan<E>::AttendPlan(const KernelTable<T>& kernels, const AttendSizes& sizes, TensorView<const E, 4> K,
                          TensorView<const E, 4> V, const AttentionOptions<E>& options)
    : kernels_(kernels), sizes_(sizes), K_(K), V_(V), options_(options)
{
}

template <class E>
void AttendPlan<E>::run(TensorView<const E, 4> Q, TensorView<E, 4> Y) const
{
    run(Queries{Q, Y, nullptr, 0, sizes_.batch, 0, sizes_.n_q});
}

template <class E>
void AttendPlan<E>::run(const QueryPanels<T>& panels) const
{
    run(Queries{{}, {}, &panels, panels.first_item, panels.item_count, panels.first_query, panels.query_count});
}

template <class E>
void AttendPlan<E>::run(TensorView<const E, 4> Q, TensorView<E, 4> Y, const RaggedStarts& starts) const
{
    run(Queries{Q, Y, nullptr, 0, sizes_.batch, 0, sizes_.n_q, &starts});
}

template <class E>
typename AttendPlan<E>::Item AttendPlan<E>::item_of(const Queries& queries, std::int64_t index) const
{
    if (!queries.starts) return {index, index, 0, 0, sizes_.n_q, sizes_.n_kv};
    const auto& q = queries.starts->q_starts;
    const auto& kv = queries.starts->kv_starts;
    return {index, 0, q(index), kv(index), q(index + 1) - q(index), kv(index + 1) - kv(index)};
}

template <class E>
typename AttendPlan<E>::Cut AttendPlan<E>::cut(const Queries& queries) const
{
    Cut cut;
    cut.units_in_turn = options_.mean_weights.given();
    cut.heads_of_unit = cut.units_in_turn || queries.panels ? 1 : sizes_.heads / sizes_.kv_heads;
    cut.units = sizes_.heads / cut.heads_of_unit;
    cut.rows_of_unit = queries.query_count * cut.heads_of_unit;
    const std::int64_t panels = ceil_div(cut.rows_of_unit, kernels_.panel_tokens());
    const std::int64_t panels_of_items =
        queries.starts ? ceil_div(ragged_rows(queries, cut, queries.item_count), kernels_.panel_tokens())
                       : panels * queries.item_count;
    const std::int64_t all_panels = panels_of_items * cut.units / cut.units_of_task();
    const std::int64_t wanted = all_panels / (thread_count() * blocks_per_thread);
    const std::int64_t panel_bytes =
        (sizes_.d_k + sizes_.d_v) * kernels_.panel_tokens() * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t fitting =
        std::clamp<std::int64_t>(max_bytes_of_block / std::max<std::int64_t>(panel_bytes, 1), 1, max_panels_of_block);
    // A row's weights are kept until its maximum is known, which is why such a block has one panel.
    const std::int64_t most = keeps_weights(options_) ? 1 : std::min(panels, fitting);
    const std::int64_t panels_of_block = std::clamp<std::int64_t>(wanted, 1, most);
    cut.rows_of_block = panels_of_block * kernels_.panel_tokens();
    cut.blocks = queries.starts ? first_ragged_block(queries, cut, queries.item_count)
                                : queries.item_count * ceil_div(cut.rows_of_unit, cut.rows_of_block);
    return cut;
}

/// Rows of a unit in the ragged items before `item`.
template <class E>
std::int64_t AttendPlan<E>::ragged_rows(const Queries& queries, const Cut& cut, std::int64_t item) const
{
    return (queries.starts->q_starts(item) - queries.starts->q_starts(0)) * cut.heads_of_unit;
}

/// Number of a ragged item's first block. An item of r rows has ceil(r / rows_of_block) blocks, for which this leaves
/// room whatever r is, and at most one too many; so no table of the items is needed.
template <class E>
std::int64_t AttendPlan<E>::first_ragged_block(const Queries& queries, const Cut& cut, std::int64_t item) const
{
    return ragged_rows(queries, cut, item) / cut.rows_of_block + item;
}

/// Where a task works: blocks are the outermost index, the last ones first: with causal attention they have the most
/// keys.
template <class E>
typename AttendPlan<E>::Place AttendPlan<E>::place_of(const Queries& queries, const Cut& cut, std::int64_t task) const
{
    const std::int64_t units = cut.units / cut.units_of_task();
    if (!queries.starts) {
        const std::int64_t columns = queries.item_count * units;
        const std::int64_t blocks = cut.blocks / queries.item_count;
        const std::int64_t item = queries.first_item + task % columns / units;
        return {item_of(queries, item), task % units, blocks - 1 - task / columns};
    }
    const std::int64_t block = cut.blocks - 1 - task / units;
    std::int64_t item = 0;
    for (std::int64_t end = queries.item_count; end - item > 1;) {
        const std::int64_t middle = item + (end - item) / 2;
        if (first_ragged_block(queries, cut, middle) <= block) item = middle;
        else end = middle;
    }
    return {item_of(queries, item), task % units, block - first_ragged_block(queries, cut, item)};
}

template <class E>
void AttendPlan<E>::run(const Queries& queries) const
{
    if (queries.item_count == 0 || queries.query_count == 0) return;
    const Cut how = cut(queries);
    AttendBlock<T> largest = block_of(queries, how);
    largest.row_count = std::min(how.rows_of_block, how.rows_of_unit);
    const std::int64_t scratch_numbers = kernels_.attend_scratch(largest);
    const std::size_t bytes = Scratch::size<AttendRow<T>>(how.rows_of_block) + Scratch::size<T>(scratch_numbers);

    std::mutex reporting;
    const double work = static_cast<double>(queries.item_count * sizes_.heads * queries.query_count) *
                        static_cast<double>(sizes_.n_kv) * static_cast<double>(sizes_.d_k + sizes_.d_v);
    const std::int64_t tasks = how.blocks * how.units / how.units_of_task();
    run_tasks(tasks, work, [&](const auto& next) {
        Scratch scratch(bytes);
        AttendRow<T>* const rows = scratch.template take<AttendRow<T>>(how.rows_of_block);
        T* const numbers = scratch.template take<T>(scratch_numbers);
        WorkReport done;
        std::fill_n(rows, how.rows_of_block, AttendRow<T>{});  // describe_rows writes what the options need
        for (std::int64_t task = next(); task < tasks; task = next())
            run_block(queries, how, task, rows, numbers, options_.work ? &done : nullptr);
        if (!options_.work) return;
        const std::lock_guard lock(reporting);
        options_.work->useful += done.useful;
        options_.work->issued += done.issued;
    });
}

template <class E>
AttendBlock<typename AttendPlan<E>::T> AttendPlan<E>::block_of(const Queries& queries, const Cut& cut) const
{
    AttendBlock<T> block{};
    block.n_kv = sizes_.n_kv;
    block.d_k = sizes_.d_k;
    block.d_v = sizes_.d_v;
    block.k = matrix_of(K_, cut.rows_of_unit);
    block.v = matrix_of(V_, cut.rows_of_unit);
    if (!queries.panels) {
        block.q_stride = queries.Q.strides[3];
        block.y_stride = queries.Y.strides[3];
    }
    block.weights_stride = options_.weights.strides[3];
    block.mean_weights_stride = options_.mean_weights.strides[2];
    block.scores_stride = options_.scores.strides[3];
    block.scale = static_cast<T>(options_.scale.value_or(1 / std::sqrt(static_cast<double>(sizes_.d_k))));
    block.softcap = static_cast<T>(options_.softcap);
    block.has_mask = options_.mask.given();
    if (block.has_mask) {
        const std::int64_t keys = options_.mask.shape()[3];
        block.mask_type = options_.mask.type();
        block.mask_stride = keys == 1 ? 0 : options_.mask.strides()[3];
        block.mask_keys = keys == 1 ? sizes_.n_kv : keys;
    }
    block.has_alibi = options_.alibi.given();
    block.has_sinks = options_.sinks.given();
    block.score_stage = options_.scores.given() ? static_cast<int>(options_.score_stage) : -1;
    block.gives_log_sum_exp = options_.log_sum_exp.given();
    block.keeps_weights = keeps_weights(options_);
    block.has_mean = options_.mean_weights.given();
    block.mean_factor = T(1) / static_cast<T>(sizes_.heads);
    return block;
}

template <class E>
void AttendPlan<E>::run_block(const Queries& queries, const Cut& cut, std::int64_t task, AttendRow<T>* rows, T* scratch,
                              WorkReport* work) const
{
    const auto [item, first_unit, index] = place_of(queries, cut, task);
    const std::int64_t first_row = index * cut.rows_of_block;
    const std::int64_t rows_of_item = std::min(cut.rows_of_unit, (item.n_q - queries.first_query) * cut.heads_of_unit);
    const std::int64_t row_count = std::min(cut.rows_of_block, rows_of_item - first_row);
    if (row_count <= 0) return;  // a block too many of a ragged item

    for (std::int64_t unit = first_unit; unit < first_unit + cut.units_of_task(); ++unit) {
        const std::int64_t head = unit * cut.heads_of_unit;
        const std::int64_t kv_head = head / (sizes_.heads / sizes_.kv_heads);
        describe_rows(queries, item, cut, head, first_row, {rows, static_cast<std::size_t>(row_count)});
        AttendBlock<T> block = block_of(queries, cut);
        block.rows = rows;
        block.row_count = row_count;
        block.unit_rows = rows_of_item;
        block.n_kv = item.n_kv;
        block.k.data = element(K_, item.tensor, kv_head, item.first_key);
        block.v.data = element(V_, item.tensor, kv_head, item.first_key);
        block.begins_mean = unit == 0;
        block.ends_mean = unit == cut.units - 1;
        block.scratch = scratch;
        block.work = work;
        if (queries.panels) {
            const QueryPanels<T>& p = *queries.panels;
            const std::int64_t panel = first_row / kernels_.panel_tokens();
            const std::int64_t local = item.index - queries.first_item;
            block.q_panels = {p.q + local * p.q_item_stride + panel * p.q_panel_stride, p.q_panel_stride,
                              head * sizes_.d_k};
            block.y_panels = {p.y + local * p.y_item_stride + panel * p.y_panel_stride, p.y_panel_stride,
                              head * sizes_.d_v};
        }
        if constexpr (std::is_same_v<E, bfloat16>) kernels_.attend_bfloat16(block);
        else if constexpr (std::is_same_v<E, float16>) kernels_.attend_float16(block);
        else kernels_.attend(block);
    }
}

template <class E>
void AttendPlan<E>::describe_rows(const Queries& queries, const Item& item, const Cut& cut, std::int64_t first_head,
                                  std::int64_t first_row, std::span<AttendRow<T>> rows) const
{
    const bool bounded = options_.causal || options_.left_window >= 0 || options_.right_window >= 0;
    const bool has_more = options_.mask.given() || options_.alibi.given() || options_.sinks.given() ||
                          options_.weights.given() || options_.mean_weights.given() || options_.scores.given() ||
                          options_.log_sum_exp.given();
    const std::int64_t keys = keys_of(item);
    const std::int64_t offset = first_position(options_, item.index);
    std::int64_t query = queries.first_query + first_row / cut.heads_of_unit;
    std::int64_t head = first_head + first_row % cut.heads_of_unit;
    for (AttendRow<T>& row : rows) {
        if (!queries.panels) {
            row.q = element(queries.Q, item.tensor, head, item.first_row + query);
            row.y = element(queries.Y, item.tensor, head, item.first_row + query);
        }
        row.position = saturating_add(query, offset);
        const KeyRange range = bounded ? visible_keys(options_, row.position, keys) : KeyRange{0, keys};
        row.first_key = range.first;
        row.end_key = range.end;
        if (has_more) describe_more(item, head, query, row);
        if (++head == first_head + cut.heads_of_unit) {
            head = first_head;
            ++query;
        }
    }
}

/// The keys that lengths and a short mask leave to a batch item.
template <class E>
std::int64_t AttendPlan<E>::keys_of(const Item& item) const
{
    const std::int64_t keys = options_.kv_lengths.given() ? options_.kv_lengths(item.index) : item.n_kv;
    if (!options_.mask.given() || options_.mask.shape()[3] == 1) return keys;
    return std::min(keys, options_.mask.shape()[3]);
}

/// What only some options need.
template <class E>
void AttendPlan<E>::describe_more(const Item& item, std::int64_t head, std::int64_t query, AttendRow<T>& row) const
{
    if (options_.mask.given()) {
        const auto& shape = options_.mask.shape();
        const auto& strides = options_.mask.strides();
        const std::int64_t offset = (shape[0] == 1 ? 0 : item.index * strides[0]) +
                                    (shape[1] == 1 ? 0 : head * strides[1]) + (shape[2] == 1 ? 0 : query * strides[2]);
        row.mask = static_cast<const char*>(options_.mask.data()) +
                   offset * static_cast<std::int64_t>(bytes_of(options_.mask.type()));
    }
    if (options_.alibi.given()) row.alibi_slope = options_.alibi(head);
    if (options_.sinks.given()) row.sink = options_.sinks(head);
    row.weights = options_.weights.given() ? element(options_.weights, item.index, head, query) : nullptr;
    row.scores = options_.scores.given() ? element(options_.scores, item.index, head, query) : nullptr;
    row.mean_weights = options_.mean_weights.given() ? &options_.mean_weights(item.index, query, 0) : nullptr;
    row.log_sum_exp =
        options_.log_sum_exp.given() ? &options_.log_sum_exp(item.tensor, head, item.first_row + query) : nullptr;
}

template class AttendPlan<float>;
template class AttendPlan<double>;
template class AttendPlan<bfloat16>;
template class AttendPlan<float16>;

}  // namespace headwise
