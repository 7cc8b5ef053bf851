// What the library allocates: nothing once warm, and a bounded amount for long sequences.
#include "catch_compat.hpp"
#include "layer_problem.hpp"
#include "tolerance.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <headwise/kv_cache.hpp>
#include <headwise/scratch.hpp>

namespace {

// Every operator new of this program and of the libraries it has loaded comes here.
std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

void* counted(void* memory)
{
    if (memory == nullptr) throw std::bad_alloc();
    ++allocations;
    const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
    const std::int64_t live = live_bytes += bytes;
    std::int64_t peak = peak_bytes;
    while (peak < live && !peak_bytes.compare_exchange_weak(peak, live)) {
    }
    return memory;
}

void release(void* memory) noexcept
{
    if (memory != nullptr) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
    std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes)
{
    return counted(std::malloc(bytes > 0 ? bytes : 1));
}
void* operator new(std::size_t bytes, std::align_val_t alignment)
{
    const auto unit = static_cast<std::size_t>(alignment);
    return counted(std::aligned_alloc(unit, (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept
{
    release(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
    release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept
{
    release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept
{
    release(memory);
}

using namespace tensors;
using headwise::MultiHeadAttention;
using headwise::TensorView;

namespace {

template <class Run>
void with_threads(int threads, const Run& run)
{
    namespace tbb = oneapi::tbb;
    const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    tbb::task_arena arena(threads);
    arena.execute(run);
}

template <class Run>
std::int64_t allocations_of(const Run& run)
{
    const std::int64_t before = allocations;
    run();
    return allocations - before;
}

/// Calls until 50 calls one after another allocate nothing, or this never happens: with many threads, one that has not
/// taken part yet may do so at any call, and allocates its scratch then.
template <class Run>
bool becomes_silent(const Run& run)
{
    int silent = 0;
    for (int call = 0; call < 3000 && silent < 50; ++call) silent = allocations_of(run) == 0 ? silent + 1 : 0;
    return silent == 50;
}

/// One call of each kind, every option that needs scratch among them.
struct WarmCalls {
    Problem problem{.b = 2,
                    .h = 4,
                    .h_kv = 2,
                    .n_q = 70,
                    .n_kv = 130,
                    .d_k = 24,
                    .d_v = 20,
                    .causal = true,
                    .query_offset = 60,
                    .mask = MaskKind::float32,
                    .mask_shape = {1, 4, 70, 130},
                    .alibi = true,
                    .weights = true,
                    .mean_weights = true,
                    .scores = true,
                    .log_sum_exp = true};
    Inputs<float> inputs{problem};
    Outputs<float> outputs{problem};
    headwise::AttentionOptions<float> options = inputs.options();
    RandomLayer<float> weights{{.d_model = 64, .heads = 4}};
    MultiHeadAttention layer{weights.shape, weights.weights()};
    Tensor<float, 3> X{{2, 90, 64}}, Y{{2, 90, 64}};
    Tensor<std::int64_t, 1> starts{{4}};
    Tensor<float, 4> present_key{{2, 2, 260, 24}}, present_value{{2, 2, 260, 20}};
    headwise::KvCache<float> cache{{.batch = 2, .kv_heads = 2, .capacity = 130, .d_k = 24, .d_v = 20}};

    WarmCalls()
    {
        outputs.give_to(options);
        fill(X, [](const auto& i) { return static_cast<float>(i[1] + i[2]) * 0.01f; });
        fill(starts, [](const auto& i) { return 20 * i[0]; });
    }

    void attention() const
    {
        headwise::attention(inputs.Q.input(), inputs.K.input(), inputs.V.input(), outputs.Y.view(), options);
    }
    void ragged() const
    {
        headwise::ragged_attention(heads_of(inputs.Q.input()), heads_of(inputs.K.input()), heads_of(inputs.V.input()),
                                   heads_of(outputs.Y.view()), {starts.input(), starts.input()}, {.causal = true});
    }
    void cached()
    {
        cache.reset();
        cache.append(inputs.K.input(), inputs.V.input());
        headwise::attention(inputs.Q.input(), cache.keys(), cache.values(), outputs.Y.view(),
                            {.causal = true, .query_offsets = cache.offsets(), .kv_lengths = cache.lengths()});
    }
    void with_past() const
    {
        headwise::attention_with_past<float>(
            inputs.Q.input(), inputs.K.input(), inputs.V.input(),
            {inputs.K.input(), inputs.V.input(), present_key.view(), present_value.view()}, outputs.Y.view(),
            {.causal = true});
    }
    void forward() const { layer.forward(X.input(), Y.view(), {.causal = true}); }
};

}  // namespace

TEST_CASE("memory: the counters count", "[memory]")
{
    // Calls of the functions, which a compiler may not leave out as it may `delete new int` (clang does).
    CHECK(allocations_of([] { ::operator delete(::operator new(1)); }) == 1);
    const std::int64_t before = live_bytes;
    const auto numbers = std::make_unique<std::vector<double>>(1000);
    CHECK(live_bytes - before >= 8000);
}

TEST_CASE("memory: one thread allocates at its first call only", "[memory]")
{
    WarmCalls calls;
    for_each_target([&](headwise::Target target) {
        with_threads(1, [&] {
            headwise::release_thread_scratch();
            INFO(headwise::name(target));
            CHECK(allocations_of([&] { calls.attention(); }) > 0);
            CHECK(allocations_of([&] { calls.attention(); }) == 0);
            calls.forward();
            CHECK(allocations_of([&] { calls.forward(); }) == 0);
            const auto every_call = [&] {
                calls.ragged();
                calls.cached();
                calls.with_past();
                calls.attention();
                calls.forward();
            };
            every_call();
            CHECK(allocations_of(every_call) == 0);
        });
    });
}

TEST_CASE("memory: many threads allocate nothing once all are warm", "[memory]")
{
    const WarmCalls calls;
    for (const int threads : {2, 4})
        with_threads(threads, [&] {
            INFO(threads << " threads");
            CHECK(becomes_silent([&] { calls.attention(); }));
            CHECK(becomes_silent([&] { calls.forward(); }));
            CHECK(becomes_silent([&] {
                calls.attention();
                calls.forward();
            }));
        });
}

TEST_CASE("memory: scratch is told and given back", "[memory]")
{
    const WarmCalls calls;
    with_threads(1, [&] {
        headwise::release_thread_scratch();
        CHECK(headwise::thread_scratch_bytes() == 0);
        const std::int64_t before = live_bytes;
        calls.attention();
        const auto held = static_cast<std::int64_t>(headwise::thread_scratch_bytes());
        CHECK(held > 0);
        CHECK(live_bytes - before >= held);
        CHECK(live_bytes - before <= held + 4096);
        headwise::release_thread_scratch();
        CHECK(headwise::thread_scratch_bytes() == 0);
        CHECK(live_bytes - before <= 4096);
    });
}

TEST_CASE("memory: a forward over 8192 tokens needs less than 16 MiB a thread beyond K and V", "[memory][long]")
{
    constexpr std::int64_t n = 8192, d_model = 512, limit = 16 << 20;
    constexpr std::int64_t K_and_V = 2 * n * d_model * static_cast<std::int64_t>(sizeof(float));
    const RandomLayer<float> weights({.d_model = d_model, .heads = 8});
    const MultiHeadAttention layer(weights.shape, weights.weights());
    const Tensor<float, 2> X({n, d_model}), Y({n, d_model});
    fill(X, [](const auto& i) { return static_cast<float>((i[0] * 7 + i[1] * 13) % 32) * 0.05f; });
    for (const int threads : {1, 2})
        with_threads(threads, [&] {
            headwise::release_thread_scratch();
            const std::int64_t before = peak_bytes = live_bytes.load();
            layer.forward(X.input(), Y.view());
            INFO(threads << " threads: " << peak_bytes - before << " bytes, of which K and V " << K_and_V);
            CHECK(peak_bytes - before >= K_and_V);
            CHECK(peak_bytes - before <= K_and_V + threads * limit);
            CHECK(static_cast<std::int64_t>(headwise::thread_scratch_bytes()) <= K_and_V + limit);
            headwise::release_thread_scratch();
        });
}

TEST_CASE("memory: attention over 65536 keys needs what attention over few keys needs", "[memory]")
{
    const auto peak_of = [](std::int64_t n) {
        const Problem p{.n_q = 64, .n_kv = n, .d_k = 64, .d_v = 64};
        const Inputs<float> inputs(p);
        const Outputs<float> outputs(p);
        std::int64_t peak = 0;
        with_threads(1, [&] {
            headwise::release_thread_scratch();
            const std::int64_t before = peak_bytes = live_bytes.load();
            headwise::attention(inputs.Q.input(), inputs.K.input(), inputs.V.input(), outputs.Y.view());
            peak = peak_bytes - before;
        });
        return peak;
    };
    CHECK(peak_of(65536) <= peak_of(1000) + 4096);
}

namespace {

/// Rows at the ends, around multiples of tiles and panels, and all over.
std::vector<std::int64_t> spot_rows(std::int64_t n)
{
    std::vector<std::int64_t> rows{0, 1, 2, n - 2, n - 1, 5000};
    for (const std::int64_t edge : {8, 16, 24, 48, 64, 96, 128, 192, 256, 384, 1024, 4096, 16384, 32768, 49152})
        for (const std::int64_t row : {edge - 1, edge, edge + 1}) rows.push_back(row);
    Random random(9);
    for (int i = 0; i < 16; ++i) rows.push_back(random.below(n));
    return rows;
}

}  // namespace

// A score matrix of this many tokens would have 16 GiB. Some 5 seconds on two cores with AVX2, hence its label.
TEST_CASE("memory: causal attention over 65536 tokens is right, in memory that does not grow", "[memory][long]")
{
    constexpr std::int64_t n = 65536, d = 64, limit = 2 << 20;
    constexpr int threads = 2;
    const Problem p{.n_q = n, .n_kv = n, .d_k = d, .d_v = d, .log_sum_exp = true};
    const Inputs<float> inputs(p);
    const Outputs<float> got(p);
    headwise::AttentionOptions<float> options{.causal = true};
#ifdef HEADWISE_SANITIZED
    options.left_window = 300;  // the same rows, in bearable time
#endif
    got.give_to(options);
    with_threads(threads, [&] {
        headwise::release_thread_scratch();
        const std::int64_t before = peak_bytes = live_bytes.load();
        headwise::attention(inputs.Q.input(), inputs.K.input(), inputs.V.input(), got.Y.view(), options);
        INFO(peak_bytes - before << " bytes");
        CHECK(peak_bytes - before <= threads * limit);
    });
    CHECK(got.intact_around());

    Errors of_Y, of_log_sum_exp;
    for (const std::int64_t row : spot_rows(n)) {
        // The row alone over the keys that it sees, and in double and in float.
        const auto rows = [](const auto& tensor, std::int64_t first, std::int64_t count) {
            return TensorView<const float, 4>(&tensor.input()(0, 0, first, 0), {1, 1, count, d});
        };
        const auto naive = [&]<class Number>() {
            const Problem alone{.d_v = d, .log_sum_exp = true};
            const Outputs<float> outputs(alone);
            headwise::AttentionOptions<float> of_row{.query_offset = row, .left_window = options.left_window};
            outputs.give_to(of_row);
            headwise::reference::attention<float, Number>(rows(inputs.Q, row, 1), rows(inputs.K, 0, row + 1),
                                                          rows(inputs.V, 0, row + 1), outputs.Y.view(), of_row);
            return outputs;
        };
        const Outputs<float> want = naive.template operator()<double>(), plain = naive.template operator()<float>();
        const TensorView<const float, 4> Y = rows(got.Y, row, 1);
        const TensorView<const float, 3> log_sum_exp(&got.log_sum_exp.input()(0, 0, row), {1, 1, 1});
        of_Y.include({max_error(Y, want.Y.view()), max_error(plain.Y.view(), want.Y.view())});
        of_log_sum_exp.include({max_error(log_sum_exp, want.log_sum_exp.view()),
                                max_error(plain.log_sum_exp.view(), want.log_sum_exp.view())});
    }
    INFO("Y: " << of_Y.kernels << ", plain " << of_Y.plain << "; log-sum-exp: " << of_log_sum_exp.kernels << ", plain "
               << of_log_sum_exp.plain);
    CHECK(of_Y.earned(4 * std::numeric_limits<float>::epsilon()));
    CHECK(of_log_sum_exp.earned(16 * std::numeric_limits<float>::epsilon()));
}
