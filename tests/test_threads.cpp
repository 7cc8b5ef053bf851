// The number of threads changes no bit, calls may run at the same time, and inside the caller's own parallel loops.
#include "catch_compat.hpp"
#include "layer_problem.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

using namespace tensors;
using headwise::MultiHeadAttention;
using headwise::Target;

namespace {

/// run() in an arena of `threads` threads, which exist even where the machine has fewer cores.
template <class Run>
auto with_threads(int threads, const Run& run)
{
    namespace tbb = oneapi::tbb;
    const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    tbb::task_arena arena(threads);
    return arena.execute(run);
}

/// Calls that are large enough to be shared out, with what is done differently for some of them.
std::vector<Problem> problems()
{
    const Problem plain{.b = 2, .h = 6, .h_kv = 6, .n_q = 150, .n_kv = 210, .d_k = 40, .d_v = 24, .log_sum_exp = true};
    std::vector<Problem> all;
    const auto with = [&](const auto& change) {
        Problem p = plain;
        change(p);
        all.push_back(p);
    };
    with([](Problem&) {});
    with([](Problem& p) { p.causal = true, p.query_offset = 60; });
    with([](Problem& p) { p.h_kv = 2; });
    with([](Problem& p) { p.h_kv = 1, p.causal = true; });
    with([](Problem& p) { p.weights = true; });
    with([](Problem& p) { p.mean_weights = p.weights = true; });
    with([](Problem& p) { p.mask = MaskKind::boolean, p.mask_shape = {1, 1, 150, 210}; });
    with([](Problem& p) { p.softcap = 3, p.alibi = p.scores = true; });
    with([](Problem& p) { p.b = 1, p.h = p.h_kv = 1, p.n_q = 900; });
    with([](Problem& p) { p.b = 1, p.n_q = 1, p.n_kv = 5000; });
    with([](Problem& p) { p.b = 1, p.h = p.h_kv = 2, p.n_kv = 4000, p.weights = p.mean_weights = true; });
    with([](Problem& p) { p.b = 1, p.h_kv = 3, p.n_q = 1, p.n_kv = 5000, p.sinks = true, p.log_sum_exp = false; });
    return all;
}

struct LayerCall {
    RandomLayer<float> random;
    MultiHeadAttention layer;
    Tensor<float, 3> X;

    LayerCall(const LayerShape& shape, std::int64_t b, std::int64_t n)
        : random(shape), layer(shape, random.weights()), X({b, n, random.shape.d_model})
    {
        Random numbers(31);
        randomize(X, numbers);
    }

    Tensor<float, 3> run() const
    {
        const Tensor<float, 3> Y(X.shape());
        layer.forward(X.view(), Y.view(), {.causal = true});
        return Y;
    }
};

std::vector<LayerCall> layer_calls()
{
    std::vector<LayerCall> calls;
    calls.emplace_back(LayerShape{.d_model = 96, .heads = 6}, 2, 170);
    calls.emplace_back(LayerShape{.d_model = 96, .heads = 6, .kv_heads = 2, .d_k = 24}, 1, 40);
    calls.emplace_back(LayerShape{.d_model = 256, .heads = 4}, 1, 9);
    return calls;
}

}  // namespace

TEMPLATE_TEST_CASE("threads: the operator gives the same bits with 1, 2, 3 and 7", "[threads]", float, double,
                   headwise::bfloat16, headwise::float16)
{
    for_each_target([](Target target) {
        for (const Problem& p : problems()) {
            const Inputs<TestType> inputs(p);
            const auto one = with_threads(1, [&] { return run_kernels(inputs); });
            for (const int threads : {2, 3, 7}) {
                const auto many = with_threads(threads, [&] { return run_kernels(inputs); });
                INFO(headwise::name(target) << ", " << threads << " threads: " << p.text());
                CHECK(many.same_bits_as(one));
            }
        }
    });
}

TEST_CASE("threads: a ragged batch gives the same bits with 1, 2, 3 and 7", "[threads]")
{
    using Starts = std::array<std::int64_t, 5>;
    const auto check = [](Target target, bool causal, const Starts& of_queries, const Starts& of_keys) {
        const Tensor<std::int64_t, 1> q_starts({5}), kv_starts({5});
        fill(q_starts, [&](const auto& i) { return of_queries[static_cast<std::size_t>(i[0])]; });
        fill(kv_starts, [&](const auto& i) { return of_keys[static_cast<std::size_t>(i[0])]; });
        const Inputs<float> inputs(
            {.h = 6, .h_kv = 2, .n_q = of_queries[4], .n_kv = of_keys[4], .d_k = 24, .d_v = 24});
        const auto run = [&] {
            const Outputs<float> outputs(inputs.problem);
            headwise::ragged_attention(heads_of(inputs.Q.input()), heads_of(inputs.K.input()),
                                       heads_of(inputs.V.input()), heads_of(outputs.Y.view()),
                                       {q_starts.input(), kv_starts.input()}, {.causal = causal});
            return outputs;
        };
        const auto one = with_threads(1, run);
        for (const int threads : {2, 3, 7}) {
            INFO(headwise::name(target) << ", " << threads << " threads");
            CHECK(with_threads(threads, run).same_bits_as(one));
        }
    };
    for_each_target([&](Target target) {
        check(target, true, {0, 3, 400, 401, 600}, {0, 200, 400, 600, 800});
        check(target, false, {0, 1, 2, 3, 4}, {0, 9000, 9100, 12000, 12001});  // decoding, cut by keys
    });
}

