#include "attend_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>

#include "ceil_div.hpp"
#include "mask_range.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace headwise {

namespace {

/// What a call reads beyond this comes from memory when its turn comes. (Zen 3, AVX2, a thread alone: fetching ahead
/// gained 10 to 40 % from 7 MiB on, and lost 2 to 16 % at 1 to 4 MiB, which the third-level cache held.)
constexpr double near_bytes = 6 << 20;

/// Calls that read more than this fetch ahead as well, unless their heads have no more of K and V than that: the third-level
/// cache has them, but the queries and the first tile of a block come from there one after the other. (Zen 4, 2 to 4 MiB,
/// d_k 64: n 100 to 128 1.04 to 1.1 times as fast, n 256 1.05, n 512 1.02 to 1.04. n 48 1.02 to 1.08, but causal 0.98 and on
/// two threads 0.96; n 16, d_k 128 0.9.)
constexpr double near_bytes_of_long_heads = 2 << 20;
constexpr double short_head_bytes = 32 << 10;

/// Panels of a block at most where weights are kept, which fill the second-level cache: one, unless K and V of a head,
/// which every block reads again, are more than this. (Zen 3, layer n 2048, d_model 1024, h 16: 4 panels 1.48 times as fast
/// as one, 2 panels 1.26; nothing gained where K and V are 768 KiB.)
constexpr std::int64_t max_panels_with_weights = 4;
constexpr double near_bytes_of_head = 768 << 10;

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

/// Whether scale and sinks can be in units of log2, in which a number is a half larger.
template <class T>
bool fits_log2(T scale, const VectorView<const T>& sinks)
{
    const auto fits = [](T x) { return std::abs(x) <= std::numeric_limits<T>::max() / T(1.5); };
    if (!fits(scale)) return false;
    for (std::int64_t head = 0; sinks.given() && head < sinks.shape[0]; ++head)
        if (!fits(sinks(head)) && std::isfinite(sinks(head))) return false;
    return true;
}

template <class E>
bool keeps_weights(const AttentionOptions<E>& options)
{
    return options.weights.given() || options.mean_weights.given() ||
           (options.scores.given() && options.score_stage == ScoreStage::weights);
}

}  // namespace

template <class E>
AttendPlan<E>::AttendPlan(const KernelTable<T>& kernels, const AttendSizes& sizes, TensorView<const E, 4> K,
                          TensorView<const E, 4> V, const AttentionOptions<E>& options)
    : kernels_(kernels), sizes_(sizes), K_(K), V_(V), options_(options), rows_(sizes_, options)
{
}

template <class E>
void AttendPlan<E>::run(TensorView<const E, 4> Q, TensorView<E, 4> Y) const
{
    run(Queries<E>{Q, Y, nullptr, {0, sizes_.batch, 0, sizes_.n_q}});
}

template <class E>
void AttendPlan<E>::run(TensorView<const E, 4> Q, TensorView<E, 4> Y, std::int64_t first_item) const
{
    run(Queries<E>{.Q = Q,
                   .Y = Y,
                   .panels = nullptr,
                   .range = {first_item, Q.shape[0], 0, sizes_.n_q},
                   .first_item = first_item,
                   .only_panels = true});
}

template <class E>
void AttendPlan<E>::run(const QueryPanels<T>& panels) const
{
    run(Queries<E>{.Q = {}, .Y = {}, .panels = &panels, .range = panels.range, .only_panels = true});
}

template <class E>
void AttendPlan<E>::run(TensorView<const E, 4> Q, TensorView<E, 4> Y, const RaggedStarts& starts) const
{
    run(Queries<E>{Q, Y, nullptr, {0, sizes_.batch, 0, sizes_.n_q, &starts}});
}

