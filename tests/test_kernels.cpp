// Each kernel of the table alone against plain double loops, on every target.
#include "catch_compat.hpp"
#include "tensors.hpp"

#include <type_traits>

#include "kernels/kernel_table.hpp"

using namespace tensors;
using headwise::KernelTable;
using headwise::Product;
using headwise::Projection;
using headwise::Target;

namespace {

constexpr std::array<std::int64_t, 7> depths{1, 8, 40, 59, 64, 111, 128};

/// test(table, vectors) on every target, for panels of one and of two vectors.
template <class T, class Test>
void for_each_panel_width(const Test& test)
{
    for_each_target([&](Target target) {
        const KernelTable<T>& table = headwise::kernel_table<T>(target);
        REQUIRE(table.target == target);
        for (int vectors = 1; vectors <= table.max_vectors; ++vectors) {
            INFO(headwise::name(target) << ", " << vectors << " vectors");
            test(table, vectors);
        }
    });
}

/// 1, tile - 1, tile, tile + 1, 2 tile + 3 for register tiles of 6 and of 12 rows.
constexpr std::array<std::int64_t, 9> row_counts{1, 5, 6, 7, 11, 12, 13, 15, 27};

/// A panel as the kernels expect it, with canaries around.
template <class T>
Tensor<T, 2> panel(std::int64_t rows, std::int64_t width)
{
    return Tensor<T, 2>({rows, width}, Layout::dense, End::canaries);
}

template <class T>
Tensor<T, 2> random_panel(std::int64_t rows, std::int64_t width, Random& random)
{
    const Tensor<T, 2> tensor = panel<T>(rows, width);
    randomize(tensor, random);
    return tensor;
}

using Wide = long double;

/// The product of A(m, k) and the panel b, computed in Number.
template <class Number, class T, class A>
Number product(const A& a, const Tensor<T, 2>& b, std::int64_t m, std::int64_t lane, Number start)
{
    for (std::int64_t k = 0; k < b.shape()[0]; ++k)
        start += static_cast<Number>(a(m, k)) * static_cast<Number>(b.view()(k, lane));
    return start;
}

/// c against start(m, lane) + A b: at most twice the largest error of plain loops in T, plus one rounding.
template <class T, class A, class Start>
void check_product(const Tensor<T, 2>& c, const A& a, const Tensor<T, 2>& b, const Start& start)
{
    double error = 0, plain_error = 0, largest = 0;
    for_each_index(c.shape(), [&](const auto& i) {
        const Wide want = product<Wide>(a, b, i[0], i[1], static_cast<Wide>(start(i[0], i[1])));
        const T plain = product<T>(a, b, i[0], i[1], static_cast<T>(start(i[0], i[1])));
        const auto distance = [&](T x) { return static_cast<double>(std::abs(static_cast<Wide>(x) - want)); };
        error = std::max(error, distance(c.view()(i[0], i[1])));
        plain_error = std::max(plain_error, distance(plain));
        largest = std::max(largest, static_cast<double>(std::abs(want)));
    });
    CHECK(error <= 2 * plain_error + largest * number(std::numeric_limits<T>::epsilon()));
    CHECK(c.intact_around());
}

}  // namespace

TEMPLATE_TEST_CASE("kernels: rows become the columns of a panel and come back", "[kernels]", float, double)
{
    for_each_panel_width<TestType>([](const KernelTable<TestType>& table, int vectors) {
        const std::int64_t width = vectors * table.lanes;
        for (const std::int64_t tokens : {std::int64_t{1}, width - 1, width})
            for (const std::int64_t depth : depths)
                for (const Layout layout : layouts) {
                    Random random(1);
                    const auto rows = random_tensor<TestType, 2>({tokens, depth}, random, 1, layout);
                    const auto view = rows.view();
                    const Tensor<TestType, 2> to = panel<TestType>(depth, width);
                    table.rows_to_panel(
                        {to.view().data, view.data, view.strides[0], view.strides[1], tokens, depth, vectors});
                    const Tensor<TestType, 2> expected = panel<TestType>(depth, width);
                    fill(expected, [&](const auto& i) { return i[1] < tokens ? view(i[1], i[0]) : TestType(0); });
                    INFO(tokens << " tokens, depth " << depth << ", layout " << static_cast<int>(layout));
                    CHECK(same_bits(to.view(), expected.view()));
                    CHECK(to.intact_around());
                    CHECK(rows.intact_around());

                    const Tensor<TestType, 2> back({tokens, depth}, layout, End::canaries);
                    const auto out = back.view();
                    table.panel_to_rows(
                        {to.view().data, out.data, out.strides[0], out.strides[1], tokens, depth, vectors});
                    CHECK(same_bits(out, view));
                    CHECK(back.intact_around());
                }
    });
}

