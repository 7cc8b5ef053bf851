// The softmax kernel of each target, and through it the power of two; and the tanh of the soft cap.
#include "catch_compat.hpp"
#include "tensors.hpp"

#include <headwise/attention.hpp>

#include "kernels/kernel_table.hpp"

using namespace tensors;
using headwise::KernelTable;
using headwise::Target;

namespace {

template <class T>
using Limits = std::numeric_limits<T>;

/// A tile of scores, keys x W, and its state.
template <class T>
struct SoftmaxTile {
    const KernelTable<T>& table;
    int vectors;
    Tensor<T, 2> s;
    Tensor<T, 1> maximum_before, maximum, sum, correction;

    SoftmaxTile(const KernelTable<T>& t, int vectors_, std::int64_t keys)
        : table(t),
          vectors(vectors_),
          s({keys, vectors * t.lanes}, Layout::dense, End::canaries),
          maximum_before({vectors * t.lanes}, Layout::dense, End::canaries),
          maximum({vectors * t.lanes}, Layout::dense, End::canaries),
          sum({vectors * t.lanes}, Layout::dense, End::canaries),
          correction({vectors * t.lanes}, Layout::dense, End::canaries)
    {
        const auto zero = [](const auto&) { return T(0); };
        fill(s, zero);
        fill(maximum_before, zero);
        fill(maximum, zero);
        fill(sum, zero);
    }

    std::int64_t width() const { return s.shape()[1]; }

    void run() const
    {
        table.softmax(s.view().data, s.shape()[0], vectors,
                      {maximum_before.view().data, maximum.view().data, sum.view().data, correction.view().data});
    }

    bool intact_around() const
    {
        return s.intact_around() && maximum_before.intact_around() && maximum.intact_around() && sum.intact_around() &&
               correction.intact_around();
    }
};

/// |got - want| in units in the last place of want.
template <class T>
double ulps(T got, long double want)
{
    const long double size = std::ldexp(1.0L, std::ilogb(want) - (Limits<T>::digits - 1));
    return static_cast<double>(std::abs(static_cast<long double>(got) - want) / size);
}

/// 2^x of each x <= 0, as the softmax kernel of `table` computes it.
template <class T>
std::vector<T> powers_of_two(const KernelTable<T>& table, const std::vector<T>& x)
{
    std::vector<T> result(x.size());
    const SoftmaxTile<T> tile(table, table.max_vectors, 64);
    const auto block = static_cast<std::size_t>(64 * tile.width());
    for (std::size_t first = 0; first < x.size(); first += block) {
        const std::size_t count = std::min(block, x.size() - first);
        std::copy_n(x.data() + first, count, tile.s.view().data);
        tile.run();
        std::copy_n(tile.s.view().data, count, result.data() + first);
    }
    return result;
}

/// Arguments over the whole range of normal results: every 97th float; for double as many at random.
template <class T>
std::vector<T> domain()
{
    std::vector<T> x;
    Random random(1);
    constexpr int lowest = std::is_same_v<T, float> ? -126 : -1022;
    if constexpr (std::is_same_v<T, float>) {
        for (float at = 0x1p-30f; at <= 126; at = std::bit_cast<float>(std::bit_cast<std::uint32_t>(at) + 97))
            x.push_back(-at);
    } else {
        for (int i = 0; i < 3'000'000; ++i) x.push_back(lowest * random.uniform());
        for (int i = 0; i < 100'000; ++i) x.push_back(-std::exp2(-60 * random.uniform()));
    }
    // around the points where rounding changes its integer, and at the integers
    for (int n = lowest; n <= 0; ++n)
        for (const T half : {T(0), T(0.5)})
            for (const int step : {-1, 0, 1}) {
                const T point = static_cast<T>(n) - half;
                const T near = step == 0 ? point : std::nextafter(point, point + static_cast<T>(step));
                if (near <= 0 && near >= lowest) x.push_back(near);
            }
    return x;
}

}  // namespace

// Measured where multiply-adds are fused, and on SSE2: 2.02 and 2.23 for float, whose polynomial alone errs by 1.1e-7, 0.9
// to 1.8 units by the place in the binade; 1.03 and 1.30 for double, where the rounding of the last operations is all
// there is.
TEMPLATE_TEST_CASE("exp2: error in units in the last place over the whole domain", "[exp2]", float, double)
{
    const std::vector<TestType> x = domain<TestType>();
    std::vector<long double> want(x.size());
    std::transform(x.begin(), x.end(), want.begin(), [](TestType v) { return std::exp2(static_cast<long double>(v)); });
    for_each_target([&](Target target) {
        const std::vector<TestType> got = powers_of_two(headwise::kernel_table<TestType>(target), x);
        double worst = 0;
        TestType worst_at = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double error = ulps(got[i], want[i]);
            if (error > worst) worst = error, worst_at = x[i];
        }
        INFO(headwise::name(target) << ": largest error at " << worst_at);
        CHECK(worst <= (std::is_same_v<TestType, float> ? 2.5 : 1.3));
        CHECK(worst >= 0.5);  // or nothing was compared
    });
}

