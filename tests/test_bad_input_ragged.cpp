// Bad arguments of ragged_attention().
#include "bad_input.hpp"
#include "catch_compat.hpp"

using namespace tensors;
using headwise::TensorView;

namespace {

/// A valid call on three sequences with every option and output that it takes, to be spoilt.
struct Call {
    Inputs<float> inputs{{.h = 4, .h_kv = 2, .n_q = 9, .n_kv = 11, .d_k = 6, .d_v = 5, .sinks = true, .alibi = true}};
    Outputs<float> outputs{{.h = 4, .h_kv = 2, .n_q = 9, .n_kv = 11, .d_k = 6, .d_v = 5, .log_sum_exp = true}};
    Tensor<std::int64_t, 1> q_starts{{4}}, kv_starts{{4}}, query_offsets{{3}};
    TensorView<const float, 3> Q = heads_of(inputs.Q.input()), K = heads_of(inputs.K.input()),
                               V = heads_of(inputs.V.input());
    TensorView<float, 3> Y = heads_of(outputs.Y.view());
    headwise::RaggedStarts starts{q_starts.input(), kv_starts.input()};
    headwise::AttentionOptions<float> options = inputs.options();

    Call()
    {
        fill(q_starts, [](const auto& i) { return 3 * i[0]; });
        fill(kv_starts, [](const auto& i) { return i[0] * (i[0] + 1) / 2; });
        fill(query_offsets, [](const auto& i) { return i[0]; });
        outputs.give_to(options);
        options.causal = true;
        options.query_offsets = query_offsets.input();
    }

    void run() const { headwise::ragged_attention(Q, K, V, Y, starts, options); }

