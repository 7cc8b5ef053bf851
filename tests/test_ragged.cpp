// Ragged batches against their naive twin; no sequence sees another, and nothing past an input's end is read.
#include "catch_compat.hpp"
#include "tolerance.hpp"

#include <numeric>

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::Target;
using headwise::TensorView;

namespace {

using Lengths = std::vector<std::int64_t>;

/// Where sequences of these lengths begin.
Tensor<std::int64_t, 1> starts_of(const Lengths& lengths)
{
    const Tensor<std::int64_t, 1> starts({static_cast<std::int64_t>(lengths.size()) + 1});
    std::int64_t sum = 0;
    fill(starts, [&](const auto& i) {
        if (i[0] > 0) sum += lengths[static_cast<std::size_t>(i[0] - 1)];
        return sum;
    });
    return starts;
}

/// Calls on sequences of these lengths, whose tokens one batch item of the inputs has.
struct Ragged {
    Tensor<std::int64_t, 1> q_starts, kv_starts;
    Tensor<std::int64_t, 1> query_offsets;
    bool gives_offsets = false;

    Ragged(const Lengths& q_lengths, const Lengths& kv_lengths)
        : q_starts(starts_of(q_lengths)),
          kv_starts(starts_of(kv_lengths)),
          query_offsets({static_cast<std::int64_t>(q_lengths.size())}, Layout::spread)
    {
        fill(query_offsets, [&](const auto& i) {
            const auto at = static_cast<std::size_t>(i[0]);
            return kv_lengths[at] - q_lengths[at] + i[0] % 3 - 1;
        });
    }

    template <class E, class Call>
    Outputs<E> run(const Inputs<E>& inputs, const Call& call) const
    {
        const Outputs<E> outputs(inputs.problem);
        auto options = inputs.options();
        outputs.give_to(options);
        if (gives_offsets) options.query_offsets = query_offsets.input();
        call(heads_of(inputs.Q.input()), heads_of(inputs.K.input()), heads_of(inputs.V.input()),
             heads_of(outputs.Y.view()), headwise::RaggedStarts{q_starts.input(), kv_starts.input()}, options);
        return outputs;
    }

    template <class E>
    Outputs<E> kernels(const Inputs<E>& inputs) const
    {
        return run(inputs, [](const auto&... arguments) { headwise::ragged_attention(arguments...); });
    }

    template <class Number, class E>
    Outputs<E> naive(const Inputs<E>& inputs) const
    {
        return run(inputs,
                   [](const auto&... arguments) { headwise::reference::ragged_attention<E, Number>(arguments...); });
    }

    template <class E>
    Comparison compare(const Inputs<E>& inputs) const
    {
        return compare_outputs(inputs, kernels(inputs), naive<compute_t<E>>(inputs),
                               oracle(inputs, [&]<class Number>(const auto& wide) { return naive<Number>(wide); }));
    }
};

/// `p` with the tokens that the lengths need.
Problem with_tokens(Problem p, const Lengths& q_lengths, const Lengths& kv_lengths)
{
    p.n_q = std::accumulate(q_lengths.begin(), q_lengths.end(), std::int64_t{0});
    p.n_kv = std::accumulate(kv_lengths.begin(), kv_lengths.end(), std::int64_t{0});
    return p;
}

// Nothing, one token, around the widths of panels and tiles, and one that is much longer than the others.
const Lengths q_mixed{0, 1, 7, 8, 9, 16, 17, 0, 33, 49, 200, 0};
const Lengths kv_mixed{5, 1, 0, 95, 96, 97, 17, 0, 193, 3, 201, 1};

// Decoding: one query each, or none; keys around those of a chunk, after which a chunk of the next sequence begins.
const Lengths q_decode{1, 1, 0, 1, 1, 1, 1, 1};
const Lengths kv_decode{5, 1024, 900, 1025, 0, 3100, 1, 2048};

}  // namespace

