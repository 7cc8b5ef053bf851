// What the fused kernel is told about one block of query rows. Plain types only, see kernel_table.hpp.
//
// A block is some query rows that share one key/value head. Rows are described one by one, so the kernel knows nothing
// of batches, heads, groups or layouts: the plan (src/attend_plan.cpp) has put all of that into the rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include <headwise/element.hpp>
#include <headwise/score_stage.hpp>
#include <headwise/work.hpp>

namespace headwise {

/// W numbers each: the running maximum before and after a tile, the running sum, and the factor of what came before.
template <class T>
struct SoftmaxState {
    const T* maximum_before;
    const T* maximum;
    T* sum;
    T* correction;
};

/// One query row of one head. Pointers are to elements of the tensors' type; null where not asked for.
template <class T>
struct AttendRow {
    const void* q;            ///< d_k numbers; unused where AttendBlock::q_panels is given
    void* y;                  ///< d_v numbers; unused where AttendBlock::y_panels is given
    const void* mask;         ///< n_kv elements of AttendBlock::mask_type
    void* weights;            ///< n_kv numbers
    void* mean_weights;       ///< n_kv numbers, see AttendBlock::has_mean
    void* scores;             ///< n_kv numbers
    T* log_sum_exp;           ///< one number
    std::int64_t first_key;   ///< keys first_key <= j < end_key take part, unless the mask excludes them
    std::int64_t end_key;     ///< never below first_key, never above n_kv
    std::int64_t position;    ///< for ALiBi
    T alibi_slope;
    T sink;
};

/// A matrix in memory: element (row, column) at data[row * row_stride + column * column_stride], elements of the
/// tensors' type. `copied`: each tile of rows is copied (and widened) into close rows of T before use; must be set
/// where the type is not T or column_stride is not 1.
struct AttendMatrix {
    const void* data;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride;
    bool copied;
};

/// `rows` rows of `bytes` bytes each; data null: none.
struct MemoryRows {
    const void* data = nullptr;
    std::ptrdiff_t stride_bytes = 0;
    std::int64_t rows = 0;
    std::int64_t bytes = 0;
};

inline constexpr int max_pieces_ahead = 4;  ///< that are fetched ahead at a time

/// Rows [first, first + rows) of a matrix of E's with `width` columns; none where it has no data or its columns do not lie
/// side by side.
template <class E>
MemoryRows rows_in_memory(const AttendMatrix& matrix, std::int64_t first, std::int64_t rows, std::int64_t width)
{
    constexpr std::ptrdiff_t size = sizeof(E);
    if (!matrix.data || matrix.column_stride != 1) return {};
    return {static_cast<const E*>(matrix.data) + first * matrix.row_stride, matrix.row_stride * size, rows,
            width * size};
}

/// Panels in memory, one for each panel_tokens rows of the block, the last one as narrow as its rows allow. Panel p
/// begins at data + p * panel_stride, and this head's rows of it `first_row` rows further down.
template <class T>
struct AttendPanels {
    T* data = nullptr;
    std::ptrdiff_t panel_stride = 0;
    std::int64_t first_row = 0;
};

/// Numbers of a row's partial result: its maximum, its sum, and d_v numbers that are not normalised yet.
constexpr std::int64_t partial_numbers(std::int64_t d_v)
{
    return d_v + 2;
}

template <class T>
struct AttendBlock {
    const AttendRow<T>* rows;
    std::int64_t row_count;
    std::int64_t unit_rows;  ///< rows of the batch item that share the key/value head, in this block and in others
    std::int64_t n_kv;
    std::int64_t d_k;
    std::int64_t d_v;
    AttendMatrix k;  ///< n_kv x d_k
    AttendMatrix v;  ///< n_kv x d_v

    std::ptrdiff_t q_stride = 1;  ///< of the elements of a row of Q; likewise below
    std::ptrdiff_t y_stride = 1;
    std::ptrdiff_t weights_stride = 1;
    std::ptrdiff_t mean_weights_stride = 1;
    std::ptrdiff_t scores_stride = 1;
    std::ptrdiff_t mask_stride = 1;
    std::int64_t mask_keys = 0;  ///< keys that the mask covers; end_key is never above it
    AttendPanels<const T> q_panels;  ///< instead of AttendRow::q: not yet scaled
    AttendPanels<T> y_panels;  ///< instead of AttendRow::y

    T scale;
    T softcap = 0;  ///< 0: none
    bool has_mask = false;
    ElementType mask_type = ElementType::boolean;
    bool has_alibi = false;
    bool has_sinks = false;
    bool natural = false;  ///< scores in natural units, else in units of log2
    bool keeps_weights = false;  ///< some output needs the weights of a whole row
    // The mean over heads: blocks that differ in the head alone follow one another with the same scratch memory, in which
    // the mean is summed; the last one hands it out.
    bool has_mean = false;
    bool begins_mean = false;
    bool ends_mean = false;
    T mean_factor = 1;
    bool has_scores = false;  ///< as they are at score_stage
    ScoreStage score_stage = ScoreStage::scaled;

    // Few rows and many keys: blocks whose rows see a chunk of the keys each leave partial results, and one more block, whose
    // rows are the same, merges them. See attend_few.hpp.
    T* partials =
        nullptr;  ///< partial_numbers() for each row, of one chunk after the other; null: rows are finished at once
    std::int64_t merged_chunks = 0;  ///< more than 0: merge as many, which lie at `partials`

    bool only_panels = false;  ///< even for few rows, which are a part of more
    bool far = false;  ///< K and V come from memory, not from a near cache
    /// Rows of y, and what the block that follows on this thread is thought to read first.
    MemoryRows ahead[max_pieces_ahead];

    T* scratch;  ///< KernelTable::attend_scratch numbers, aligned to 64 bytes
    WorkReport* work;  ///< counts are added here

    bool gives(ScoreStage stage) const { return has_scores && score_stage == stage; }

    /// Scores of pairs that take no part are wanted, too.
    bool gives_every_score() const { return gives(ScoreStage::scaled) || gives(ScoreStage::softcapped); }

    bool gives_scores_before_softmax() const { return has_scores && score_stage != ScoreStage::weights; }
};

}  // namespace headwise