template <class E>
AttendCut::Limits AttendPlan<E>::limits(const Queries<E>& queries) const
{
    AttendCut::Limits limits;
    limits.panel_tokens = kernels_.panel_tokens();
    const std::int64_t bytes_of_token = (sizes_.d_k + sizes_.d_v) * static_cast<std::int64_t>(sizeof(T));
    limits.panel_bytes = bytes_of_token * limits.panel_tokens;
    limits.tile_bytes = bytes_of_token * kernels_.key_tile(sizes_.d_k, sizes_.d_v);
    limits.units_in_turn = options_.mean_weights.given();  // the mean over heads is summed in order
    limits.one_head_units = limits.units_in_turn || queries.panels;
    if (keeps_weights(options_))  // a row's weights are kept until its maximum is known
        limits.max_panels = bytes_of_head() > near_bytes_of_head ? max_panels_with_weights : 1;
    return limits;
}

template <class E>
void AttendPlan<E>::run(Queries<E> queries) const
{
    if (queries.range.item_count == 0 || queries.range.query_count == 0) return;
    const AttendCut cut(sizes_, queries.range, limits(queries));
    AttendBlock<T> common = block_of(queries, cut);
    const bool few = kernels_.attends_few(common);
    if (few && common.has_mask && mask_is_ranges(options_.mask, queries.range, sizes_.heads)) {
        queries.mask_is_ranges = true;  // bounds spare the reading of what they exclude
        common = block_of(queries, cut);
    }
    const std::int64_t chunk_keys = ChunkCut::keys_of_chunk(sizes_.d_k + sizes_.d_v);
    if (few && sizes_.n_kv > chunk_keys)
        return run_in_chunks(queries, cut, ChunkCut(cut, rows_.keys_seen(queries.range), chunk_keys), common);

    const double bytes = bytes_read(queries.range);
    common.far = bytes > near_bytes;
    const bool looks_ahead = common.far || (bytes > near_bytes_of_long_heads && bytes_of_head() > short_head_bytes);
    run_blocks(cut, common, cut.tasks(), multiply_adds(queries.range),
               [&](const TaskQueue& queue, std::int64_t task, AttendBlock<T>& block, AttendRow<T>* rows) {
                   const AttendPlace place = cut.place(task);
                   if (place.row_count <= 0) return;  // a block too many of a ragged item
                   if (looks_ahead) look_ahead(queries, cut, place, queue.likely_after(task), block);
                   run_task(queries, cut, place, block, rows);
               });
}

/// Few rows and many keys: chunks of keys, then the merging of what they leave.
template <class E>
void AttendPlan<E>::run_in_chunks(const Queries<E>& queries, const AttendCut& cut, const ChunkCut& chunks,
                                  const AttendBlock<T>& common) const
{
    const std::int64_t of_row = partial_numbers(sizes_.d_v);
    const std::int64_t numbers = chunks.tasks() * cut.rows_of_unit() * of_row;
    Scratch scratch(Scratch::size<T>(numbers));
    T* const partials = scratch.template take<T>(numbers);
    const auto partials_of = [&](const ChunkCut::Merge& merge) {
        return partials + merge.first * cut.rows_of_unit() * of_row;
    };
    run_blocks(cut, common, chunks.tasks(), multiply_adds(queries.range),
               [&](const TaskQueue&, std::int64_t task, AttendBlock<T>& block, AttendRow<T>* rows) {
                   const ChunkCut::Chunk chunk = chunks.chunk(task);
                   const AttendPlace& place = chunk.of.rows;
                   if (chunk.index >= chunk.of.chunks) return;
                   const bool whole = chunk.of.chunks == 1;
                   block.partials = whole ? nullptr : partials_of(chunk.of) + chunk.index * place.row_count * of_row;
                   run_task(queries, cut, place, block, rows, chunk.keys);
               });
    run_blocks(cut, common, chunks.merges(), static_cast<double>(numbers),
               [&](const TaskQueue&, std::int64_t index, AttendBlock<T>& block, AttendRow<T>* rows) {
                   const ChunkCut::Merge merge = chunks.merge(index);
                   if (merge.chunks == 1) return;
                   block.partials = partials_of(merge);
                   block.merged_chunks = merge.chunks;
                   run_task(queries, cut, merge.rows, block, rows);
               });
}

