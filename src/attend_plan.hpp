// The plan of the fused operator: cuts the query rows of all batch items and heads into blocks (attend_cut.hpp), describes
// each block and its rows (attend_rows.hpp) to the kernel, and runs them as tasks. Used by the operator (attention.cpp) and
// by the layer (multi_head_attention.cpp).
#pragma once

#include <cstdint>

#include <headwise/attention.hpp>

#include "attend_cut.hpp"
#include "attend_rows.hpp"
#include "chunk_cut.hpp"
#include "kernels/kernel_table.hpp"

namespace headwise {

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

    /// The same for the batch items from first_item on that Q and Y have. A row gets the bits that it gets among others.
    void run(TensorView<const E, 4> Q, TensorView<E, 4> Y, std::int64_t first_item) const;

    /// The same from panels to panels; E must be its own compute type.
    void run(const QueryPanels<T>& panels) const;

private:
    AttendCut::Limits limits(const Queries<E>& queries) const;
    void run(Queries<E> queries) const;
    void run_in_chunks(const Queries<E>& queries, const AttendCut& cut, const ChunkCut& chunks,
                       const AttendBlock<T>& common) const;
    template <class RunOne>
    void run_blocks(const AttendCut& cut, const AttendBlock<T>& common, std::int64_t tasks, double work,
                    const RunOne& run_one) const;
    AttendBlock<T> block_of(const Queries<E>& queries, const AttendCut& cut) const;
    void run_task(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place, AttendBlock<T>& block,
                  AttendRow<T>* rows, const KeyRange& chunk = every_key) const;
    double multiply_adds(const QueryRange& range) const;
    double bytes_read(const QueryRange& range) const;
    double bytes_of_head() const;
    void look_ahead(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place, std::int64_t next_task,
                    AttendBlock<T>& block) const;
    std::int64_t kv_head(std::int64_t head) const { return head / (sizes_.heads / sizes_.kv_heads); }

    const KernelTable<T>& kernels_;
    AttendSizes sizes_;
    TensorView<const E, 4> K_;
    TensorView<const E, 4> V_;
    const AttentionOptions<E>& options_;
    AttendRows<E> rows_;
};

}  // namespace headwise
