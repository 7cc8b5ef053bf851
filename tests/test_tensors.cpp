// The helpers of the other tests see what they are there to see.
#include "catch_compat.hpp"
#include "tolerance.hpp"

using namespace tensors;

TEST_CASE("tensors: every layout holds every element, and shows a write beside one", "[tensors]")
{
    for (const Layout layout : layouts)
        for (const End end : {End::guard, End::canaries}) {
            const Tensor<float, 4> tensor({2, 3, 4, 5}, layout, end);
            CHECK(tensor.untouched());
            float count = 0;
            fill(tensor, [&](const auto&) { return ++count; });
            CHECK(count == 120);
            CHECK(max_magnitude(tensor.view()) == 120);
            double sum = 0;
            for_each_index(tensor.shape(), [&](const auto& i) { sum += number(at(tensor.view(), i)); });
            CHECK(sum == 120 * 121 / 2);  // no two indices share an element
            CHECK(tensor.intact_around());
            CHECK_FALSE(tensor.untouched());

            float* lowest = tensor.view().data;
            for_each_index(tensor.shape(), [&](const auto& i) { lowest = std::min(lowest, &at(tensor.view(), i)); });
            lowest[-1] = 0;
            CHECK_FALSE(tensor.intact_around());
        }
}

TEST_CASE("tensors: an input ends where memory ends", "[tensors]")
{
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const Tensor<float, 2> tensor({7, 13});
    CHECK(reinterpret_cast<std::uintptr_t>(&tensor.view()(6, 12) + 1) % page == 0);
    const Tensor<float, 2> output({7, 13}, Layout::dense, End::canaries);
    CHECK(reinterpret_cast<std::uintptr_t>(output.view().data) % 64 == 0);
    const Tensor<float, 2> misaligned({7, 13}, Layout::misaligned, End::canaries);
    CHECK(reinterpret_cast<std::uintptr_t>(misaligned.view().data) % 64 == sizeof(float));
}

TEST_CASE("tensors: errors, NaN and infinities are told apart", "[tensors]")
{
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
    const auto error = [](float a, float b) {
        const Tensor<float, 1> x({1}), y({1});
        x.view()(0) = a;
        y.view()(0) = b;
        return max_error(x.view(), y.view());
    };
    CHECK(error(1, 3) == 2);
    CHECK(error(infinity, infinity) == 0);
    CHECK(error(not_a_number, not_a_number) == 0);
    for (const float other : {1.0f, infinity, not_a_number}) {
        CHECK(error(-infinity, other) == infinity);
        CHECK(error(other, -infinity) == infinity);
    }
    CHECK(error(not_a_number, 1) == infinity);
    CHECK(error(1, not_a_number) == infinity);
}

TEST_CASE("tensors: a tolerance is twice the plain error and one rounding", "[tensors]")
{
    CHECK(Errors{2.0, 1.0}.earned(0));
    CHECK_FALSE(Errors{2.01, 1.0}.earned(0));
    CHECK(Errors{2.01, 1.0}.earned(0.02));
    CHECK_FALSE(Errors{std::numeric_limits<double>::infinity(), 1.0}.earned(1));
    Comparison c;
    const Tensor<float, 1> got({1}), want({1});
    got.view()(0) = 1 + 0x1p-20f;
    want.view()(0) = 1;
    c.add("x", got, want, want, 1);
    CHECK(c.failures.starts_with("x: error 9.5"));
}
