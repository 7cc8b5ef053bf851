// The query rows of a call: where each is read and written, and which keys it sees. What the kernel is told of the rows of
// a block (AttendRow) is made here.
#pragma once

#include <cstdint>
#include <span>

#include <headwise/attention.hpp>

#include "attend_cut.hpp"
#include "kernels/attend_block.hpp"
#include "key_range.hpp"

namespace headwise {

/// Query rows as panels, those of all heads below one another: (h * d_k) x W in, (h * d_v) x W out. Panel p of the
/// i-th item of the range begins at i * item_stride + p * panel_stride.
template <class T>
struct QueryPanels {
    const T* q;
    std::int64_t q_item_stride;
    std::int64_t q_panel_stride;
    T* y;
    std::int64_t y_item_stride;
    std::int64_t y_panel_stride;
    QueryRange range;
};

/// Where the query rows are.
template <class E>
struct Queries {
    TensorView<const E, 4> Q;
    TensorView<E, 4> Y;
    const QueryPanels<compute_t<E>>* panels;  ///< instead of Q and Y, or null
    QueryRange range;
    std::int64_t first_item = 0;  ///< the batch item that Q and Y begin with
    bool only_panels = false;  ///< a row's bits do not depend on how many there are
    bool mask_is_ranges = false;  ///< each row of the mask leaves one range of keys, and is taken as bounds
};

/// The row (i, j, k) of a tensor. Null where the view is, as one without elements may be.
template <class T>
T* row_of(const TensorView<T, 4>& view, std::int64_t i, std::int64_t j, std::int64_t k)
{
    if (!view.data) return nullptr;
    return view.data + i * view.strides[0] + j * view.strides[1] + k * view.strides[2];
}

template <class E>
class AttendRows {
public:
    using T = compute_t<E>;

    /// `options` must outlive this object.
    AttendRows(const AttendSizes& sizes, const AttentionOptions<E>& options) : sizes_(sizes), options_(options) {}

    /// Describes rows.size() rows of a unit, from place.first_row on; of their keys, those of the chunk. Fields that the
    /// options do not need are left as they are.
    void describe(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place, std::int64_t first_head,
                  const KeyRange& chunk, std::span<AttendRow<T>> rows) const;

    /// From the first to the last key that any query of the range sees, masks aside; of ragged items all keys.
    KeyRange keys_seen(const QueryRange& range) const;

    /// The keys that a query sees; masks aside.
    KeyRange keys_seen(const AttendItem& item, std::int64_t query) const;

    /// The keys that lengths and a short mask leave to a batch item.
    std::int64_t keys_of(const AttendItem& item) const;

private:
    void describe_more(const Queries<E>& queries, const AttendItem& item, std::int64_t head, std::int64_t query,
                       AttendRow<T>& row) const;

    AttendSizes sizes_;
    const AttentionOptions<E>& options_;
};

}  // namespace headwise
