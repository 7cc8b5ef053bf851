#include "sweep/expected.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <headwise/cost.hpp>
#include <headwise/counted.hpp>
#include <headwise/reference.hpp>

#include "sweep/progress.hpp"

namespace headwise::sweep {
namespace {

/// Multiply-adds the reference may take for one result, a few seconds, and the fewest rows it is run on.
constexpr double affordable_multiply_adds = 4e9;
constexpr double affordable_multiply_adds_of_extra = 1e9;
constexpr std::int64_t fewest_rows = 16;

/// Counting on double takes about four times as long as plain float.
constexpr double counting_cost = 4;

RowSample affordable_rows(const Shape& shape, Call call, double affordable)
{
    const bool layer = call == Call::layer;
    const auto n = static_cast<double>(shape.n), d_model = static_cast<double>(shape.d_model);
    const double fixed = layer ? 2 * n * d_model * d_model : 0;  // K and V
    const double each_row = 2 * n * d_model + (layer ? 2 * d_model * d_model : 0);
    const double rows = std::max(0.0, (affordable - fixed) / each_row);
    const std::int64_t count = std::clamp(static_cast<std::int64_t>(rows), std::min(fewest_rows, shape.n), shape.n);
    // Causal rows are neighbours, so that one query offset tells all of them where they are.
    if (call == Call::causal_attention) return {shape.n - count, 1, count};
    return sample_rows(shape.n, count);
}

double multiply_adds(const Expected& e)
{
    const cost::Sizes square = cost::square(e.shape.n, e.shape.d_model, e.shape.h);
    cost::Sizes sizes = square;
    sizes.n = e.rows.count;
    Work work = cost::work(sizes);
    if (e.call != Call::layer) work.project_q = work.project_k = work.project_v = work.project_o = 0;
    return cost::flops(work) / 2;
}

template <class T, class Number>
std::vector<T> run_layer(const LayerProblem<T>& problem, const RowSample& rows)
{
    std::vector<T> Y(static_cast<std::size_t>(rows.count * problem.shape.d_model));
    reference::multi_head_attention<T, Number>(problem.layer_shape(), problem.weights(), problem.input(rows),
                                               problem.input(),
                                               TensorView<T, 2>(Y.data(), {rows.count, problem.shape.d_model}));
    return Y;
}

template <class T, class Number>
std::vector<T> run_operator(const OperatorProblem<T>& problem, const RowSample& rows, Call call)
{
    const Shape& shape = problem.shape;
    std::vector<T> Y(static_cast<std::size_t>(rows.count * shape.d_model));
    AttentionOptions<T> options;
    options.causal = call == Call::causal_attention;
    options.query_offset = options.causal ? rows.first : 0;
    reference::attention<T, Number>(problem.queries(rows), problem.view(problem.K), problem.view(problem.V),
                                    TensorView<T, 4>(Y.data(), {1, shape.h, rows.count, shape.d_k()}), options);
    return Y;
}

void compute_exact(Expected& e)
{
    using Number = reference::Counted<double>;
    e.counted = reference::count_work([&] {
        if (e.call == Call::layer) e.exact = run_layer<double, Number>(widened(make_layer_problem(e.shape)), e.rows);
        else e.exact = run_operator<double, Number>(widened(make_operator_problem(e.shape)), e.rows, e.call);
    });
}

void compute_plain(Expected& e)
{
    if (e.call == Call::layer) e.plain = run_layer<float, float>(make_layer_problem(e.shape), e.rows);
    else e.plain = run_operator<float, float>(make_operator_problem(e.shape), e.rows, e.call);
}

struct Job {
    std::function<void()> run;
    double cost;
    std::string what;
};

/// Runs the jobs on all processors, costly ones first, each on one thread from start to end.
void run_jobs(std::vector<Job> jobs, double seconds_after)
{
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.cost > b.cost; });
    const double total =
        std::accumulate(jobs.begin(), jobs.end(), 0.0, [](double s, const Job& j) { return s + j.cost; });
    const int workers = tbb::this_task_arena::max_concurrency();
    Progress progress("computing the reference", total, total / 3e9 / workers, seconds_after);
    std::atomic<std::size_t> next = 0;
    tbb::parallel_for(0, workers, [&](int) {
        for (std::size_t i = next++; i < jobs.size(); i = next++) {
            jobs[i].run();
            progress.advance(jobs[i].cost, jobs[i].what);
        }
    });
}

}  // namespace

std::string subject(Call call)
{
    switch (call) {
        case Call::layer: return "layer";
        case Call::attention: return "operator";
        case Call::causal_attention: return "causal operator";
    }
    return {};
}

std::vector<Expected> compute_expected(const Options& options, double seconds_after)
{
    std::vector<Expected> all;
    const auto add = [&](const Shape& shape, Call call, double affordable = affordable_multiply_adds) {
        all.push_back({shape, call, affordable_rows(shape, call, affordable), {}, {}, {}});
    };
    for (const Shape& shape : options.shapes) add(shape, Call::layer);
    for (const Shape& shape : options.extra_shapes) add(shape, Call::layer, affordable_multiply_adds_of_extra);
    for (const Shape& shape : options.operator_shapes) add(shape, Call::attention);
    for (const Shape& shape : options.shapes)
        if (at_headline(options, shape)) add(shape, Call::causal_attention);
    std::vector<Job> jobs;
    for (Expected& e : all) {
        const double cost = multiply_adds(e);
        const std::string what = subject(e.call) + ", " + text(e.shape);
        jobs.push_back({[&e] { compute_exact(e); }, counting_cost * cost, what});
        jobs.push_back({[&e] { compute_plain(e); }, cost, what});
    }
    run_jobs(std::move(jobs), seconds_after);
    return all;
}

void run_naive_layer(const LayerProblem<float>& problem, float* Y)
{
    reference::multi_head_attention<float, float>(problem.layer_shape(), problem.weights(), problem.input(),
                                                  TensorView<float, 2>(Y, {problem.shape.n, problem.shape.d_model}));
}

void run_naive_operator(const OperatorProblem<float>& problem, float* Y)
{
    const Shape& shape = problem.shape;
    reference::attention<float, float>(problem.view(problem.Q), problem.view(problem.K), problem.view(problem.V),
                                       TensorView<float, 4>(Y, {1, shape.h, shape.n, shape.d_k()}));
}

}  // namespace headwise::sweep
