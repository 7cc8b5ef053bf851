// headwise: scaled dot-product attention over strided views.
#pragma once

#include <cstdint>
#include <optional>

#include <headwise/element.hpp>
#include <headwise/mask.hpp>
#include <headwise/score_stage.hpp>
#include <headwise/tensor_view.hpp>
#include <headwise/work.hpp>

namespace headwise {

/// Options of attention(). The written contract is ONNX Attention, opset 25. All of them compose.
///
/// score(i, j) = softcap(scale * q_i . k_j) + mask(i, j) + alibi_slope * (j - position(i)), where position(i) =
/// i + query_offset, over the keys j that take part; then softmax over j, then the blend of the rows of V. Computed in
/// compute_t<T>, of whose range scores can use two thirds: larger ones may count as infinite, and sums of V's elements,
/// one for each key that takes part, must not leave it. Positions stop at the ends of std::int64_t.
///
/// Key j takes part in query i's row when all hold:
///   j < kv_lengths[item] (default n_kv); causal: j <= position(i); left_window >= 0: j >= position(i) - left_window;
///   right_window >= 0: j <= position(i) + right_window; the boolean mask is true or the additive one is not -inf;
///   j < the mask's last dimension, where that is shorter than n_kv and not 1.
/// A row with no key is a zero row of Y and of the weights, and its log-sum-exp is -inf, with a sink too. A key that
/// does not take part has no influence, even if its K or V row holds NaN or infinity; a NaN in a key that takes part
/// reaches the output.
template <class T>
struct AttentionOptions {
    /// Factor of q.k; any finite value, zero and negative too, as long as scale * q is finite. Default: 1 / sqrt(d_k).
    std::optional<double> scale{};
    /// Soft cap c > 0: scores become c * tanh(score / c). 0: none.
    double softcap = 0;

    bool causal = false;
    /// Position of query 0 among the keys: 0 aligns top-left, n_kv - n_q bottom-right, a cache gives its length before
    /// the append. May be negative.
    std::int64_t query_offset = 0;
    /// Position of query 0 for each batch item, shape (b); used instead of query_offset where given.
    VectorView<const std::int64_t> query_offsets{};
    /// Keys further left than this many positions take no part. -1: unbounded.
    std::int64_t left_window = -1;
    /// Keys further right than this many positions take no part. -1: unbounded.
    std::int64_t right_window = -1;
    /// Number of valid keys of each batch item, shape (b), each in 0 .. n_kv.
    VectorView<const std::int64_t> kv_lengths{};

    /// Boolean (true takes part) or additive mask, broadcast to (b, h, n_q, n_kv); never copied.
    Mask mask{};
    /// One extra logit for each query head, shape (h): it takes softmax mass and has no value. Not softcapped, not
    /// masked.
    VectorView<const compute_t<T>> sinks{};
    /// ALiBi slope for each query head, shape (h); see alibi_slopes().
    VectorView<const compute_t<T>> alibi{};

    /// Output on request: the softmax's weights (b, h, n_q, n_kv).
    TensorView<T, 4> weights{};
    /// Output on request: the weights' mean over the query heads (b, n_q, n_kv).
    TensorView<T, 3> mean_weights{};
    /// Output on request: scores (b, h, n_q, n_kv) at score_stage.
    TensorView<T, 4> scores{};
    ScoreStage score_stage = ScoreStage::scaled;
    /// Output on request: natural log of the sum of exp(score), the sink's included (b, h, n_q).
    TensorView<compute_t<T>, 3> log_sum_exp{};

    /// Counts of the work done are added here where given. Same for any number of threads.
    WorkReport* work = nullptr;
};

/// Y = softmax(scale * Q K^T) V, head by head, with `options`.
///
/// Q (b, h, n_q, d_k), K (b, h_kv, n_kv, d_k), V (b, h_kv, n_kv, d_v), Y (b, h, n_q, d_v). h_kv divides h, and query
/// head i uses key/value head i / (h / h_kv). Any strides; other layouts, such as (b, n, h, d), are views with their
/// dimensions swapped. Any of b, n_q, n_kv may be 0.
///
/// Runs in the caller's oneTBB arena and is safe to call from many threads. Results do not depend on the number of
/// threads. Allocates nothing once warm; scratch memory belongs to the threads that run it (see scratch.hpp).
///
/// Outputs must overlap neither an input nor one another, and may not have two indices at one address.
/// Throws std::invalid_argument, naming the argument, before anything is written.
///
/// Source: Vaswani et al., "Attention Is All You Need" (2017), 3.2.1; the one pass over the keys with running maximum
/// and sum is Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
void attention(TensorView<const float, 4> Q, TensorView<const float, 4> K, TensorView<const float, 4> V,
               TensorView<float, 4> Y, const AttentionOptions<float>& options = {});
void attention(TensorView<const double, 4> Q, TensorView<const double, 4> K, TensorView<const double, 4> V,
               TensorView<double, 4> Y, const AttentionOptions<double>& options = {});
void attention(TensorView<const bfloat16, 4> Q, TensorView<const bfloat16, 4> K, TensorView<const bfloat16, 4> V,
               TensorView<bfloat16, 4> Y, const AttentionOptions<bfloat16>& options = {});
void attention(TensorView<const float16, 4> Q, TensorView<const float16, 4> K, TensorView<const float16, 4> V,
               TensorView<float16, 4> Y, const AttentionOptions<float16>& options = {});

/// Where the sequences of a ragged batch begin, cumulatively ("cu_seqlens"): sequence i has the query tokens
/// q_starts[i] to q_starts[i + 1] - 1 and the key tokens kv_starts[i] to kv_starts[i + 1] - 1. Both of shape (b + 1),
/// first 0, not falling, the last at most the number of tokens in the tensors. A sequence may be empty.
struct RaggedStarts {
    VectorView<const std::int64_t> q_starts{};
    VectorView<const std::int64_t> kv_starts{};
};

/// attention() on a batch of sequences of any lengths, packed one after another without padding: no sequence sees
/// another. Q (h, tokens, d_k), K (h_kv, kv_tokens, d_k), V (h_kv, kv_tokens, d_v), Y (h, tokens, d_v); any strides, so
/// that (tokens, h, width) is a view. Rows of Y that belong to no sequence are left as they are.
///
/// Positions start at 0 in each sequence; options.query_offsets has one for each. Of the optional outputs there is
/// log_sum_exp, as (1, h, tokens). Weights, scores, masks and kv_lengths are for dense batches only.
/// Throws std::invalid_argument as attention() does, and for starts that are not as above.
void ragged_attention(TensorView<const float, 3> Q, TensorView<const float, 3> K, TensorView<const float, 3> V,
                      TensorView<float, 3> Y, const RaggedStarts& starts, const AttentionOptions<float>& options = {});
void ragged_attention(TensorView<const double, 3> Q, TensorView<const double, 3> K, TensorView<const double, 3> V,
                      TensorView<double, 3> Y, const RaggedStarts& starts,
                      const AttentionOptions<double>& options = {});
void ragged_attention(TensorView<const bfloat16, 3> Q, TensorView<const bfloat16, 3> K, TensorView<const bfloat16, 3> V,
                      TensorView<bfloat16, 3> Y, const RaggedStarts& starts,
                      const AttentionOptions<bfloat16>& options = {});
void ragged_attention(TensorView<const float16, 3> Q, TensorView<const float16, 3> K, TensorView<const float16, 3> V,
                      TensorView<float16, 3> Y, const RaggedStarts& starts,
                      const AttentionOptions<float16>& options = {});

}  // namespace headwise
