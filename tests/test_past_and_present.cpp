// Attention with past and present against its naive twin.
#include "catch_compat.hpp"
#include "tolerance.hpp"

#include <headwise/kv_cache.hpp>

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::Target;
using headwise::TensorView;

namespace {

/// Calls whose keys and values are those of the inputs, the first n_past of them as the past.
struct WithPast {
    std::int64_t n_past;
    Layout layout = Layout::dense;

    template <class E>
    struct Result {
        Outputs<E> outputs;
        Tensor<E, 4> present_key, present_value;
    };

    /// Tokens first .. first + count - 1 in memory of their own.
    template <class E>
    Tensor<E, 4> part(const Tensor<E, 4>& all, std::int64_t first, std::int64_t count) const
    {
        auto shape = all.shape();
        shape[2] = count;
        const Tensor<E, 4> part(shape, layout);
        fill(part, [&](const auto& i) { return all.view()(i[0], i[1], first + i[2], i[3]); });
        return part;
    }

    template <class E, class Call>
    Result<E> run(const Inputs<E>& inputs, const Call& call) const
    {
        const Problem& p = inputs.problem;
        const Result<E> result{Outputs<E>(p), Tensor<E, 4>({p.b, p.h_kv, p.n_kv, p.d_k}, layout, End::canaries),
                               Tensor<E, 4>({p.b, p.h_kv, p.n_kv, p.d_v}, layout, End::canaries)};
        auto options = inputs.options();
        result.outputs.give_to(options);
        const std::int64_t n_new = p.n_kv - n_past;
        const auto past_key = part(inputs.K, 0, n_past), K = part(inputs.K, n_past, n_new);
        const auto past_value = part(inputs.V, 0, n_past), V = part(inputs.V, n_past, n_new);
        call(inputs.Q.input(), K.input(), V.input(),
             headwise::PastAndPresent<E>{past_key.input(), past_value.input(), result.present_key.view(),
                                         result.present_value.view()},
             result.outputs.Y.view(), options);
        return result;
    }

    template <class E>
    Result<E> kernels(const Inputs<E>& inputs) const
    {
        return run(inputs, [](const auto&... arguments) { headwise::attention_with_past<E>(arguments...); });
    }

    template <class Number, class E>
    Result<E> naive(const Inputs<E>& inputs) const
    {
        return run(inputs,
                   [](const auto&... arguments) { headwise::reference::attention_with_past<E, Number>(arguments...); });
    }

    /// What is wrong with the call on the active target; "" if nothing is.
    template <class E>
    std::string failures(const Inputs<E>& inputs) const
    {
        const Result<E> got = kernels(inputs), plain = naive<compute_t<E>>(inputs);
        const auto want =
            oracle(inputs, [&]<class Number>(const auto& wide) { return this->naive<Number>(wide).outputs; });
        std::string text = compare_outputs(inputs, got.outputs, plain.outputs, want).failures;
        for (const Result<E>* result : {&got, &plain}) {
            if (!same_bits(result->present_key.view(), inputs.K.view())) text += "present_key is not past and new; ";
            if (!same_bits(result->present_value.view(), inputs.V.view()))
                text += "present_value is not past and new; ";
        }
        if (!got.present_key.intact_around() || !got.present_value.intact_around())
            text += "memory beside a present tensor was written; ";
        return text;
    }
};

}  // namespace

TEMPLATE_TEST_CASE("past and present: kernels and naive twin agree", "[cache]", float, double, bfloat16, float16)
{
    for_each_target([](Target target) {
        for (const std::int64_t n_past : {0, 1, 95, 96, 97})
            for (const std::int64_t n_new : {0, 1, 2, 17}) {
                Problem p{.b = 2,
                          .h = 4,
                          .h_kv = 2,
                          .n_q = n_new,
                          .n_kv = n_past + n_new,
                          .d_k = 24,
                          .d_v = 40,
                          .causal = true,
                          .log_sum_exp = true};
                INFO(headwise::name(target) << ", past " << n_past << ", new " << n_new);
                CHECK(WithPast{n_past}.failures(Inputs<TestType>(p)) == "");
                p.h_kv = 4;
                p.left_window = 20;
                p.sinks = p.alibi = true;
                p.mask = MaskKind::element;
                p.mask_shape = {1, 4, p.n_q, p.n_kv};
                CHECK(WithPast{n_past}.failures(Inputs<TestType>(p)) == "");
                p.causal = false;
                p.mask = MaskKind::boolean;
                p.weights = p.mean_weights = p.scores = true;
                CHECK(WithPast{n_past}.failures(Inputs<TestType>(p)) == "");
            }
    });
}

TEST_CASE("past and present: the number of queries is not that of the new keys", "[cache]")
{
    const Problem p{.h = 2, .h_kv = 2, .n_q = 5, .n_kv = 20, .d_k = 8, .d_v = 8, .causal = true};
    for_each_target([&](Target) { CHECK(WithPast{18}.failures(Inputs<float>(p)) == ""); });
}

TEST_CASE("past and present: a past that is not given has no tokens", "[cache]")
{
    const Inputs<float> inputs({.b = 2, .h = 2, .h_kv = 1, .n_q = 6, .n_kv = 6, .d_k = 8, .d_v = 12});
    const auto options = headwise::AttentionOptions<float>{.causal = true};
    const Tensor<float, 4> key({2, 1, 6, 8}), value({2, 1, 6, 12}), Y({2, 2, 6, 12}), naive({2, 2, 6, 12}),
        expected({2, 2, 6, 12});
    const headwise::PastAndPresent<float> cache{.present_key = key.view(), .present_value = value.view()};
    headwise::attention_with_past<float>(inputs.Q.input(), inputs.K.input(), inputs.V.input(), cache, Y.view(),
                                         options);
    headwise::attention(inputs.Q.input(), inputs.K.input(), inputs.V.input(), expected.view(), options);
    CHECK(same_bits(Y.view(), expected.view()));
    CHECK(same_bits(key.view(), inputs.K.view()));
    headwise::reference::attention_with_past(inputs.Q.input(), inputs.K.input(), inputs.V.input(), cache, naive.view(),
                                             options);
    CHECK(max_error(Y.view(), naive.view()) <= 1e-5);
}

// Every input ends at a page that cannot be touched, and so do the canaries behind the present tensors.
TEMPLATE_TEST_CASE("past and present: nothing past an input's end is read", "[cache][layout]", float, double, bfloat16,
                   float16)
{
    for_each_target([](Target target) {
        for (const std::int64_t width : {1, 3, 8, 17, 59, 64})
            for (const Layout layout : layouts) {
                const Problem p{.b = 2,
                                .h = 2,
                                .h_kv = 1,
                                .n_q = 3,
                                .n_kv = 36,
                                .d_k = width,
                                .d_v = width,
                                .q_layout = layout,
                                .y_layout = layout,
                                .causal = true,
                                .log_sum_exp = true};
                INFO(headwise::name(target) << ", width " << width << ", layout " << static_cast<int>(layout));
                CHECK(WithPast{.n_past = 33, .layout = layout}.failures(Inputs<TestType>(p)) == "");
            }
    });
}
