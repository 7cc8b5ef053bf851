#include "attend_rows.hpp"

#include <algorithm>

#include "mask_range.hpp"

namespace headwise {

namespace {

/// Rows of a tensor in the order in which a unit's rows take them: those of its heads for one query, then for the next.
/// Null where the view is.
template <class T>
class RowsOfUnit {
public:
    RowsOfUnit(const TensorView<T, 4>& view, std::int64_t item, std::int64_t first_head, std::int64_t query,
               std::int64_t head)
        : first_(row_of(view, item, first_head, query)),
          head_stride_(first_ ? view.strides[1] : 0),
          query_stride_(first_ ? view.strides[2] : 0),
          of_row_(head * head_stride_)
    {
    }

    T* row() const { return first_ + of_row_; }
    void next_head() { of_row_ += head_stride_; }
    void next_query() { of_row_ = of_query_ += query_stride_; }

private:
    T* first_;
    std::int64_t head_stride_;
    std::int64_t query_stride_;
    std::int64_t of_query_ = 0;  ///< numbers from the first row on: a pointer might leave the tensor after the last one
    std::int64_t of_row_;
};

}  // namespace

template <class E>
void AttendRows<E>::describe(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place,
                             std::int64_t first_head, const KeyRange& chunk, std::span<AttendRow<T>> rows) const
{
    const AttendItem& item = place.item;
    const std::int64_t heads = cut.heads_of_unit();
    const std::int64_t first_query = queries.range.first_query + place.first_row / heads;
    const std::int64_t first = place.first_row % heads;  // of the unit's heads
    const std::int64_t offset = first_position(options_, item.index);
    const KeyBounds bounds(options_, keys_of(item));
    RowsOfUnit<const E> q(queries.Q, item.tensor - queries.first_item, first_head, item.first_row + first_query, first);
    RowsOfUnit<E> y(queries.Y, item.tensor - queries.first_item, first_head, item.first_row + first_query, first);
    std::int64_t query = first_query, head = first;
    std::int64_t position = saturating_add(query, offset);
    const bool whole = chunk.first == every_key.first && chunk.end == every_key.end;
    const auto keys_at = [&] { return whole ? bounds.at(position) : within(chunk, bounds.at(position)); };
    KeyRange range = keys_at();
    for (AttendRow<T>& row : rows) {
        row.q = q.row();
        row.y = y.row();
        row.position = position;
        row.first_key = range.first;
        row.end_key = range.end;
        if (++head < heads) {
            q.next_head();
            y.next_head();
            continue;
        }
        head = 0;
        q.next_query();
        y.next_query();
        position = saturating_add(++query, offset);
        if (!bounds.alike()) range = keys_at();
    }

    const bool has_more = options_.mask.given() || options_.alibi.given() || options_.sinks.given() ||
                          options_.weights.given() || options_.mean_weights.given() || options_.scores.given() ||
                          options_.log_sum_exp.given();
    if (!has_more) return;
    query = first_query;
    head = first;
    for (AttendRow<T>& row : rows) {
        describe_more(queries, item, first_head + head, query, row);
        if (++head == heads) head = 0, ++query;
    }
}

template <class E>
KeyRange AttendRows<E>::keys_seen(const QueryRange& range) const
{
    if (range.starts) return {0, sizes_.n_kv};
    KeyRange seen{sizes_.n_kv, 0};
    for (std::int64_t item = range.first_item; item < range.first_item + range.item_count; ++item)
        for (std::int64_t query = range.first_query; query < range.first_query + range.query_count; ++query) {
            const KeyRange of_query = keys_seen({item, item, 0, 0, sizes_.n_q, sizes_.n_kv}, query);
            if (of_query.first >= of_query.end) continue;
            seen.first = std::min(seen.first, of_query.first);
            seen.end = std::max(seen.end, of_query.end);
        }
    return seen.first < seen.end ? seen : KeyRange{0, 0};
}

template <class E>
KeyRange AttendRows<E>::keys_seen(const AttendItem& item, std::int64_t query) const
{
    return KeyBounds(options_, keys_of(item)).at(saturating_add(query, first_position(options_, item.index)));
}

template <class E>
std::int64_t AttendRows<E>::keys_of(const AttendItem& item) const
{
    const std::int64_t keys = options_.kv_lengths.given() ? options_.kv_lengths(item.index) : item.n_kv;
    if (!options_.mask.given() || options_.mask.shape()[3] == 1) return keys;
    return std::min(keys, options_.mask.shape()[3]);
}

/// What only some options need.
template <class E>
void AttendRows<E>::describe_more(const Queries<E>& queries, const AttendItem& item, std::int64_t head,
                                  std::int64_t query, AttendRow<T>& row) const
{
    const MaskPlace of_mask{item.index, head, query};
    if (queries.mask_is_ranges) {
        const KeyRange range = *mask_range(options_.mask, of_mask, {row.first_key, row.end_key});
        row.first_key = range.first;
        row.end_key = range.end;
    } else if (options_.mask.given()) {
        row.mask = mask_row(options_.mask, of_mask);
    }
    if (options_.alibi.given()) row.alibi_slope = options_.alibi(head);
    if (options_.sinks.given()) row.sink = options_.sinks(head);
    row.weights = options_.weights.given() ? row_of(options_.weights, item.index, head, query) : nullptr;
    row.scores = options_.scores.given() ? row_of(options_.scores, item.index, head, query) : nullptr;
    row.mean_weights = options_.mean_weights.given() ? &options_.mean_weights(item.index, query, 0) : nullptr;
    row.log_sum_exp =
        options_.log_sum_exp.given() ? &options_.log_sum_exp(item.tensor, head, item.first_row + query) : nullptr;
}

template class AttendRows<float>;
template class AttendRows<double>;
template class AttendRows<bfloat16>;
template class AttendRows<float16>;

}  // namespace headwise
