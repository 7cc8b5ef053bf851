// The operator and memory: every kind of strides gives the bits that dense tensors give, nothing beside a tensor is
// read or written, and offsets are 64 bits wide.
#include "attention_problem.hpp"
#include "catch_compat.hpp"

using namespace tensors;
using headwise::bfloat16;
using headwise::float16;
using headwise::Target;
using headwise::TensorView;

namespace {

/// The result for dense tensors of the same numbers.
template <class E>
Outputs<E> run_dense(const Inputs<E>& from)
{
    Problem p = from.problem;
    p.q_layout = p.k_layout = p.v_layout = p.y_layout = p.output_layout = p.mask_layout = Layout::dense;
    return run_kernels(Inputs<E>(p));  // the same seed draws the same numbers, whatever the layout
}

Problem with_everything(std::int64_t width)
{
    return {.b = 2,
            .h = 4,
            .h_kv = 2,
            .n_q = 21,
            .n_kv = 67,
            .d_k = width,
            .d_v = width,
            .softcap = 20,
            .mask = MaskKind::float32,
            .mask_shape = {2, 1, 21, 67},
            .alibi = true,
            .weights = true,
            .mean_weights = true,
            .scores = true,
            .log_sum_exp = true};
}

}  // namespace

TEMPLATE_TEST_CASE("attention: strides change no bit of the result", "[attention][layout]", float, double, bfloat16,
                   float16)
{
    for_each_target([](Target target) {
        for (const std::int64_t width : {1, 8, 59, 64})
            for (const Layout layout : layouts) {
                Problem p = with_everything(width);
                const auto check = [&](const char* name, Layout Problem::* which) {
                    Problem changed = p;
                    changed.*which = layout;
                    const Inputs<TestType> inputs(changed);
                    const Outputs<TestType> got = run_kernels(inputs);
                    INFO(headwise::name(target) << ": " << name << " in layout " << static_cast<int>(layout)
                                                << ", width " << width);
                    CHECK(got.same_bits_as(run_dense(inputs)));
                    CHECK(got.intact_around());
                };
                check("Q", &Problem::q_layout);
                check("K", &Problem::k_layout);
                check("V", &Problem::v_layout);
                check("Y", &Problem::y_layout);
                check("mask", &Problem::mask_layout);
                check("outputs", &Problem::output_layout);
            }
    });
}

// Every input ends at a page that cannot be touched, and NaN lies before it: see Tensor.
TEMPLATE_TEST_CASE("attention: nothing past an input's end is read", "[attention][layout]", float, double, bfloat16,
                   float16)
{
    for_each_target([](Target target) {
        for (const std::int64_t width : {1, 3, 8, 15, 17, 40, 59, 64, 111, 128})
            for (const std::int64_t n : {1, 5, 16, 33, 195})
                for (const MaskKind mask : {MaskKind::boolean, MaskKind::float32, MaskKind::element})
                    for (const Layout layout : {Layout::dense, Layout::misaligned}) {
                        const Problem p{.b = 2,
                                        .h = 2,
                                        .h_kv = 1,
                                        .n_q = n,
                                        .n_kv = n,
                                        .d_k = width,
                                        .d_v = width % 7 + 1,
                                        .q_layout = layout,
                                        .k_layout = layout,
                                        .v_layout = layout,
                                        .y_layout = layout,
                                        .query_offsets = true,
                                        .kv_lengths = true,
                                        .mask = mask,
                                        .mask_shape = {1, 2, n, n},
                                        .mask_layout = layout,
                                        .sinks = true,
                                        .alibi = true,
                                        .log_sum_exp = true};
                        INFO(headwise::name(target) << ", " << p.text());
                        CHECK(run_kernels(Inputs<TestType>(p)).intact_around());
                    }
    });
}