TEMPLATE_TEST_CASE("kernels: projection", "[kernels]", float, double)
{
    for_each_panel_width<TestType>([](const KernelTable<TestType>& table, int vectors) {
        const std::int64_t width = vectors * table.lanes;
        // The last two: strips side by side, and some that are left.
        for (const std::int64_t rows : {1, 5, 6, 7, 11, 12, 13, 15, 27, 60, 135})
            for (const std::int64_t depth : depths)
                for (const bool biased : {false, true}) {
                    Random random(2);
                    const std::int64_t strips = (rows + headwise::strip_rows - 1) / headwise::strip_rows;
                    const Tensor<TestType, 3> packed({strips, depth, headwise::strip_rows});
                    fill(packed, [&](const auto& i) {
                        const bool filling = i[0] * headwise::strip_rows + i[2] >= rows;
                        return filling ? TestType(0) : static_cast<TestType>(random.normal());
                    });
                    const auto bias = random_tensor<TestType, 1>({rows}, random);
                    const auto b = random_panel<TestType>(depth, width, random);
                    const auto project = [&](const auto& c, std::int64_t tokens, bool far) {
                        table.project({packed.view().data, biased ? bias.view().data : nullptr, b.view().data,
                                       c.view().data, rows, depth, vectors, far, tokens});
                    };
                    const auto c = panel<TestType>(rows, width);
                    project(c, width, false);
                    INFO(rows << " rows, depth " << depth);
                    check_product(
                        c,
                        [&](std::int64_t m, std::int64_t k) {
                            return packed.view()(m / headwise::strip_rows, k, m % headwise::strip_rows);
                        },
                        b, [&](std::int64_t m, std::int64_t) { return biased ? bias.view()(m) : TestType(0); });

                    // Neither what is fetched meanwhile nor the number of tokens changes a bit.
                    for (std::int64_t tokens = width - table.lanes + 1; tokens <= width; ++tokens)
                        for (const bool far : {false, true}) {
                            INFO(tokens << " tokens, far " << far);
                            const auto again = panel<TestType>(rows, width);
                            project(again, tokens, far);
                            const auto expected = panel<TestType>(rows, width);
                            fill(expected, [&](const auto& i) {
                                const bool idle = table.projects_few(tokens) && i[1] >= tokens;
                                return idle ? TestType(0) : c.view()(i[0], i[1]);
                            });
                            CHECK(same_bits(again.view(), expected.view()));
                            CHECK(again.intact_around());
                        }
                }
    });
}

TEMPLATE_TEST_CASE("kernels: scoring", "[kernels]", float, double)
{
    for_each_panel_width<TestType>([](const KernelTable<TestType>& table, int vectors) {
        const std::int64_t width = vectors * table.lanes;
        for (const std::int64_t rows : row_counts)
            for (const std::int64_t depth : depths)
                for (const Layout layout : {Layout::dense, Layout::padded, Layout::backwards, Layout::misaligned}) {
                    Random random(3);
                    const auto keys = random_tensor<TestType, 2>({rows, depth}, random, 1, layout);
                    const auto k = keys.view();
                    const auto b = random_panel<TestType>(depth, width, random);
                    const auto c = panel<TestType>(rows, width);
                    const auto maximum = panel<TestType>(1, width);
                    const auto before = [](std::int64_t lane) {
                        return lane % 3 == 0 ? TestType(1000) : -std::numeric_limits<TestType>::infinity();
                    };
                    fill(maximum, [&](const auto& i) { return before(i[1]); });
                    const Product<TestType> operands{
                        k.data, k.strides[0], k.strides[1], b.view().data, c.view().data, rows, depth, vectors};
                    table.score(operands, maximum.view().data);
                    INFO(rows << " keys, depth " << depth << ", layout " << static_cast<int>(layout));
                    check_product(c, k, b, [](auto, auto) { return TestType(0); });
                    for (std::int64_t lane = 0; lane < width; ++lane) {
                        TestType largest = before(lane);
                        for (std::int64_t m = 0; m < rows; ++m) largest = std::max(largest, c.view()(m, lane));
                        if (maximum.view()(0, lane) != largest) FAIL("row maximum of lane " << lane);
                    }
                    CHECK(maximum.intact_around());
                }
    });
}