TEMPLATE_TEST_CASE("ragged: kernels and naive twin agree", "[ragged]", float, double, bfloat16, float16)
{
    const Problem plain{.h = 4, .h_kv = 2, .d_k = 24, .d_v = 40, .log_sum_exp = true};
    std::vector<Problem> problems(9, plain);
    problems[1].causal = true;
    problems[2].h_kv = 4, problems[2].left_window = 11;
    problems[3].h_kv = 1, problems[3].left_window = 40, problems[3].right_window = 3;
    problems[4].causal = true, problems[4].query_offset = -2;
    problems[5].sinks = problems[5].alibi = true;
    problems[6].softcap = 3, problems[6].scale = 0.5;
    problems[7].d_k = 1, problems[7].d_v = 1, problems[7].log_sum_exp = false;
    problems[8].q_layout = problems[8].k_layout = problems[8].v_layout = problems[8].y_layout = Layout::tokens_first;
    for_each_target([&](Target target) {
        for (const Problem& p : problems) {
            INFO(headwise::name(target));
            const Comparison c = Ragged(q_mixed, kv_mixed).compare(Inputs<TestType>(with_tokens(p, q_mixed, kv_mixed)));
            CHECK(c.failures == "");
        }
    });
}

TEMPLATE_TEST_CASE("ragged: each sequence has a query offset of its own", "[ragged]", float, double, bfloat16, float16)
{
    for_each_target([&](Target target) {
        Ragged ragged(q_mixed, kv_mixed);
        ragged.gives_offsets = true;
        const Problem p{
            .h = 2, .h_kv = 1, .d_k = 16, .d_v = 16, .causal = true, .left_window = 70, .log_sum_exp = true};
        INFO(headwise::name(target));
        CHECK(ragged.compare(Inputs<TestType>(with_tokens(p, q_mixed, kv_mixed))).failures == "");
    });
}

TEMPLATE_TEST_CASE("ragged: decoding", "[ragged]", float, double, bfloat16, float16)
{
    const Problem plain{.h = 2, .h_kv = 1, .d_k = 16, .d_v = 20, .log_sum_exp = true};
    std::vector<Problem> problems(4, plain);
    problems[1].causal = problems[1].sinks = true;
    problems[2].h_kv = 2, problems[2].left_window = 1500, problems[2].softcap = 3;
    problems[3].k_layout = problems[3].v_layout = problems[3].y_layout = Layout::tokens_first, problems[3].alibi = true;
    for_each_target([&](Target target) {
        INFO(headwise::name(target));
        JointErrors all;
        for (const Problem& p : problems) {
            Ragged ragged(q_decode, kv_decode);
            ragged.gives_offsets = true;
            all.include(ragged.compare(Inputs<TestType>(with_tokens(p, q_decode, kv_decode))));
        }
        CHECK(all.failures() == "");
    });
}

TEST_CASE("ragged: batches of no sequence, of empty ones and of one", "[ragged]")
{
    for_each_target([](Target) {
        const Problem p{.h = 2, .h_kv = 2, .d_k = 8, .d_v = 8, .causal = true, .log_sum_exp = true};
        for (const Lengths& lengths : std::vector<Lengths>{{}, {0}, {0, 0, 0}, {1}, {130}, {0, 0, 5}})
            CHECK(Ragged(lengths, lengths).compare(Inputs<float>(with_tokens(p, lengths, lengths))).failures == "");
    });
}

TEST_CASE("ragged: each sequence gets the bits of attention() on it alone", "[ragged]")
{
    const Problem plain{.h = 4, .h_kv = 2, .d_k = 24, .d_v = 24, .log_sum_exp = true};
    Problem causal = plain, windows = plain;
    causal.causal = true;
    windows.sinks = true, windows.left_window = windows.right_window = 1100;
    const auto check = [](Target target, const Problem& p, const Lengths& q_lengths, const Lengths& kv_lengths) {
        const Inputs<float> inputs(with_tokens(p, q_lengths, kv_lengths));
        const Ragged ragged(q_lengths, kv_lengths);
        const Outputs<float> got = ragged.kernels(inputs);
        for (std::size_t i = 0; i < q_lengths.size(); ++i) {
            const std::int64_t q = ragged.q_starts.input()(static_cast<std::int64_t>(i));
            const std::int64_t kv = ragged.kv_starts.input()(static_cast<std::int64_t>(i));
            const Tensor<float, 4> alone({1, 4, q_lengths[i], 24});
            headwise::attention(tokens_of(inputs.Q.input(), q, q_lengths[i]),
                                tokens_of(inputs.K.input(), kv, kv_lengths[i]),
                                tokens_of(inputs.V.input(), kv, kv_lengths[i]), alone.view(), inputs.options());
            INFO(headwise::name(target) << ", sequence " << i << " of " << q_lengths.size());
            CHECK(same_bits(tokens_of(got.Y.view(), q, q_lengths[i]), alone.view()));
        }
    };
    for_each_target([&](Target target) {
        check(target, causal, q_mixed, kv_mixed);
        check(target, windows, q_mixed, kv_mixed);
        check(target, windows, q_decode, kv_decode);
    });
}