/// run_one(queue, task, block, rows) for each of `tasks` tasks. The block is `common` with scratch memory, the rows have
/// room for a block's.
template <class E>
template <class RunOne>
void AttendPlan<E>::run_blocks(const AttendCut& cut, const AttendBlock<T>& common, std::int64_t tasks, double work,
                               const RunOne& run_one) const
{
    AttendBlock<T> largest = common;
    largest.row_count = std::min(cut.rows_of_block(), cut.rows_of_unit());
    const std::int64_t scratch_numbers = kernels_.attend_scratch(largest);
    const std::size_t bytes = Scratch::size<AttendRow<T>>(cut.rows_of_block()) + Scratch::size<T>(scratch_numbers);
    std::mutex reporting;
    run_tasks(tasks, work, [&](TaskQueue& queue) {
        Scratch scratch(bytes);
        AttendRow<T>* const rows = scratch.template take<AttendRow<T>>(cut.rows_of_block());
        std::fill_n(rows, cut.rows_of_block(), AttendRow<T>{});  // AttendRows writes what the options need
        WorkReport done;
        AttendBlock<T> block = common;
        block.scratch = scratch.template take<T>(scratch_numbers);
        block.work = options_.work ? &done : nullptr;
        for (std::int64_t task = queue.next(); task < tasks; task = queue.next()) run_one(queue, task, block, rows);
        if (!options_.work) return;
        const std::lock_guard lock(reporting);
        options_.work->useful += done.useful;
        options_.work->issued += done.issued;
    });
}

template <class E>
AttendBlock<typename AttendPlan<E>::T> AttendPlan<E>::block_of(const Queries<E>& queries, const AttendCut& cut) const
{
    AttendBlock<T> block{};
    block.unit_rows = cut.rows_of_unit();
    block.n_kv = sizes_.n_kv;
    block.d_k = sizes_.d_k;
    block.d_v = sizes_.d_v;
    block.k = matrix_of(K_, cut.rows_of_unit());
    block.v = matrix_of(V_, cut.rows_of_unit());
    block.only_panels = queries.only_panels;
    if (!queries.panels) {
        block.q_stride = queries.Q.strides[3];
        block.y_stride = queries.Y.strides[3];
    }
    block.weights_stride = options_.weights.strides[3];
    block.mean_weights_stride = options_.mean_weights.strides[2];
    block.scores_stride = options_.scores.strides[3];
    block.scale = static_cast<T>(options_.scale.value_or(1 / std::sqrt(static_cast<double>(sizes_.d_k))));
    block.softcap = static_cast<T>(options_.softcap);
    block.has_mask = options_.mask.given() && !queries.mask_is_ranges;
    if (block.has_mask) {
        const std::int64_t keys = options_.mask.shape()[3];
        block.mask_type = options_.mask.type();
        block.mask_stride = keys == 1 ? 0 : options_.mask.strides()[3];
        block.mask_keys = keys == 1 ? sizes_.n_kv : keys;
    }
    block.has_alibi = options_.alibi.given();
    block.has_sinks = options_.sinks.given();
    block.has_scores = options_.scores.given();
    block.score_stage = options_.score_stage;
    const bool is_added_to = options_.softcap != 0 || block.has_alibi ||
                             (block.has_mask && block.mask_type != ElementType::boolean);
    block.natural = is_added_to || block.gives_scores_before_softmax() || !fits_log2(block.scale, options_.sinks);
    block.keeps_weights = keeps_weights(options_);
    block.has_mean = options_.mean_weights.given();
    block.mean_factor = T(1) / static_cast<T>(sizes_.heads);
    return block;
}

