// The plan of the fused operator: cuts the query rows of all batch items and heads into blocks, describes each block to
// the kernel, and runs them as tasks. Used by the operator (attention.cpp) and by the layer (multi_head_attention.cpp).
#pragma once

#include <cstdint>
#include <span>

#include <headwise/attention.hpp>

#include "kernels/kernel_table.hpp"

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

/// Query rows as panels, those of all heads below one another: (h * d_k) x W in, (h * d_v) x W out. Panel p of item i
/// begins at i * item_stride + p * panel_stride. They hold queries first_query ... of items first_item ...
template <class T>
struct QueryPanels {
    const T* q;
    std::int64_t q_item_stride;
    std::int64_t q_panel_stride;
    T* y;
    std::int64_t y_item_stride;
    std::int64_t y_panel_stride;
    std::int64_t first_item;
    std::int64_t item_count;
    std::int64_t first_query;
    std::int64_t query_count;
};

/// K and V (batch, kv_heads, n_kv, width) and the options of a call whose arguments have been checked.
template <class E>
class AttendPlan {
public:
    using T = compute_t<E>;

    AttendPlan(const KernelTable<T>& kernels, const AttendSizes& sizes, TensorView<const E, 4> K,
               TensorView<const E, 4> V, const AttentionOptions<E>& options);

    /// Q (batch, heads, n_q, d_k) to Y (batch, heads, n_q, d_v).
    void run(TensorView<const E, 4> Q, TensorView<E, 4> Y) const;

    /// The same with batch items of different lengths packed in one: Q (1, heads, tokens, d_k), K and V as well, Y
    /// (1, heads, tokens, d_v). The sizes' batch is the number of sequences, n_q and n_kv are the longest ones.
    void run(TensorView<const E, 4> Q, TensorView<E, 4> Y, const RaggedStarts& starts) const;

    /// The same from panels to panels; E must be its own compute type.
    void run(const QueryPanels<T>& panels) const;

private:
    struct Queries;
    struct Cut;

    struct Item;

    Item item_of(const Queries& queries, std::int64_t index) const;
    Cut cut(const Queries& queries) const;
    void run(const Queries& queries) const;
    void run_block(const Queries& queries, const Cut& cut, std::int64_t task, AttendRow<T>* rows, T* scratch,
                   WorkReport* work) const;
    AttendBlock<T> block_of(const Queries& queries, const Cut& cut) const;
    void describe_rows(const Queries& queries, const Item& item, const Cut& cut, std::int64_t first_head,
                       std::int64_t first_row, std::span<AttendRow<T>> rows) const;
    std::int64_t keys_of(const Item& item) const;
    void describe_more(const Item& item, std::int64_t head, std::int64_t query, AttendRow<T>& row) const;

    const KernelTable<T>& kernels_;
    AttendSizes sizes_;
    TensorView<const E, 4> K_;
    TensorView<const E, 4> V_;
    const AttentionOptions<E>& options_;
};

}  // namespace headwise