TEMPLATE_TEST_CASE("ragged: NaN in one sequence reaches no other", "[ragged]", float, double, bfloat16, float16)
{
    for_each_target([](Target target) {
        const Problem p = with_tokens({.h = 2, .h_kv = 1, .d_k = 17, .d_v = 15}, q_mixed, kv_mixed);
        const Inputs<TestType> inputs(p);
        const Ragged ragged(q_mixed, kv_mixed);
        const Outputs<TestType> clean = ragged.kernels(inputs);
        constexpr std::int64_t spoilt = 8;
        const auto spoil = [](const Tensor<TestType, 4>& tensor, const Tensor<std::int64_t, 1>& starts) {
            for_each_index(tensor.shape(), [&](const auto& i) {
                if (i[2] >= starts.input()(spoilt) && i[2] < starts.input()(spoilt + 1))
                    at(tensor.view(), i) = element<TestType>(std::nan(""));
            });
        };
        spoil(inputs.Q, ragged.q_starts);
        spoil(inputs.K, ragged.kv_starts);
        spoil(inputs.V, ragged.kv_starts);
        const Outputs<TestType> got = ragged.kernels(inputs);
        bool others_same = true, own_nan = true;
        for_each_index(got.Y.shape(), [&](const auto& i) {
            const double a = number(at(got.Y.view(), i)), b = number(at(clean.Y.view(), i));
            const bool own = i[2] >= ragged.q_starts.input()(spoilt) && i[2] < ragged.q_starts.input()(spoilt + 1);
            if (own) own_nan = own_nan && std::isnan(a);
            else others_same = others_same && a == b;
        });
        INFO(headwise::name(target));
        CHECK(others_same);
        CHECK(own_nan);
    });
}

TEST_CASE("ragged: rows of no sequence stay as they are", "[ragged]")
{
    const Lengths lengths{3, 4};
    const Inputs<float> inputs({.h = 2, .h_kv = 2, .n_q = 9, .n_kv = 8, .d_k = 8, .d_v = 8, .log_sum_exp = true});
    const Outputs<float> got = Ragged(lengths, lengths).kernels(inputs), untouched(inputs.problem);
    for (std::int64_t head = 0; head < 2; ++head)
        for (std::int64_t token = 0; token < 9; ++token) {
            INFO("token " << token);
            CHECK((got.Y.view()(0, head, token, 0) == untouched.Y.view()(0, head, token, 0)) == (token >= 7));
            CHECK((got.log_sum_exp.view()(0, head, token) == untouched.log_sum_exp.view()(0, head, token)) ==
                  (token >= 7));
        }
}

// Every input, the starts as well, ends at a page that cannot be touched, and NaN lies before it: see Tensor.
TEMPLATE_TEST_CASE("ragged: nothing past an input's end is read", "[ragged][layout]", float, double, bfloat16, float16)
{
    for_each_target([](Target) {
        for (const std::int64_t width : {1, 3, 8, 17, 40, 59, 64, 111})
            for (const Layout layout : {Layout::dense, Layout::misaligned, Layout::transposed, Layout::backwards}) {
                const Lengths q_lengths{5, 0, 33, 1}, kv_lengths{1, 7, 64, 99};
                const Problem p = with_tokens({.h = 2,
                                               .h_kv = 1,
                                               .d_k = width,
                                               .d_v = width,
                                               .q_layout = layout,
                                               .k_layout = layout,
                                               .v_layout = layout,
                                               .y_layout = layout,
                                               .causal = true,
                                               .sinks = true,
                                               .alibi = true,
                                               .log_sum_exp = true},
                                              q_lengths, kv_lengths);
                Ragged ragged(q_lengths, kv_lengths);
                ragged.gives_offsets = true;
                CHECK(ragged.kernels(Inputs<TestType>(p)).intact_around());
            }
    });
}
