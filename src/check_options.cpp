#include "check_options.hpp"

#include <cassert>
#include <cmath>
#include <string>

namespace headwise {

namespace {

void check_lengths(const Check& check, const VectorView<const std::int64_t>& lengths, std::int64_t n_kv)
{
    for (std::int64_t i = 0; i < lengths.shape[0]; ++i)
        if (lengths(i) < 0 || lengths(i) > n_kv)
            check.fail("kv_lengths", std::to_string(lengths(i)) + " at index " + std::to_string(i),
                       "lengths from 0 to n_kv = " + std::to_string(n_kv));
}

template <class E>
void check_mask(const Check& check, const AttentionOptions<E>& options, const AttendSizes& sizes)
{
    const Mask& mask = options.mask;
    const bool type_fits = mask.type() == ElementType::boolean || mask.type() == ElementType::float32 ||
                           mask.type() == ElementTypeOf<E>::value;
    if (!(type_fits)) check.fail("mask", "of another element type", "bool, float or the element type of Q");
    const AnyView view = any_view(mask);
    const std::array<Extent, 4> any{
        {{any_extent, "b or 1"}, {any_extent, "h or 1"}, {any_extent, "n_q or 1"}, {any_extent, "at most n_kv"}}};
    check.input(view, any);
    const std::array<std::int64_t, 3> full{sizes.batch, sizes.heads, sizes.n_q};
    bool fits = mask.shape()[3] == 1 || mask.shape()[3] <= sizes.n_kv;
    for (std::size_t r = 0; r < 3; ++r) fits = fits && (mask.shape()[r] == 1 || mask.shape()[r] == full[r]);
    if (!(fits))
        check.fail("mask", "of shape " + shape_text(view.shape),
                   "one that broadcasts to (b, h, n_q, n_kv) = " +
                       shape_text(std::array{sizes.batch, sizes.heads, sizes.n_q, sizes.n_kv}));
}

template <class T>
void check_per_head(const Check& check, std::string_view name, const VectorView<const T>& values, std::int64_t heads,
                    bool minus_infinity_allowed)
{
    check.input(any_view(name, values), std::array<Extent, 1>{{{heads, "h"}}});
    for (std::int64_t head = 0; head < heads; ++head) {
        const double value = static_cast<double>(values(head));
        const bool fits = std::isfinite(value) || (minus_infinity_allowed && std::isinf(value) && value < 0);
        if (!(fits)) check.fail(name, number_text(value) + " at head " + std::to_string(head), "finite numbers");
    }
}

}  // namespace

template <class E>
void check_options(const Check& check, const AttentionOptions<E>& options, const AttendSizes& sizes)
{
    if (options.scale)
        if (!(std::isfinite(*options.scale) && std::isfinite(static_cast<compute_t<E>>(*options.scale))))
            check.fail("scale", number_text(*options.scale), "a finite number");
    if (!(options.softcap >= 0 && std::isfinite(static_cast<compute_t<E>>(options.softcap)) &&
          (options.softcap == 0 || std::isnormal(static_cast<compute_t<E>>(options.softcap)))))
        check.fail("softcap", number_text(options.softcap), "0 for none, or a positive normal number");
    if (!(options.left_window >= -1)) check.fail("left_window", std::to_string(options.left_window), "-1 or more");
    if (!(options.right_window >= -1)) check.fail("right_window", std::to_string(options.right_window), "-1 or more");

    const std::array<Extent, 1> per_item{{{sizes.batch, "b"}}};
    if (options.query_offsets.given()) {
        check.input(any_view("query_offsets", options.query_offsets), per_item);
        if (!(options.query_offset == 0))
            check.fail("query_offset", std::to_string(options.query_offset), "0 where query_offsets are given");
    }
    if (options.kv_lengths.given()) {
        check.input(any_view("kv_lengths", options.kv_lengths), per_item);
        check_lengths(check, options.kv_lengths, sizes.n_kv);
    }
    if (options.mask.given()) check_mask(check, options, sizes);
    if (options.sinks.given()) check_per_head(check, "sinks", options.sinks, sizes.heads, true);
    if (options.alibi.given()) check_per_head(check, "alibi", options.alibi, sizes.heads, false);

    const std::array<Extent, 4> pairs{
        {{sizes.batch, "b"}, {sizes.heads, "h"}, {sizes.n_q, "n_q"}, {sizes.n_kv, "n_kv"}}};
    if (options.weights.given()) check.output(any_view("weights", options.weights), pairs);
    if (options.scores.given()) check.output(any_view("scores", options.scores), pairs);
    if (options.mean_weights.given())
        check.output(any_view("mean_weights", options.mean_weights),
                     std::array<Extent, 3>{{{sizes.batch, "b"}, {sizes.n_q, "n_q"}, {sizes.n_kv, "n_kv"}}});
    if (options.log_sum_exp.given())
        check.output(any_view("log_sum_exp", options.log_sum_exp),
                     std::array<Extent, 3>{{{sizes.batch, "b"}, {sizes.heads, "h"}, {sizes.n_q, "n_q"}}});
    const int stage = static_cast<int>(options.score_stage);
    if (!(stage >= 0 && stage <= 3)) check.fail("score_stage", std::to_string(stage), "0 to 3");
}

template <class E>
void check_apart(const Check& check, std::span<const AnyView> outputs, std::span<const AnyView> inputs,
                 const AttentionOptions<E>& options)
{
    assert(outputs.size() <= max_outputs);
    std::array<AnyView, max_outputs + 4> all{};
    std::size_t count = 0;
    const auto add = [&](const AnyView& output) {
        for (const AnyView& input : inputs) check.disjoint(output, input);
        for_each_input(options, [&](const AnyView& input) { check.disjoint(output, input); });
        for (std::size_t i = 0; i < count; ++i) check.disjoint(output, all[i]);
        all[count++] = output;
    };
    for (const AnyView& output : outputs) add(output);
    for_each_output(options, add);
}

#define HEADWISE_INSTANTIATE(E)                                                                    \
    template void check_options<E>(const Check&, const AttentionOptions<E>&, const AttendSizes&);  \
    template void check_apart<E>(const Check&, std::span<const AnyView>, std::span<const AnyView>, \
                                 const AttentionOptions<E>&);
HEADWISE_INSTANTIATE(float)
HEADWISE_INSTANTIATE(double)
HEADWISE_INSTANTIATE(bfloat16)
HEADWISE_INSTANTIATE(float16)

}  // namespace headwise