    bool untouched() const { return outputs.Y.untouched() && outputs.log_sum_exp.untouched(); }
};

using Bad = BadCall<Call>;

std::vector<Bad> tensor_calls()
{
    std::vector<Bad> all{
        {"no heads", [](Call& c) { c.Q.shape[0] = 0; }, {"Q", "(0, 9, 6)", "h"}},
        {"no width", [](Call& c) { c.Q.shape[2] = c.K.shape[2] = 0; }, {"Q", "(4, 9, 0)", "d_k"}},
        {"no kv heads", [](Call& c) { c.K.shape[0] = c.V.shape[0] = 0; }, {"K", "(0, 11, 6)", "h = 4"}},
        {"three kv heads", [](Call& c) { c.K.shape[0] = c.V.shape[0] = 3; }, {"K", "(3, 11, 6)", "divides h = 4"}},
        {"K of other width", [](Call& c) { c.K.shape[2] = 5; }, {"K", "(2, 11, 5)", "d_k = 6"}},
        {"V of fewer tokens", [](Call& c) { c.V.shape[1] = 10; }, {"V", "(2, 10, 5)", "kv_tokens = 11"}},
        {"V without width", [](Call& c) { c.V.shape[2] = 0; }, {"V", "(2, 11, 0)", "d_v"}},
        {"Y of fewer tokens", [](Call& c) { c.Y.shape[1] = 8; }, {"Y", "(4, 8, 5)", "tokens = 9"}},
        {"too many tokens",
         [](Call& c) { c.K.shape[1] = c.V.shape[1] = huge_number, c.K.strides[1] = c.V.strides[1] = 0; },
         {"K", "2^63"}},
    };
    add_required_view(all, "Q", [](Call& c) -> auto& { return c.Q; });
    add_required_view(all, "K", [](Call& c) -> auto& { return c.K; });
    add_required_view(all, "V", [](Call& c) -> auto& { return c.V; });
    add_required_view(all, "Y", [](Call& c) -> auto& { return c.Y; });
    add_output_view(all, "Y", [](Call& c) -> auto& { return c.Y; });
    return all;
}

std::vector<Bad> starts_calls()
{
    const auto set = [](Tensor<std::int64_t, 1> Call::* starts, std::int64_t index, std::int64_t value) {
        return [=](Call& c) { (c.*starts).view()(index) = value; };
    };
    std::vector<Bad> all{
        {"first", set(&Call::q_starts, 0, 1), {"q_starts", "1 at index 0", "0"}},
        {"first", set(&Call::kv_starts, 0, -1), {"kv_starts", "-1 at index 0", "0"}},
        {"falling", set(&Call::q_starts, 2, 2), {"q_starts", "2 at index 2", "not fall"}},
        {"falling", set(&Call::kv_starts, 3, 2), {"kv_starts", "2 at index 3", "not fall"}},
        {"negative", set(&Call::q_starts, 1, -3), {"q_starts", "-3 at index 1", "not fall"}},
        {"lowest", set(&Call::kv_starts, 3, lowest_number), {"kv_starts", std::to_string(lowest_number), "not fall"}},
        {"beyond", set(&Call::q_starts, 3, 10), {"q_starts", "10 at index 3", "tokens, 9"}},
        {"beyond", set(&Call::kv_starts, 3, 12), {"kv_starts", "12 at index 3", "tokens, 11"}},
        {"far beyond", set(&Call::kv_starts, 3, huge_number), {"kv_starts", std::to_string(huge_number)}},
        {"none", [](Call& c) { c.starts.q_starts.shape[0] = 0; }, {"q_starts", "(0)", "b + 1"}},
        {"fewer", [](Call& c) { --c.starts.kv_starts.shape[0]; }, {"kv_starts", "(3)", "b + 1 = 4"}},
    };
    add_required_view(all, "q_starts", [](Call& c) -> auto& { return c.starts.q_starts; });
    add_required_view(all, "kv_starts", [](Call& c) -> auto& { return c.starts.kv_starts; });
    return all;
}

std::vector<Bad> option_calls()
{
    std::vector<Bad> all{
        {"weights", [](Call& c) { c.options.weights = {c.Y.data, {1, 4, 9, 11}}; }, {"weights", "dense"}},
        {"mean_weights", [](Call& c) { c.options.mean_weights = {c.Y.data, {1, 9, 11}}; }, {"mean_weights", "dense"}},
        {"scores", [](Call& c) { c.options.scores = {c.Y.data, {1, 4, 9, 11}}; }, {"scores", "dense"}},
        {"mask", [](Call& c) { c.options.mask = TensorView<const float, 1>(c.Q.data, {11}); }, {"mask", "dense"}},
        {"kv_lengths", [](Call& c) { c.options.kv_lengths = {c.starts.q_starts.data, {3}}; }, {"kv_lengths", "dense"}},
        {"query_offsets", [](Call& c) { --c.options.query_offsets.shape[0]; }, {"query_offsets", "(2)", "b = 3"}},
        {"query_offset", [](Call& c) { c.options.query_offset = 5; }, {"query_offset", "5", "query_offsets"}},
        {"scale", [](Call& c) { c.options.scale = std::nan(""); }, {"scale", "nan", "finite"}},
        {"softcap", [](Call& c) { c.options.softcap = -2; }, {"softcap", "-2", "positive"}},
        {"left_window", [](Call& c) { c.options.left_window = -2; }, {"left_window", "-2"}},
        {"right_window", [](Call& c) { c.options.right_window = lowest_number; }, {"right_window"}},
        {"score_stage",
         [](Call& c) { c.options.score_stage = static_cast<headwise::ScoreStage>(9); },
         {"score_stage", "9"}},
        {"sinks", [](Call& c) { --c.options.sinks.shape[0]; }, {"sinks", "(3)", "h = 4"}},
        {"sinks", [](Call& c) { c.inputs.sinks.view()(1) = std::nanf(""); }, {"sinks", "nan", "head 1"}},
        {"alibi",
         [](Call& c) { c.inputs.alibi.view()(3) = std::numeric_limits<float>::infinity(); },
         {"alibi", "inf", "head 3"}},
        {"log_sum_exp", [](Call& c) { --c.options.log_sum_exp.shape[2]; }, {"log_sum_exp", "(1, 4, 8)", "tokens = 9"}},
        {"log_sum_exp", [](Call& c) { c.options.log_sum_exp.shape[0] = 3; }, {"log_sum_exp", "(3, 4, 9)", "one = 1"}},
    };
    add_view(all, "query_offsets", [](Call& c) -> auto& { return c.options.query_offsets; });
    add_view(all, "sinks", [](Call& c) -> auto& { return c.options.sinks; });
    add_view(all, "alibi", [](Call& c) -> auto& { return c.options.alibi; });
    add_output_view(all, "log_sum_exp", [](Call& c) -> auto& { return c.options.log_sum_exp; });
    return all;
}

const std::vector<Bad> overlap_calls{
    {"Y on Q", [](Call& c) { c.Q.data = c.Y.data; }, {"Y", "overlapping Q"}},
    {"Y's end on K's begin", [](Call& c) { c.K.data = &c.Y(3, 8, 4); }, {"Y", "overlapping K"}},
    {"Y's begin on V's end", [](Call& c) { c.V.data = c.Y.data - 2 * 11 * 5 + 1; }, {"Y", "overlapping V"}},
    {"Y on the starts",
     [](Call& c) { c.Y.data = reinterpret_cast<float*>(const_cast<std::int64_t*>(c.starts.q_starts.data)) - 179; },
     {"Y", "overlapping q_starts"}},
    {"log_sum_exp on the starts",
     [](Call& c) {
         c.options.log_sum_exp.data = reinterpret_cast<float*>(const_cast<std::int64_t*>(c.starts.kv_starts.data));
     },
     {"log_sum_exp", "overlapping kv_starts"}},
    {"log_sum_exp on Y", [](Call& c) { c.options.log_sum_exp.data = c.Y.data; }, {"log_sum_exp", "overlapping Y"}},
    {"log_sum_exp on sinks",
     [](Call& c) { c.options.sinks.data = c.options.log_sum_exp.data; },
     {"log_sum_exp", "overlapping sinks"}},
    {"log_sum_exp on K", [](Call& c) { c.K.data = c.options.log_sum_exp.data; }, {"log_sum_exp", "overlapping K"}},
};

}  // namespace

TEST_CASE("bad input: the ragged call that is spoilt below is valid", "[bad_input][ragged]")
{
    const Call call;
    CHECK(call.untouched());
    call.run();
    CHECK_FALSE(call.untouched());
}

TEST_CASE("bad input: ragged tensors", "[bad_input][ragged]")
{
    check_refused(tensor_calls(), "ragged_attention");
}

TEST_CASE("bad input: ragged starts", "[bad_input][ragged]")
{
    check_refused(starts_calls(), "ragged_attention");
}

TEST_CASE("bad input: ragged options", "[bad_input][ragged]")
{
    check_refused(option_calls(), "ragged_attention");
}

TEST_CASE("bad input: ragged overlaps", "[bad_input][ragged]")
{
    check_refused(overlap_calls, "ragged_attention");
}
