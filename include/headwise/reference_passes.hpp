// headwise: the passes over one head that the naive reference (reference.hpp) consists of.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <headwise/attention.hpp>
#include <headwise/element.hpp>
#include <headwise/mask.hpp>
#include <headwise/reference_matrix.hpp>
#include <headwise/work.hpp>

namespace headwise::reference {

/// A query head of a batch item.
struct Head {
    std::int64_t item;
    std::int64_t head;
};

/// A row of the scores of a head.
struct ScoreRow {
    std::int64_t item;
    std::int64_t head;
    std::int64_t query;
    std::int64_t position;  ///< of the query among the keys
};

inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// a + b, at the ends of the type where it does not fit: windows and offsets may be as large as the type.
inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept
{
    std::int64_t sum = 0;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

/// What the mask adds to the score of (row, key). A boolean mask adds 0 or -inf; past a short mask it is -inf.
inline double mask_addend(const Mask& mask, const ScoreRow& row, std::int64_t key)
{
    const auto& shape = mask.shape();
    if (shape[3] != 1 && key >= shape[3]) return minus_infinity;
    const std::int64_t index[4] = {row.item, row.head, row.query, key};
    std::int64_t offset = 0;
    for (std::size_t r = 0; r < 4; ++r) offset += shape[r] == 1 ? 0 : index[r] * mask.strides()[r];
    switch (mask.type()) {
        case ElementType::boolean: return static_cast<const bool*>(mask.data())[offset] ? 0 : minus_infinity;
        case ElementType::float32: return to_number<double>(static_cast<const float*>(mask.data())[offset]);
        case ElementType::float64: return static_cast<const double*>(mask.data())[offset];
        case ElementType::bfloat16: return to_number<double>(static_cast<const bfloat16*>(mask.data())[offset]);
        case ElementType::float16: return to_number<double>(static_cast<const float16*>(mask.data())[offset]);
    }
    return minus_infinity;
}

/// The keys that causal, windows and lengths leave to `row`.
template <class T>
KeyRange visible_keys(const AttentionOptions<T>& options, const ScoreRow& row, std::int64_t n_kv)
{
    KeyRange visible{0, options.kv_lengths.given() ? options.kv_lengths(row.item) : n_kv};
    const auto end_after = [&](std::int64_t key) {
        if (key < visible.last) visible.last = key + 1;
    };
    if (options.causal) end_after(row.position);
    if (options.right_window >= 0) end_after(saturating_add(row.position, options.right_window));
    if (options.left_window >= 0) {
        const std::int64_t first = saturating_add(row.position, -options.left_window);
        if (first > 0) visible.first = first;
    }
    return visible;
}

/// Fills addends (n_kv) with what the mask adds to each score of `row`, -inf where the key takes no part, and returns
/// the keys that do as maximal ranges.
template <class T>
std::vector<KeyRange> participating_keys(const AttentionOptions<T>& options, const ScoreRow& row,
                                         std::vector<double>& addends)
{
    const KeyRange visible = visible_keys(options, row, static_cast<std::int64_t>(addends.size()));
    std::vector<KeyRange> ranges;
    for (double& addend : addends) addend = minus_infinity;
    for (std::int64_t j = visible.first; j < visible.last; ++j) {
        const double addend = options.mask.given() ? mask_addend(options.mask, row, j) : 0;
        addends[static_cast<std::size_t>(j)] = addend;
        if (addend == minus_infinity) continue;
        if (ranges.empty() || ranges.back().last != j) ranges.push_back({j, j});
        ranges.back().last = j + 1;
    }
    return ranges;
}

/// The largest score of `ranges`, -inf where there is none. A NaN is passed over: its exponential tells of it.
template <class Number>
Number row_maximum(const std::vector<Number>& scores, const std::vector<KeyRange>& ranges)
{
    Number maximum = Number(minus_infinity);
    for (const KeyRange range : ranges)
        for (auto j = static_cast<std::size_t>(range.first); j < static_cast<std::size_t>(range.last); ++j)
            if (maximum < scores[j]) maximum = scores[j];
    return maximum;
}

/// Writes the softmax over the scores of `ranges` to `weights`, which comes in as zeros, and returns the log-sum-exp.
/// `sink` is one more logit. Without a key, or where every score is -inf, the weights stay 0; without a key the
/// log-sum-exp is -inf.
template <class Number>
Number softmax(const std::vector<Number>& scores, const std::vector<KeyRange>& ranges,
               const std::optional<Number>& sink, std::vector<Number>& weights)
{
    using std::exp;
    using std::log;
    if (ranges.empty()) return Number(minus_infinity);
    Number maximum = row_maximum(scores, ranges);
    if (sink && maximum < *sink) maximum = *sink;
    if (maximum == Number(minus_infinity)) maximum = Number(0);  // exp(-inf - -inf) would be NaN

    Number sum = sink ? exp(*sink - maximum) : Number(0);
    {
        const StageMarker<Number> stage(&Work::exponentials);
        for (const KeyRange range : ranges)
            for (auto j = static_cast<std::size_t>(range.first); j < static_cast<std::size_t>(range.last); ++j) {
                weights[j] = exp(scores[j] - maximum);
                sum = sum + weights[j];
            }
    }
    if (sum == Number(0)) return Number(minus_infinity);
    for (const KeyRange range : ranges)  // no others: 0 / NaN would tell of keys that take no part
        for (auto j = static_cast<std::size_t>(range.first); j < static_cast<std::size_t>(range.last); ++j)
            weights[j] = weights[j] / sum;
    return maximum + log(sum);
}

/// Writes `numbers` (n_kv) to options.scores where these were asked for at `stage`.
template <class T, class Number>
void write_scores(const AttentionOptions<T>& options, ScoreStage stage, const ScoreRow& row,
                  const std::vector<Number>& numbers)
{
    if (!options.scores.given() || options.score_stage != stage) return;
    for (std::size_t j = 0; j < numbers.size(); ++j)
        options.scores(row.item, row.head, row.query, j) = to_element<T>(numbers[j]);
}

/// Writes `weights` (n_kv) to options.weights where these were asked for.
template <class T, class Number>
void write_weights(const AttentionOptions<T>& options, const ScoreRow& row, const std::vector<Number>& weights)
{
    if (!options.weights.given()) return;
    for (std::size_t j = 0; j < weights.size(); ++j)
        options.weights(row.item, row.head, row.query, j) = to_element<T>(weights[j]);
}

/// The scores of one row as the softmax reads them: softcap(scale * q . k) + addend + ALiBi, and -inf where no part is
/// taken. q (d_k), K_transposed (d_k, n_kv). Earlier stages are written where they were asked for.
template <class T, class Number>
std::vector<Number> score_row(const Number* q, const Matrix<Number>& K_transposed, const ScoreRow& row,
                              const std::vector<KeyRange>& ranges, const std::vector<double>& addends,
                              const AttentionOptions<T>& options)
{
    using std::tanh;
    const std::int64_t d_k = K_transposed.rows;
    const std::int64_t n_kv = K_transposed.columns;
    const bool every_pair = options.scores.given() && (options.score_stage == ScoreStage::scaled ||
                                                       options.score_stage == ScoreStage::softcapped);
    const std::vector<KeyRange> scored = every_pair ? std::vector<KeyRange>{{0, n_kv}} : ranges;
    std::vector<Number> scores(static_cast<std::size_t>(n_kv), Number(0));
    {
        const StageMarker<Number> stage(&Work::score);
        for (std::int64_t k = 0; k < d_k; ++k)
            for (const KeyRange range : scored) add_scaled_row(scores.data(), q[k], K_transposed.row(k), range);
    }
    const Number scale = Number(options.scale.value_or(1 / std::sqrt(static_cast<double>(d_k))));
    for (Number& score : scores) score = scale * score;
    write_scores(options, ScoreStage::scaled, row, scores);

    const Number cap = Number(options.softcap);
    if (options.softcap > 0)
        for (Number& score : scores) score = cap * tanh(score / cap);
    write_scores(options, ScoreStage::softcapped, row, scores);

    for (std::size_t j = 0; j < scores.size(); ++j) {
        if (addends[j] == minus_infinity) {
            scores[j] = Number(minus_infinity);  // whatever the score is
            continue;
        }
        scores[j] = scores[j] + Number(addends[j]);
        if (options.alibi.given())
            scores[j] = scores[j] + Number(options.alibi(row.head)) *
                                        Number(static_cast<double>(j) - static_cast<double>(row.position));
    }
    write_scores(options, ScoreStage::biased, row, scores);
    return scores;
}

/// Attention of one head of one batch item. Q (n_q, d_k), K_transposed (d_k, n_kv), V (n_kv, d_v) to (n_q, d_v).
/// The weights are added to weight_sum (n_q, n_kv), unless it has no rows.
template <class T, class Number>
Matrix<Number> attend_head(Head head, const Matrix<Number>& Q, const Matrix<Number>& K_transposed,
                           const Matrix<Number>& V, const AttentionOptions<T>& options, Matrix<Number>& weight_sum)
{
    const std::int64_t offset = options.query_offsets.given() ? options.query_offsets(head.item) : options.query_offset;
    std::optional<Number> sink;
    if (options.sinks.given()) sink = Number(options.sinks(head.head));

    Matrix<Number> O(Q.rows, V.columns);
    std::vector<double> addends(static_cast<std::size_t>(V.rows));
    for (std::int64_t i = 0; i < Q.rows; ++i) {
        const ScoreRow row{head.item, head.head, i, saturating_add(i, offset)};

        // Pass 1: which keys take part, and what the mask adds to their scores.
        const std::vector<KeyRange> ranges = participating_keys(options, row, addends);

        // Pass 2: the scores.
        const std::vector<Number> scores = score_row(Q.row(i), K_transposed, row, ranges, addends, options);

        // Pass 3: the weights.
        std::vector<Number> weights(scores.size(), Number(0));
        const Number log_sum_exp = softmax(scores, ranges, sink, weights);

        // Pass 4: the blend of the rows of V; a row without a key stays zero.
        if (!(log_sum_exp == Number(minus_infinity))) {
            const StageMarker<Number> stage(&Work::blend);
            for (const KeyRange range : ranges)
                for (std::int64_t j = range.first; j < range.last; ++j)
                    add_scaled_row(O.row(i), weights[static_cast<std::size_t>(j)], V.row(j), {0, V.columns});
        }

        write_weights(options, row, weights);
        write_scores(options, ScoreStage::weights, row, weights);
        if (options.log_sum_exp.given())
            options.log_sum_exp(row.item, row.head, i) = static_cast<compute_t<T>>(log_sum_exp);
        if (weight_sum.rows > 0)
            for (std::size_t j = 0; j < weights.size(); ++j) weight_sum.row(i)[j] = weight_sum.row(i)[j] + weights[j];
    }
    return O;
}

/// Writes options.mean_weights of one batch item, where asked for: the sum of its h heads' weights, divided by h.
template <class T, class Number>
void write_mean_weights(const AttentionOptions<T>& options, std::int64_t item, const Matrix<Number>& weight_sum,
                        std::int64_t h)
{
    for (std::int64_t i = 0; i < weight_sum.rows; ++i)
        for (std::int64_t j = 0; j < weight_sum.columns; ++j)
            options.mean_weights(item, i, j) = to_element<T>(weight_sum.row(i)[j] / Number(h));
}

}  // namespace headwise::reference
