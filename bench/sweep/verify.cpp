#include "sweep/verify.hpp"

#include <algorithm>
#include <cmath>

#include <headwise/attention.hpp>
#include <headwise/multi_head_attention.hpp>

#include "sweep/expected.hpp"
#include "sweep/progress.hpp"
#include "sweep/staged_layer.hpp"

namespace headwise::sweep {
namespace {

/// All rows of a result: (heads, n, width).
struct Rows {
    const float* Y;
    std::int64_t heads;  ///< leading dimension: 1 for the layer
    std::int64_t n;
    std::int64_t width;

    const float* row(std::int64_t head, std::int64_t i) const { return Y + (head * n + i) * width; }
};

/// The largest difference of result(head, i, c) from the exact result; NaN where one of them is NaN.
template <class Result>
double largest_error(const Expected& e, std::int64_t heads, std::int64_t width, const Result& result)
{
    double largest = 0;
    const double* exact = e.exact.data();
    for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t i = 0; i < e.rows.count; ++i)
            for (std::int64_t c = 0; c < width; ++c, ++exact) {
                const double error = std::abs(result(head, i, c) - *exact);
                if (std::isnan(error)) return error;
                largest = std::max(largest, error);
            }
    return largest;
}

ErrorCheck check_errors(const std::string& subject, Target target, const Expected& e, const Rows& got)
{
    ErrorCheck check{};
    check.subject = subject;
    check.shape = e.shape;
    check.target = target;
    check.rows = e.rows.count;
    check.error = largest_error(e, got.heads, got.width, [&](auto head, auto i, auto c) {
        return static_cast<double>(got.row(head, e.rows.first + i * e.rows.step)[c]);
    });
    check.plain_error = largest_error(e, got.heads, got.width, [&](auto head, auto i, auto c) {
        return static_cast<double>(e.plain[static_cast<std::size_t>((head * e.rows.count + i) * got.width + c)]);
    });
    // Twice the error of the plain evaluation, and one unit in the last place of the largest result: where the sums are
    // so short that the plain evaluation happens to be exact, another order of them is still right to that.
    double largest = 0;
    for (const double value : e.exact) largest = std::max(largest, std::abs(value));
    check.limit = 2 * check.plain_error + 0x1p-23 * largest;
    check.passed = check.error <= check.limit;
    return check;
}

/// What cost.hpp says of the last `n` query rows of the shape; which rows matters to causal attention only.
Work arithmetic_of(const Expected& e, std::int64_t n)
{
    cost::Sizes sizes = cost::square(e.shape.n, e.shape.d_model, e.shape.h);
    sizes.n = n;
    Work work = cost::work(sizes);
    if (e.call != Call::layer) work.project_q = work.project_k = work.project_v = work.project_o = 0;
    if (e.call == Call::causal_attention) {
        const std::int64_t pairs = cost::causal_pairs(n, e.shape.n, e.shape.n - n);
        work.score = work.blend = pairs * e.shape.d_model;
        work.exponentials = pairs * e.shape.h;
    }
    return work;
}

/// No stage may issue less than its useful work.
bool issued_covers_useful(const WorkReport& report)
{
    const Work &issued = report.issued, &useful = report.useful;
    return issued.project_q >= useful.project_q && issued.project_k >= useful.project_k &&
           issued.project_v >= useful.project_v && issued.score >= useful.score && issued.blend >= useful.blend &&
           issued.exponentials >= useful.exponentials && issued.project_o >= useful.project_o;
}

CountCheck check_counts(const std::string& subject, Target target, const Expected& e, const WorkReport& report)
{
    CountCheck check{};
    check.subject = subject;
    check.shape = e.shape;
    check.target = target;
    check.arithmetic = arithmetic_of(e, e.shape.n);
    check.counted_rows = e.rows.count;
    check.counted = e.counted;
    check.counted_arithmetic = arithmetic_of(e, e.rows.count);
    check.reported = report;
    check.passed =
        check.counted == check.counted_arithmetic && report.useful == check.arithmetic && issued_covers_useful(report);
    return check;
}

ParameterCheck check_parameters(const LayerProblem<float>& problem)
{
    const Shape& shape = problem.shape;
    const LayerWeights<float> weights = problem.weights();
    ParameterCheck check;
    check.d_model = shape.d_model;
    check.h = shape.h;
    check.arithmetic = cost::parameters(cost::square(shape.n, shape.d_model, shape.h));
    check.counted = {weights.W_q.size(), weights.W_k.size(), weights.W_v.size(), weights.W_o.size()};
    check.passed = check.arithmetic.q == check.counted.q && check.arithmetic.k == check.counted.k &&
                   check.arithmetic.v == check.counted.v && check.arithmetic.o == check.counted.o;
    return check;
}

void verify_layer(const Expected& e, const std::vector<Target>& targets, StagedLayer& staged, Verification& all)
{
    const Shape& shape = e.shape;
    const LayerProblem<float> problem = make_layer_problem(shape);
    const MultiHeadAttention layer(problem.layer_shape(), problem.weights());
    std::vector<float> Y(problem.X.size());
    const Rows rows{Y.data(), 1, shape.n, shape.d_model};
    const auto start_with_nan = [&] { std::fill(Y.begin(), Y.end(), std::nanf("")); };

    if (std::none_of(all.parameters.begin(), all.parameters.end(),
                     [&](const ParameterCheck& p) { return p.d_model == shape.d_model && p.h == shape.h; }))
        all.parameters.push_back(check_parameters(problem));
    for (const Target target : targets) {
        set_active_target(target);
        WorkReport report;
        AttentionOptions<float> asked;
        asked.work = &report;
        start_with_nan();
        layer.forward(problem.input(), TensorView<float, 2>(Y.data(), {shape.n, shape.d_model}), asked);
        all.errors.push_back(check_errors("layer", target, e, rows));
        all.counts.push_back(check_counts("layer", target, e, report));

        if (!StagedLayer::affordable(shape)) continue;
        staged.prepare(problem, kernel_table<float>(target));
        start_with_nan();
        staged.run(Y.data());
        all.errors.push_back(check_errors("staged layer", target, e, rows));
    }
}

void verify_operator(const Expected& e, const std::vector<Target>& targets, Verification& all)
{
    const OperatorProblem<float> problem = make_operator_problem(e.shape);
    std::vector<float> Y(problem.Q.size());
    for (const Target target : targets) {
        set_active_target(target);
        WorkReport report;
        AttentionOptions<float> asked;
        asked.work = &report;
        asked.causal = e.call == Call::causal_attention;
        std::fill(Y.begin(), Y.end(), std::nanf(""));
        attention(problem.view(problem.Q), problem.view(problem.K), problem.view(problem.V),
                  TensorView<float, 4>(Y.data(), {1, e.shape.h, e.shape.n, e.shape.d_k()}), asked);
        const Rows rows{Y.data(), e.shape.h, e.shape.n, e.shape.d_k()};
        all.errors.push_back(check_errors(subject(e.call), target, e, rows));
        all.counts.push_back(check_counts(subject(e.call), target, e, report));
    }
}

}  // namespace

Verification verify(const Options& options, double seconds_after)
{
    const std::vector<Expected> expected = compute_expected(options, seconds_after);
    Progress progress("verifying every target", static_cast<double>(expected.size()), 0, seconds_after);
    Verification all;
    StagedLayer staged;
    for (const Expected& e : expected) {
        if (e.call == Call::layer) verify_layer(e, options.targets, staged, all);
        else verify_operator(e, options.targets, all);
        progress.advance(1, text(e.shape));
    }
    return all;
}

}  // namespace headwise::sweep