TEMPLATE_TEST_CASE("exp2: 0, -inf, NaN and what underflows", "[exp2]", float, double)
{
    for_each_target([](Target target) {
        const TestType smallest = std::is_same_v<TestType, float> ? TestType(-126) : TestType(-1022);
        const std::vector<TestType> x{0,
                                      -Limits<TestType>::infinity(),
                                      Limits<TestType>::quiet_NaN(),
                                      smallest,
                                      smallest - 1,
                                      smallest - 1000,
                                      -Limits<TestType>::max(),
                                      -Limits<TestType>::denorm_min()};
        const std::vector<TestType> p = powers_of_two(headwise::kernel_table<TestType>(target), x);
        INFO(headwise::name(target));
        CHECK(p[0] == 1);
        CHECK(p[1] == 0);
        CHECK_FALSE(std::signbit(p[1]));
        CHECK(std::isnan(p[2]));
        CHECK(p[3] == Limits<TestType>::min());
        CHECK(p[4] == 0);
        CHECK(p[5] == 0);
        CHECK(p[6] == 0);
        CHECK(p[7] == 1);
    });
}

TEMPLATE_TEST_CASE("kernels: softmax of a tile against plain loops", "[kernels][exp2]", float, double)
{
    constexpr TestType infinity = Limits<TestType>::infinity();
    for_each_target([](Target target) {
        const auto& table = headwise::kernel_table<TestType>(target);
        for (int vectors = 1; vectors <= table.max_vectors; ++vectors)
            for (const std::int64_t keys : {std::int64_t{1}, table.key_tile(8, 8) - 1, table.key_tile(8, 8)}) {
                const SoftmaxTile<TestType> tile(table, vectors, keys);
                Random random(2);
                fill(tile.s, [&](const auto&) {
                    return random.chance(0.2) ? -infinity : static_cast<TestType>(8 * random.normal());
                });
                randomize(tile.maximum_before, random, 8);
                tile.maximum_before.view()(1) = -infinity;  // the lane has seen no key
                fill(tile.sum, [&](const auto& i) {
                    return i[0] == 1 ? TestType(0) : static_cast<TestType>(1 + random.uniform());
                });
                const Tensor<TestType, 2> scores(tile.s.shape());
                fill(scores, [&](const auto& i) { return at(tile.s.view(), i); });
                const Tensor<TestType, 1> sum_before(tile.sum.shape());
                fill(sum_before, [&](const auto& i) { return at(tile.sum.view(), i); });
                fill(tile.maximum, [&](const auto& i) {
                    TestType m = tile.maximum_before.view()(i[0]);
                    for (std::int64_t key = 0; key < keys; ++key) m = std::max(m, scores.view()(key, i[0]));
                    return m;
                });
                tile.run();
                INFO(headwise::name(target) << ", " << vectors << " vectors, " << keys << " keys");
                const double limit = 4 * number(Limits<TestType>::epsilon());
                for (std::int64_t lane = 0; lane < tile.width(); ++lane) {
                    const long double m = tile.maximum.view()(lane) == -infinity ? 0 : tile.maximum.view()(lane);
                    const auto power = [&](TestType x) { return std::exp2(static_cast<long double>(x) - m); };
                    const long double correction = power(tile.maximum_before.view()(lane));
                    long double sum = sum_before.view()(lane) * correction;
                    for (std::int64_t key = 0; key < keys; ++key) {
                        const long double p = power(scores.view()(key, lane));
                        const TestType got = tile.s.view()(key, lane);
                        // the difference to the maximum, up to 60, is rounded before the power is taken
                        if (std::abs(static_cast<double>(got - p)) > 15 * limit * static_cast<double>(p))
                            FAIL("weight of key " << key << ", lane " << lane);
                        sum += p;
                    }
                    CHECK(std::abs(static_cast<double>(tile.correction.view()(lane) - correction)) <= 15 * limit);
                    CHECK(std::abs(static_cast<double>(tile.sum.view()(lane) - sum)) <=
                          15 * limit * static_cast<double>(sum));
                }
                CHECK(tile.intact_around());
            }
    });
}