// A mask's rows may end at the page too: one row of keys for all, one key for a row, and one that is too short.
TEST_CASE("attention: nothing past the end of a broadcast or short mask is read", "[attention][layout]")
{
    for_each_target([](Target target) {
        for (const std::int64_t n : {5, 33, 195})
            for (const MaskKind mask : {MaskKind::boolean, MaskKind::float32, MaskKind::element})
                for (const std::array<std::int64_t, 4>& shape :
                     {std::array<std::int64_t, 4>{1, 1, 1, n}, std::array<std::int64_t, 4>{1, 1, n, 1},
                      std::array<std::int64_t, 4>{1, 3, 1, n / 2}, std::array<std::int64_t, 4>{1, 1, 1, 1}}) {
                    const Problem p{.h = 3, .h_kv = 3, .n_q = n, .n_kv = n, .d_k = 8, .d_v = 8, .mask = mask,
                                    .mask_shape = shape, .weights = true};
                    INFO(headwise::name(target) << ", " << p.text());
                    CHECK(run_kernels(Inputs<float>(p)).intact_around());
                    CHECK(run_kernels(Inputs<bfloat16>(p)).intact_around());
                }
    });
}

TEST_CASE("attention: keys and values broadcast over heads and items by stride 0", "[attention][layout]")
{
    for_each_target([](Target target) {
        Random random(5);
        const auto Q = random_tensor<float, 4>({2, 3, 20, 16}, random);
        const auto K = random_tensor<float, 2>({30, 16}, random);
        const auto V = random_tensor<float, 2>({30, 12}, random);
        const TensorView<const float, 4> K_all(K.input().data, {2, 3, 30, 16}, {0, 0, 16, 1});
        const TensorView<const float, 4> V_all(V.input().data, {2, 3, 30, 12}, {0, 0, 12, 1});
        const Tensor<float, 4> K_copies({2, 3, 30, 16}), V_copies({2, 3, 30, 12});
        fill(K_copies, [&](const auto& i) { return K.input()(i[2], i[3]); });
        fill(V_copies, [&](const auto& i) { return V.input()(i[2], i[3]); });
        const Tensor<float, 4> Y({2, 3, 20, 12}), expected({2, 3, 20, 12});
        headwise::attention(Q.view(), K_all, V_all, Y.view(), {.causal = true});
        headwise::attention(Q.view(), K_copies.view(), V_copies.view(), expected.view(), {.causal = true});
        INFO(headwise::name(target));
        CHECK(same_bits(Y.view(), expected.view()));

        // one key for all positions: the weights are equal, so Y is the mean of V's rows
        const TensorView<const float, 4> one_key(K.input().data, {2, 3, 30, 16}, {0, 0, 0, 1});
        const Tensor<float, 4> weights({2, 3, 20, 30});
        headwise::attention(Q.view(), one_key, V_all, Y.view(), {.weights = weights.view()});
        for_each_index(weights.shape(), [&](const auto& i) {
            if (std::abs(at(weights.view(), i) - 1.0f / 30) > 1e-8f) FAIL("weights of equal keys differ");
        });
    });
}

TEST_CASE("attention: packed QKV, and the output in the same buffer", "[attention][layout]")
{
    constexpr std::int64_t b = 2, n = 37, h = 3, d = 20;
    constexpr std::int64_t row = 4 * h * d;  // Q, K, V and Y of a token side by side
    for_each_target([](Target target) {
        const Tensor<float, 1> buffer({b * n * row}, Layout::dense, End::canaries);
        Random random(6);
        randomize(buffer, random);
        const auto part = [&](std::int64_t i) {
            return TensorView<float, 4>(buffer.view().data + i * h * d, {b, h, n, d}, {n * row, d, row, 1});
        };
        const Tensor<float, 4> Q({b, h, n, d}), K({b, h, n, d}), V({b, h, n, d}), expected({b, h, n, d});
        fill(Q, [&](const auto& i) { return at(part(0), i); });
        fill(K, [&](const auto& i) { return at(part(1), i); });
        fill(V, [&](const auto& i) { return at(part(2), i); });
        headwise::attention(Q.view(), K.view(), V.view(), expected.view(), {.causal = true});
        headwise::attention(part(0), part(1), part(2), part(3), {.causal = true});
        INFO(headwise::name(target));
        CHECK(same_bits(part(3), expected.view()));
        CHECK(same_bits(part(0), Q.view()));
        CHECK(same_bits(part(1), K.view()));
        CHECK(same_bits(part(2), V.view()));
        CHECK(buffer.intact_around());
    });
}

