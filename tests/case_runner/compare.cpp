#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace headwise::cases {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// How far `got` lies outside of the tolerance; 0 or below: they agree.
double excess(double got, double want, Tolerance tolerance)
{
    if (std::isnan(got) || std::isnan(want)) return infinity;
    if (std::isinf(got) || std::isinf(want)) return got == want ? 0 : infinity;
    return std::abs(got - want) - (tolerance.atol + tolerance.rtol * std::abs(want));
}

/// "[0, 1, 2]" for the element that is `index` in row-major order.
std::string position(std::int64_t index, const std::vector<std::int64_t>& shape)
{
    std::vector<std::int64_t> place(shape.size());
    for (std::size_t r = shape.size(); r-- > 0;) {
        place[r] = index % shape[r];
        index /= shape[r];
    }
    return describe(place);
}

}  // namespace

Comparison compare_output(const std::string& name, const Tensor& got, const Tensor& want, Tolerance tolerance)
{
    Comparison result;
    if (got.shape() != want.shape()) {
        result.failure = "out." + name + ": got shape " + describe(got.shape()) + ", want " + describe(want.shape());
        return result;
    }
    double worst_excess = 0;
    std::int64_t worst = 0;
    std::int64_t off = 0;
    for (std::int64_t i = 0; i < want.size(); ++i) {
        const double g = got.number(i);
        const double w = want.number(i);
        if (std::isfinite(g) && std::isfinite(w)) result.max_error = std::max(result.max_error, std::abs(g - w));
        const double beyond = excess(g, w, tolerance);
        if (beyond <= 0) continue;
        ++off;
        if (beyond > worst_excess) {
            worst_excess = beyond;
            worst = i;
        }
    }
    if (off > 0) {
        std::ostringstream text;
        text.precision(9);
        text << "out." << name << position(worst, want.shape()) << ": got " << got.number(worst) << ", want "
             << want.number(worst);
        if (std::isnan(want.number(worst))) text << " (NaN agrees with nothing)";
        text << "; " << off << " of " << want.size() << " differ by more than " << tolerance.atol << " + "
             << tolerance.rtol << " * |want|";
        result.failure = text.str();
    }
    return result;
}

Tolerance tolerance_of(const Case& expected, const Tensor& want)
{
    Tolerance tolerance = expected.tolerance();
    if (expected.op() == "onnx" && want.type() == DType::bf16) tolerance.rtol = std::max(tolerance.rtol, 0x1p-6);
    return tolerance;
}

Comparison compare_outputs(const Outputs& got, const Case& expected)
{
    Comparison all;
    const std::vector<std::string> names = expected.expected_forward();
    if (names.empty()) throw BadCase("no out.* to compare");
    for (const std::string& name : names) {
        const auto found = got.find(name);
        if (found == got.end()) throw BadCase("out." + name + " was not computed");
        const Comparison one = compare_output(name, found->second, *expected.expected(name),
                                              tolerance_of(expected, *expected.expected(name)));
        all.max_error = std::max(all.max_error, one.max_error);
        all.failure = one.failure;
        if (!one.failure.empty()) break;
    }
    return all;
}

}  // namespace headwise::cases