TEMPLATE_TEST_CASE("kernels: softmax of a lane without a key, and of one with a NaN", "[kernels][exp2]", float, double)
{
    constexpr TestType infinity = Limits<TestType>::infinity();
    for_each_target([](Target target) {
        const auto& table = headwise::kernel_table<TestType>(target);
        const SoftmaxTile<TestType> tile(table, 1, 5);
        for (std::int64_t key = 0; key < 5; ++key) tile.s.view()(key, 0) = -infinity;
        tile.maximum_before.view()(0) = tile.maximum.view()(0) = -infinity;
        tile.s.view()(3, 1) = Limits<TestType>::quiet_NaN();
        tile.run();
        INFO(headwise::name(target));
        for (std::int64_t key = 0; key < 5; ++key) CHECK(tile.s.view()(key, 0) == 0);
        CHECK(tile.sum.view()(0) == 0);
        CHECK(tile.correction.view()(0) == 0);
        CHECK(std::isnan(tile.s.view()(3, 1)));
        CHECK(std::isnan(tile.sum.view()(1)));
        CHECK(tile.s.view()(2, 1) == 1);
    });
}

// d_k is 1, every key 1 and the cap 1, so that the scores after the cap are tanh of the queries.
TEMPLATE_TEST_CASE("exp2: tanh keeps its relative precision down to the smallest numbers", "[exp2]", float, double)
{
    constexpr std::int64_t count = 20'000;
    const Tensor<TestType, 4> Q({1, 1, count, 1}), K({1, 1, 1, 1}), Y({1, 1, count, 1}), scores({1, 1, count, 1});
    Random random(3);
    K.view()(0, 0, 0, 0) = 1;
    fill(Q, [&](const auto& i) {
        const double size = i[2] % 2 ? 70 * random.uniform() : std::exp2(-120 * random.uniform());
        return static_cast<TestType>(random.chance(0.5) ? size : -size);
    });
    for_each_target([&](Target target) {
        headwise::attention(Q.view(), K.view(), K.view(), Y.view(),
                            {.scale = 1,
                             .softcap = 1,
                             .scores = scores.view(),
                             .score_stage = headwise::ScoreStage::softcapped});
        double worst = 0;
        for (std::int64_t i = 0; i < count; ++i)
            worst = std::max(worst, ulps(scores.view()(0, 0, i, 0),
                                         std::tanh(static_cast<long double>(Q.view()(0, 0, i, 0)))));
        INFO(headwise::name(target));
        CHECK(worst <= 4);
        CHECK(worst >= 0.5);
    });
}