TEMPLATE_TEST_CASE("kernels: blend", "[kernels]", float, double)
{
    for_each_panel_width<TestType>([](const KernelTable<TestType>& table, int vectors) {
        const std::int64_t width = vectors * table.lanes;
        for (const std::int64_t rows : row_counts)
            for (const std::int64_t keys : depths)
                for (const Layout layout : {Layout::dense, Layout::padded, Layout::backwards, Layout::misaligned})
                    for (const bool corrects : {false, true}) {
                        Random random(4);
                        const auto values = random_tensor<TestType, 2>({keys, rows}, random, 1, layout);
                        const auto v = values.view();
                        const auto b = random_panel<TestType>(keys, width, random);
                        const auto correction = random_panel<TestType>(1, width, random);
                        const auto c = panel<TestType>(rows, width), before = panel<TestType>(rows, width);
                        if (corrects) randomize(before, random);
                        else fill(before, [](const auto&) { return std::numeric_limits<TestType>::quiet_NaN(); });
                        fill(c, [&](const auto& i) { return at(before.view(), i); });
                        table.blend({v.data, v.strides[1], v.strides[0], b.view().data, c.view().data, rows, keys,
                                     vectors},
                                    corrects ? correction.view().data : nullptr);
                        INFO(rows << " rows, " << keys << " keys, layout " << static_cast<int>(layout));
                        check_product(
                            c, [&](std::int64_t m, std::int64_t key) { return v(key, m); }, b,
                            [&](std::int64_t m, std::int64_t lane) {
                                const Wide was = static_cast<Wide>(before.view()(m, lane));
                                return corrects ? static_cast<Wide>(correction.view()(0, lane)) * was : Wide(0);
                            });
                    }
    });
}

TEMPLATE_TEST_CASE("kernels: NaN and infinity stay in their row and lane", "[kernels]", float, double)
{
    using Limits = std::numeric_limits<TestType>;
    for_each_panel_width<TestType>([](const KernelTable<TestType>& table, int vectors) {
        const std::int64_t width = vectors * table.lanes;
        constexpr std::int64_t rows = 15, depth = 9;
        Random random(5);
        const auto keys = random_tensor<TestType, 2>({rows, depth}, random);
        const auto b = random_panel<TestType>(depth, width, random);
        keys.view()(7, 3) = Limits::quiet_NaN();
        keys.view()(10, 2) = Limits::infinity();
        b.view()(4, width - 1) = Limits::quiet_NaN();
        const auto c = panel<TestType>(rows, width), maximum = panel<TestType>(1, width);
        fill(maximum, [](const auto&) { return -Limits::infinity(); });
        table.score({keys.view().data, depth, 1, b.view().data, c.view().data, rows, depth, vectors},
                    maximum.view().data);
        for_each_index(c.shape(), [&](const auto& i) {
            const TestType x = at(c.view(), i);
            const bool expects_nan = i[0] == 7 || i[1] == width - 1;
            if (std::isnan(x) != expects_nan) FAIL("NaN at " << i[0] << ", " << i[1]);
            if (!expects_nan && std::isinf(x) != (i[0] == 10)) FAIL("infinity at " << i[0] << ", " << i[1]);
        });
    });
}