namespace {

/// Address space for tensors whose elements lie far apart; only the pages that are touched become memory.
class SparseMemory {
public:
    explicit SparseMemory(std::size_t bytes)
        : bytes_(bytes),
          at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
    {
        if (at_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~SparseMemory() { munmap(at_, bytes_); }
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;

    float* numbers() const { return static_cast<float*>(at_); }

private:
    std::size_t bytes_;
    void* at_;
};

}  // namespace

// A row stride of 2^31 + 64 elements: what row 2 of the real (n, n) weights has from n = 2^31 on, and what row 46341 of
// n = 46341 has. Offsets of 32 bits would fall on the rows before.
TEST_CASE("attention: offsets beyond 2^31 elements", "[attention][layout]")
{
    constexpr std::int64_t far = (std::int64_t{1} << 31) + 64;
    constexpr std::int64_t n = 3, d = 16;
    const SparseMemory memory(static_cast<std::size_t>(3 * far + 1024) * sizeof(float));
    const auto rows = [&](std::int64_t first, std::int64_t width) {
        return TensorView<float, 4>(memory.numbers() + first, {1, 1, n, width}, {0, 0, far, 1});
    };
    const TensorView<float, 4> Q = rows(0, d), K = rows(16, d), V = rows(32, d), Y = rows(48, d);
    const TensorView<float, 4> weights = rows(64, n), mask = rows(80, n);
    Random random(7);
    for (const auto& view : {Q, K, V, mask})
        for_each_index(view.shape, [&](const auto& i) { at(view, i) = static_cast<float>(random.normal()); });
    const auto dense = [](const TensorView<float, 4>& view) {
        Tensor<float, 4> copy(view.shape);
        fill(copy, [&](const auto& i) { return at(view, i); });
        return copy;
    };
    const Tensor<float, 4> Y_dense(Y.shape), weights_dense(weights.shape), mask_dense = dense(mask);
    for_each_target([&](Target target) {
        INFO(headwise::name(target));
        headwise::attention(dense(Q).view(), dense(K).view(), dense(V).view(), Y_dense.view(),
                            {.mask = mask_dense.view(), .weights = weights_dense.view()});
        headwise::attention(Q, K, V, Y, {.mask = mask, .weights = weights});
        CHECK(same_bits(Y, Y_dense.view()));
        CHECK(same_bits(weights, weights_dense.view()));
    });
}

// Panels are as wide as the bounds of a block's rows make worth while, and blocks begin where the call does: a slice of
// the queries meets other panels than the whole call.
TEMPLATE_TEST_CASE("attention: a row has the same bits whatever queries are beside it", "[attention][layout]", float,
                   double)
{
    constexpr std::int64_t n = 276, slice = 32;
    for_each_target([&](Target target) {
        Problem causal{.b = 1, .h = 2, .h_kv = 2, .n_q = n, .n_kv = n, .d_k = 24, .d_v = 40, .causal = true};
        Problem window = causal;
        window.left_window = 50;
        Problem small = causal;
        small.d_k = small.d_v = 8;
        Problem biased = causal;
        biased.alibi = true;
        for (const Problem& p : {causal, window, small, biased})
            for (const bool spoilt : {false, true}) {
                const Inputs<TestType> inputs(p);
                if (spoilt)
                    for (std::int64_t c = 0; c < p.d_v; c += 3)
                        inputs.V.view()(0, 1, n - 60, c) = std::numeric_limits<TestType>::infinity();
                const Outputs<TestType> all = run_kernels(inputs);
                for (std::int64_t first = 0; first < n; first += slice) {
                    const std::int64_t count = std::min(slice, n - first);
                    auto options = inputs.options();
                    options.query_offset = first;
                    const Tensor<TestType, 4> Y({1, p.h, count, p.d_v});
                    headwise::attention(tokens_of(inputs.Q.input(), first, count), inputs.K.input(), inputs.V.input(),
                                        Y.view(), options);
                    INFO(headwise::name(target) << ", d_k " << p.d_k << ", from " << first << ", spoilt " << spoilt);
                    CHECK(same_bits(tokens_of(all.Y.view(), first, count), Y.view()));
                }
            }
    });
}
