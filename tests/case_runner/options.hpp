// Maps the attributes, optional inputs and optional outputs of a case to AttentionOptions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <headwise/attention.hpp>

#include "case.hpp"
#include "compare.hpp"

namespace headwise::cases {

/// The sizes that the options of a call refer to.
struct CallSizes {
    std::int64_t b = 1;
    std::int64_t h = 0;
    std::int64_t n_q = 0;
    std::int64_t n_kv = 0;             ///< the keys of a cache included
    bool batched = true;               ///< whether tensors of the case have the batch dimension
    std::optional<std::int64_t> past;  ///< tokens in past_key, where the call has a cache

    /// `shape` with the batch in front, where tensors of the case have it.
    std::vector<std::int64_t> with_batch(std::vector<std::int64_t> shape) const;
};

/// Options with the memory that their views point into; may be moved but not copied.
template <class T>
struct CallOptions {
    CallOptions() = default;
    CallOptions(CallOptions&&) noexcept = default;
    CallOptions& operator=(CallOptions&&) noexcept = default;

    AttentionOptions<T> options;
    std::vector<std::int64_t> kv_lengths;
    std::vector<std::int64_t> query_offsets;
    std::vector<compute_t<T>> sinks;
    std::vector<compute_t<T>> alibi;
};

/// Throws BadCase naming `name` where `tensor` has another shape.
void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, const std::string& name);

/// Reads attr.* and the optional inputs, and checks their shapes: the naive reference does not. Outputs that the case
/// expects are created in `outputs`, and the options view them.
template <class T>
CallOptions<T> read_options(const Case& test, const CallSizes& sizes, Outputs& outputs);

extern template CallOptions<float> read_options(const Case&, const CallSizes&, Outputs&);
extern template CallOptions<double> read_options(const Case&, const CallSizes&, Outputs&);
extern template CallOptions<float16> read_options(const Case&, const CallSizes&, Outputs&);
extern template CallOptions<bfloat16> read_options(const Case&, const CallSizes&, Outputs&);

}  // namespace headwise::cases
