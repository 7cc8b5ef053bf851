// headwise: keys and values kept from call to call.
#pragma once

#include <cstdint>
#include <vector>

#include <headwise/attention.hpp>
#include <headwise/tensor_view.hpp>

namespace headwise {

/// Keys and values of the tokens seen so far, with room for `capacity` tokens a batch item. Each item has a length of
/// its own. The memory is allocated once and belongs to the cache.
///
///     headwise::KvCache<float> cache({.batch = 1, .kv_heads = 8, .capacity = 4096, .d_k = 64});
///     cache.append(K, V);                                                 // the tokens of Q are among them
///     headwise::attention(Q, cache.keys(), cache.values(), Y,
///                         {.causal = true, .query_offsets = cache.offsets(), .kv_lengths = cache.lengths()});
///
/// T: float, double, bfloat16 or float16. Not safe for an append while another call uses the cache.
template <class T>
class KvCache {
public:
    struct Shape {
        std::int64_t batch = 1;
        std::int64_t kv_heads = 1;
        std::int64_t capacity = 0;  ///< tokens of an item
        std::int64_t d_k = 0;
        std::int64_t d_v = 0;  ///< default: d_k
    };

    /// Throws std::invalid_argument for a size below 1 (batch and capacity: below 0) or a product beyond 2^63 bytes,
    /// and std::bad_alloc where the memory is not to be had.
    explicit KvCache(Shape shape);

    /// Adds K (batch, kv_heads, n, d_k) and V (batch, kv_heads, n, d_v) behind what each item holds. Of item i only the
    /// first counts[i] of the n tokens are added where counts (batch) is given. Any strides; nothing is allocated.
    /// Throws std::invalid_argument, with the cache unchanged, for shapes that do not fit, counts outside 0 .. n, an
    /// item that would exceed the capacity, and K or V inside the cache's own memory.
    void append(TensorView<const T, 4> K, TensorView<const T, 4> V, VectorView<const std::int64_t> counts = {});

    /// Makes every item, or one, empty again.
    void reset() noexcept;
    /// Throws std::invalid_argument for an item that does not exist.
    void reset(std::int64_t item);

    /// (batch, kv_heads, m, d_k) and (batch, kv_heads, m, d_v), m being the length of the longest item. Valid until the
    /// cache is destroyed; tokens past an item's length are unspecified, so give attention() the lengths.
    TensorView<const T, 4> keys() const noexcept;
    TensorView<const T, 4> values() const noexcept;

    /// Tokens that each item holds (batch): AttentionOptions::kv_lengths.
    VectorView<const std::int64_t> lengths() const noexcept;
    /// Tokens that each item held before the last append (batch): AttentionOptions::query_offsets, where the queries
    /// are those of the tokens appended last.
    VectorView<const std::int64_t> offsets() const noexcept;

    const Shape& shape() const noexcept { return shape_; }

private:
    std::int64_t longest() const noexcept;

    Shape shape_;
    std::vector<T> k_;
    std::vector<T> v_;
    std::vector<std::int64_t> lengths_;
    std::vector<std::int64_t> offsets_;
};

extern template class KvCache<float>;
extern template class KvCache<double>;
extern template class KvCache<bfloat16>;
extern template class KvCache<float16>;

/// The key and value tensors of an attention with an internal cache, as ONNX Attention has it: present = past followed
/// by the new tokens. `present_*` are outputs; they must overlap nothing else.
template <class T>
struct PastAndPresent {
    TensorView<const T, 4> past_key{};  ///< (b, h_kv, n_past, d_k); n_past may be 0, or neither past be given
    TensorView<const T, 4> past_value{};  ///< (b, h_kv, n_past, d_v)
    TensorView<T, 4> present_key{};  ///< (b, h_kv, n_past + n_new, d_k)
    TensorView<T, 4> present_value{};  ///< (b, h_kv, n_past + n_new, d_v)
};

/// attention() over the keys and values that `cache` describes, K (b, h_kv, n_new, d_k) and V (b, h_kv, n_new, d_v)
/// being the new ones: fills the present tensors, then attends over them, query i standing at position n_past + i.
/// Masks and the optional outputs cover n_past + n_new keys.
///
/// Throws std::invalid_argument as attention() does, before anything is written; also where options give query_offset,
/// query_offsets or kv_lengths, since the positions follow from the past.
template <class T>
void attention_with_past(TensorView<const T, 4> Q, TensorView<const T, 4> K, TensorView<const T, 4> V,
                         const PastAndPresent<T>& cache, TensorView<T, 4> Y, const AttentionOptions<T>& options = {});

}  // namespace headwise