/// Runs the blocks of a task on the keys of a chunk. `block` has what all blocks of the call have in common.
template <class E>
void AttendPlan<E>::run_task(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place,
                             AttendBlock<T>& block, AttendRow<T>* rows, const KeyRange& chunk) const
{
    const AttendItem& item = place.item;
    block.rows = rows;
    block.row_count = place.row_count;
    block.unit_rows = place.rows_of_item;
    block.n_kv = item.n_kv;
    for (std::int64_t unit = place.first_unit; unit < place.first_unit + cut.units_of_task(); ++unit) {
        const std::int64_t head = unit * cut.heads_of_unit();
        rows_.describe(queries, cut, place, head, chunk, {rows, static_cast<std::size_t>(place.row_count)});
        block.k.data = row_of(K_, item.tensor, kv_head(head), item.first_key);
        block.v.data = row_of(V_, item.tensor, kv_head(head), item.first_key);
        block.begins_mean = unit == 0;
        block.ends_mean = unit == cut.units() - 1;
        if (queries.panels) {
            const QueryPanels<T>& p = *queries.panels;
            const std::int64_t panel = place.first_row / kernels_.panel_tokens();
            const std::int64_t local = item.index - p.range.first_item;
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
double AttendPlan<E>::multiply_adds(const QueryRange& range) const
{
    return static_cast<double>(range.item_count * sizes_.heads * range.query_count) * static_cast<double>(sizes_.n_kv) *
           static_cast<double>(sizes_.d_k + sizes_.d_v);
}

template <class E>
double AttendPlan<E>::bytes_read(const QueryRange& range) const
{
    const auto product = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
    return product(range.item_count, sizes_.heads, range.query_count, sizes_.d_k, sizeof(E)) +
           product(range.item_count, sizes_.kv_heads, sizes_.n_kv, sizes_.d_k + sizes_.d_v, sizeof(E));
}

/// K and V of one head, of the longest sequence.
template <class E>
double AttendPlan<E>::bytes_of_head() const
{
    return static_cast<double>(sizes_.n_kv) * static_cast<double>((sizes_.d_k + sizes_.d_v) * std::int64_t{sizeof(E)});
}

/// Names the task's rows of Y, and what the task after it will read first, as far as this one has not read it: its
/// queries, and the first tile of its keys.
template <class E>
void AttendPlan<E>::look_ahead(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place,
                               std::int64_t next_task, AttendBlock<T>& block) const
{
    for (MemoryRows& rows : block.ahead) rows = {};
    if (cut.units_of_task() > 1) return;
    const auto head_of = [&](const AttendPlace& of) { return of.first_unit * cut.heads_of_unit(); };
    const auto query_of = [&](const AttendPlace& of) {
        return queries.range.first_query + of.first_row / cut.heads_of_unit();
    };
    const auto rows_of = [&](const auto& view, const AttendPlace& of, std::int64_t width) -> MemoryRows {
        constexpr std::int64_t size = sizeof(E);
        if (queries.panels || view.strides[3] != 1) return {};
        return {row_of(view, of.item.tensor - queries.first_item, head_of(of), of.item.first_row + query_of(of)),
                view.strides[2] * size, ceil_div(of.row_count, cut.heads_of_unit()), width * size};
    };
    block.ahead[0] = rows_of(queries.Y, place, sizes_.d_v);
    if (next_task >= cut.tasks()) return;
    const AttendPlace next = cut.place(next_task);
    if (next.row_count <= 0) return;
    block.ahead[1] = rows_of(queries.Q, next, sizes_.d_k);
    const std::int64_t kv = kv_head(head_of(next));
    if (kv == kv_head(head_of(place)) && next.item.index == place.item.index) return;
    const std::int64_t first_key = rows_.keys_seen(next.item, query_of(next)).first;
    const std::int64_t tile = kernels_.key_tile(sizes_.d_k, sizes_.d_v);
    const std::int64_t count = std::min(rows_.keys_of(next.item) - first_key, tile);
    const auto first_tile = [&](AttendMatrix matrix, const TensorView<const E, 4>& view, std::int64_t width) {
        matrix.data = row_of(view, next.item.tensor, kv, next.item.first_key);
        return rows_in_memory<E>(matrix, first_key, count, width);
    };
    block.ahead[2] = first_tile(block.k, K_, sizes_.d_k);
    block.ahead[3] = first_tile(block.v, V_, sizes_.d_v);
}

template class AttendPlan<float>;
template class AttendPlan<double>;
template class AttendPlan<bfloat16>;
template class AttendPlan<float16>;

}  // namespace headwise
