#include "attend_rows.hpp"

#include <algorithm>

#include "mask_range.hpp"

namespace headwise {

namespace {

/// The rows that some heads have for one query, and then for the next. Null where the view is.
template <class T>
class RowsOfHeads {
public:
    RowsOfHeads(const TensorView<T, 4>& view, std::int64_t item, std::int64_t first_head, std::int64_t query)
        : first_(row_of(view, item, first_head, query)),
          head_stride_(first_ ? view.strides[1] : 0),
          query_stride_(first_ ? view.strides[2] : 0)
    {
    }

    T* row(std::int64_t head) const { return first_ + (offset_ + head * head_stride_); }
    void next_query() { offset_ += query_stride_; }

private:
    T* first_;
    std::int64_t head_stride_;
    std::int64_t query_stride_;
    std::int64_t offset_ = 0;
};

}  // namespace

template <class E>
void AttendRows<E>::describe(const Queries<E>& queries, const AttendCut& cut, const AttendPlace& place,
                             std::int64_t first_head, const KeyRange& chunk, std::span<AttendRow<T>> rows) const
{
    const bool bounded = options_.causal || options_.left_window >= 0 || options_.right_window >= 0;
    const bool has_more = options_.mask.given() || options_.alibi.given() || options_.sinks.given() ||
                          options_.weights.given() || options_.mean_weights.given() || options_.scores.given() ||
                          options_.log_sum_exp.given();
    const AttendItem& item = place.item;
    const std::int64_t keys = keys_of(item);
    const std::int64_t offset = first_position(options_, item.index);
    const auto within_chunk = [&](const KeyRange& range) {
        return KeyRange{std::clamp(range.first, chunk.first, chunk.end), std::clamp(range.end, chunk.first, chunk.end)};
    };
    KeyRange range = within_chunk({0, keys});
    std::int64_t query = queries.range.first_query + place.first_row / cut.heads_of_unit();
    std::int64_t head = first_head + place.first_row % cut.heads_of_unit();
    const std::int64_t end_head = first_head + cut.heads_of_unit();
    RowsOfHeads<const E> q(queries.Q, item.tensor - queries.first_item, first_head, item.first_row + query);
    RowsOfHeads<E> y(queries.Y, item.tensor - queries.first_item, first_head, item.first_row + query);
    for (auto row = rows.begin(); row != rows.end(); ++query, q.next_query(), y.next_query(), head = first_head) {
        const std::int64_t position = saturating_add(query, offset);
        if (bounded) range = within_chunk(visible_keys(options_, position, keys));
        for (; head < end_head && row != rows.end(); ++head, ++row) {
            row->q = q.row(head - first_head);
            row->y = y.row(head - first_head);
            row->position = position;
            row->first_key = range.first;
            row->end_key = range.end;
            if (has_more) describe_more(queries, item, head, query, *row);
        }
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
    return visible_keys(options_, saturating_add(query, first_position(options_, item.index)), keys_of(item));
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