TEST_CASE("threads: the layer gives the same bits with 1, 2, 3 and 7", "[threads]")
{
    std::vector<LayerCall> calls = layer_calls();
    // W_q and W_o so large that one thread reads them once for several panels, and many threads do not.
    calls.emplace_back(LayerShape{.d_model = 1450, .heads = 2, .kv_heads = 1, .d_k = 750}, 1, 100);
    for_each_target([&](Target target) {
        for (const LayerCall& call : calls) {
            const auto one = with_threads(1, [&] { return call.run(); });
            for (const int threads : {2, 3, 7}) {
                const auto many = with_threads(threads, [&] { return call.run(); });
                INFO(headwise::name(target) << ", " << threads << " threads");
                CHECK(same_bits(many.view(), one.view()));
            }
        }
    });
}

namespace {

/// Counts the workers that come to an arena, which they do only where there is work for them.
class Arrivals : public oneapi::tbb::task_scheduler_observer {
public:
    explicit Arrivals(oneapi::tbb::task_arena& arena) : task_scheduler_observer(arena) { observe(true); }
    ~Arrivals() override { observe(false); }
    void on_scheduler_entry(bool is_worker) override { count_ += is_worker; }
    int count() const { return count_; }

private:
    std::atomic<int> count_{0};
};

}  // namespace

// Not a matter of bits: a library that never shared its work out would pass the other tests of this file.
TEST_CASE("threads: large calls are shared out, small ones are not", "[threads]")
{
    namespace tbb = oneapi::tbb;
    const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism, 2);
    const LayerCall large({.d_model = 96, .heads = 6}, 2, 170), small({.d_model = 8, .heads = 2}, 1, 3);
    tbb::task_arena arena(2);
    arena.initialize();
    const Arrivals arrivals(arena);
    arena.execute([&] {
        for (int i = 0; i < 1000; ++i) small.run();
    });
    CHECK(arrivals.count() == 0);
    // The one worker that is allowed may be one of an earlier arena, which oneTBB leaves there for a while.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (arrivals.count() == 0 && std::chrono::steady_clock::now() < deadline) arena.execute([&] { large.run(); });
    CHECK(arrivals.count() > 0);
}

TEST_CASE("threads: forwards at the same time give the bits of one alone", "[threads]")
{
    for_each_target([](Target target) {
        const std::vector<LayerCall> calls = layer_calls();
        std::vector<Tensor<float, 3>> expected;
        for (const LayerCall& call : calls) expected.push_back(call.run());
        std::atomic<int> different{0};
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (std::size_t round = 0; round < 12; ++round) {
                    const std::size_t i = (t + round) % calls.size();
                    const auto run = [&] { return calls[i].run(); };
                    // In an arena of one thread a call is made without tasks: all of it is seen by ThreadSanitizer.
                    const Tensor<float, 3> Y = t < 2 ? oneapi::tbb::task_arena(1).execute(run) : run();
                    if (!same_bits(Y.view(), expected[i].view())) ++different;
                }
            });
        for (std::thread& thread : threads) thread.join();
        INFO(headwise::name(target));
        CHECK(different == 0);
    });
}

TEST_CASE("threads: inside the caller's parallel_for", "[threads]")
{
    for_each_target([](Target target) {
        const std::vector<LayerCall> calls = layer_calls();
        const Inputs<float> inputs(problems()[1]);
        std::vector<Tensor<float, 3>> expected;
        for (const LayerCall& call : calls) expected.push_back(call.run());
        const Outputs<float> expected_attention = run_kernels(inputs);
        std::atomic<int> different{0};
        with_threads(3, [&] {
            oneapi::tbb::parallel_for(std::size_t{0}, std::size_t{40}, [&](std::size_t task) {
                const std::size_t i = task % (calls.size() + 1);
                const bool same = i < calls.size() ? same_bits(calls[i].run().view(), expected[i].view())
                                                   : run_kernels(inputs).same_bits_as(expected_attention);
                if (!same) ++different;
            });
        });
        INFO(headwise::name(target));
        CHECK(different == 0);
    });
}
