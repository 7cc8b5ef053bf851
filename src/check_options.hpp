// Checks of AttentionOptions, for every call that takes them.
#pragma once

#include <span>

#include <headwise/attention.hpp>

#include "attend_plan.hpp"
#include "check.hpp"

namespace headwise {

/// visit(AnyView) for each optional output that is given.
template <class E, class Visit>
void for_each_output(const AttentionOptions<E>& options, const Visit& visit)
{
    if (options.weights.given()) visit(any_view("weights", options.weights));
    if (options.mean_weights.given()) visit(any_view("mean_weights", options.mean_weights));
    if (options.scores.given()) visit(any_view("scores", options.scores));
    if (options.log_sum_exp.given()) visit(any_view("log_sum_exp", options.log_sum_exp));
}

/// visit(AnyView) for each tensor among the options that is read.
template <class E, class Visit>
void for_each_input(const AttentionOptions<E>& options, const Visit& visit)
{
    if (options.query_offsets.given()) visit(any_view("query_offsets", options.query_offsets));
    if (options.kv_lengths.given()) visit(any_view("kv_lengths", options.kv_lengths));
    if (options.sinks.given()) visit(any_view("sinks", options.sinks));
    if (options.alibi.given()) visit(any_view("alibi", options.alibi));
    if (options.mask.given()) visit(any_view(options.mask));
}

/// Everything in `options` but that outputs lie apart from the call's tensors.
template <class E>
void check_options(const Check& check, const AttentionOptions<E>& options, const AttendSizes& sizes);

/// Each output apart from each input and from the outputs before it. `outputs` (at most max_outputs) and `inputs` are
/// the call's own; those of `options` come in addition. All of them have passed their other checks.
constexpr std::size_t max_outputs = 3;
template <class E>
void check_apart(const Check& check, std::span<const AnyView> outputs, std::span<const AnyView> inputs,
                 const AttentionOptions<E>& options);

}  // namespace headwise
