#include "sweep/cases.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <oneapi/tbb/parallel_for.h>
#include <headwise/attention.hpp>
#include <headwise/cost.hpp>

#include "sweep/expected.hpp"
#include "sweep/fma_peak.hpp"
#include "sweep/roofs.hpp"

namespace headwise::sweep {
namespace {

constexpr std::int64_t most_kept_bytes = std::int64_t{1} << 30;
/// Multiply-adds of the largest shape that the naive loops are measured on, 0.1 to 0.3 s.
constexpr double most_naive_multiply_adds = 3e8;
constexpr int naive_repetitions = 3;
/// The peak is what all else is divided by: it is measured more often.
constexpr int peak_repetitions_factor = 3;

std::string shape_name(const Shape& shape)
{
    return "/n:" + std::to_string(shape.n) + "/d_model:" + std::to_string(shape.d_model) +
           "/h:" + std::to_string(shape.h);
}

std::string where_name(Target target, int threads)
{
    return "/target:" + std::string(name(target)) + "/threads:" + std::to_string(threads);
}

Work layer_work(const Shape& shape)
{
    return cost::work(cost::square(shape.n, shape.d_model, shape.h));
}

Work operator_work(const Shape& shape)
{
    Work work = layer_work(shape);
    work.project_q = work.project_k = work.project_v = work.project_o = 0;
    return work;
}

Work causal_operator_work(const Shape& shape)
{
    const std::int64_t pairs = cost::causal_pairs(shape.n, shape.n, 0);
    Work work;
    work.score = work.blend = pairs * shape.d_model;
    work.exponentials = pairs * shape.h;
    return work;
}

Row make_row(const std::string& kind, const Shape& shape, const Work& work)
{
    Row row;
    row.kind = kind;
    row.shape = shape;
    row.flops = cost::flops(work);
    row.exponentials = static_cast<double>(work.exponentials);
    row.name = kind + shape_name(shape);
    return row;
}

Row on(Row row, Target target, int threads)
{
    row.target = target;
    row.threads = threads;
    row.name += where_name(target, threads);
    return row;
}

/// The numbers of threads that `target` is measured with: the smallest, and all for the best target or a chosen one.
std::vector<int> threads_of(const Options& options, Target target)
{
    if (options.targets_chosen || target == options.targets.back()) return options.threads;
    return {options.threads.front()};
}

Case layer_case(const Options& options, Problems& problems, const Shape& shape, Target target, int threads)
{
    Case c{.row = on(make_row("layer", shape, layer_work(shape)), target, threads), .repetitions = options.repetitions};
    c.prepare = [&problems, shape, target] {
        set_active_target(target);
        return [p = problems.layer(shape), shape] {
            p->layer.forward(p->problem.input(), TensorView<float, 2>(p->Y.data(), {shape.n, shape.d_model}));
        };
    };
    return c;
}

Case operator_case(const Options& options, Problems& problems, const Shape& shape, Target target, int threads,
                   bool causal = false)
{
    const Row row = causal ? make_row("causal_operator", shape, causal_operator_work(shape))
                           : make_row("operator", shape, operator_work(shape));
    Case c{.row = on(row, target, threads), .repetitions = options.repetitions};
    c.prepare = [&problems, shape, target, causal] {
        set_active_target(target);
        return [p = problems.operator_input(shape), shape, causal] {
            attention(p->problem.view(p->problem.Q), p->problem.view(p->problem.K), p->problem.view(p->problem.V),
                      TensorView<float, 4>(p->Y.data(), {1, shape.h, shape.n, shape.d_k()}), {.causal = causal});
        };
    };
    return c;
}

Case peak_case(const Options& options, Target target, int threads)
{
    constexpr std::int64_t steps = 20000;
    const int shares = threads == 1 ? 1 : 16 * threads;  // many small ones: a thread that starts late takes fewer
    Row row;
    row.kind = "fma_peak";
    row.name = row.kind;
    row.flops = shares * fma_loop_flops(target, steps);
    Case c{.row = on(row, target, threads), .repetitions = peak_repetitions_factor * options.repetitions};
    c.prepare = [target, shares] {
        return [target, shares] {
            tbb::parallel_for(0, shares, [target](int) { run_fma_loop(target, steps); }, tbb::simple_partitioner());
        };
    };
    return c;
}

Case exp_peak_case(const Options& options, Target target)
{
    const auto tile = std::make_shared<SoftmaxTile>(kernel_table<float>(target));
    Row row;
    row.kind = row.name = "exp_peak";
    row.exponentials = tile->exponentials();
    Case c{.row = on(row, target, 1), .repetitions = peak_repetitions_factor * options.repetitions};
    c.prepare = [tile] { return [tile] { tile->run(); }; };
    return c;
}

Case memory_read_case(const Options& options)
{
    const auto stream = std::make_shared<ReadStream>(options.targets.back());
    Row row;
    row.kind = row.name = "memory_read";
    row.bytes = stream->bytes();
    Case c{.row = row, .repetitions = options.repetitions};
    c.prepare = [stream] { return [stream] { stream->run(); }; };
    return c;
}

/// The naive loops on one shape for each (d_model, h): the largest that is affordable, else the smallest.
template <class WorkOf>
std::vector<Shape> naive_shapes(const std::vector<Shape>& shapes, const WorkOf& work_of)
{
    std::map<std::pair<std::int64_t, std::int64_t>, Shape> chosen;
    for (const Shape& shape : shapes) {  // in ascending order of n
        const auto [at, is_first] = chosen.try_emplace({shape.d_model, shape.h}, shape);
        if (!is_first && cost::flops(work_of(shape)) / 2 <= most_naive_multiply_adds) at->second = shape;
    }
    std::vector<Shape> result;
    for (const auto& [key, shape] : chosen) result.push_back(shape);
    return result;
}

void add_naive_cases(const Options& options, Problems& problems, std::vector<Case>& cases)
{
    for (const Shape& shape : naive_shapes(options.shapes, layer_work)) {
        Case c{.row = make_row("naive_layer", shape, layer_work(shape)), .repetitions = naive_repetitions};
        c.prepare = [&problems, shape] {
            return [p = problems.layer(shape)] { run_naive_layer(p->problem, p->Y.data()); };
        };
        cases.push_back(std::move(c));
    }
    for (const Shape& shape : naive_shapes(options.operator_shapes, operator_work)) {
        Case c{.row = make_row("naive_operator", shape, operator_work(shape)), .repetitions = naive_repetitions};
        c.prepare = [&problems, shape] {
            return [p = problems.operator_input(shape)] { run_naive_operator(p->problem, p->Y.data()); };
        };
        cases.push_back(std::move(c));
    }
}

StagedCase staged_case(const Shape& shape, Target target)
{
    StagedCase staged;
    staged.shape = shape;
    staged.target = target;
    for (int s = 0; s < stage_count; ++s) {
        const auto stage = static_cast<Stage>(s);
        Row row = make_row("stage", shape, stage_work(layer_work(shape), stage));
        row.stage = name(stage);
        row.name = "stage:" + row.stage + shape_name(shape);
        staged.rows[static_cast<std::size_t>(s)] = on(row, target, 1);
    }
    staged.rows.back() = on(make_row("staged_layer", shape, layer_work(shape)), target, 1);
    return staged;
}

}  // namespace

Problems::Layer::Layer(const Shape& shape)
    : problem(make_layer_problem(shape)), layer(problem.layer_shape(), problem.weights()), Y(problem.X.size())
{
}

Problems::Operator::Operator(const Shape& shape) : problem(make_operator_problem(shape)), Y(problem.Q.size()) {}

template <class Problem>
std::shared_ptr<Problem> Problems::find_or_make(std::list<std::shared_ptr<Problem>>& kept, const Shape& shape,
                                                std::int64_t bytes)
{
    for (const auto& problem : kept)
        if (problem->problem.shape == shape) return problem;
    if (bytes_ + bytes > most_kept_bytes) {
        layers_.clear();
        operators_.clear();
        bytes_ = 0;
    }
    bytes_ += bytes;
    kept.push_back(std::make_shared<Problem>(shape));
    return kept.back();
}

std::shared_ptr<Problems::Layer> Problems::layer(const Shape& shape)
{
    const std::int64_t numbers = 2 * shape.n * shape.d_model + 8 * shape.d_model * shape.d_model;
    return find_or_make(layers_, shape, numbers * static_cast<std::int64_t>(sizeof(float)));
}

std::shared_ptr<Problems::Operator> Problems::operator_input(const Shape& shape)
{
    return find_or_make(operators_, shape, 4 * shape.n * shape.d_model * static_cast<std::int64_t>(sizeof(float)));
}

std::vector<Case> make_cases(const Options& options, Problems& problems)
{
    std::vector<Case> cases;
    for (const Target target : options.targets)
        for (const int threads : threads_of(options, target)) {
            cases.push_back(peak_case(options, target, threads));
            for (const Shape& shape : options.shapes)
                cases.push_back(layer_case(options, problems, shape, target, threads));
            for (const Shape& shape : options.operator_shapes)
                cases.push_back(operator_case(options, problems, shape, target, threads));
        }
    const Target best = options.targets.back();
    for (const Target target : options.targets) {
        // The staged layer and the shapes beside the grid run on one thread, and so need its peak.
        if (options.threads.front() != 1) cases.push_back(peak_case(options, target, 1));
        cases.push_back(exp_peak_case(options, target));
        for (const Shape& shape : options.extra_shapes)
            if (target == best || at_headline(options, shape))
                cases.push_back(layer_case(options, problems, shape, target, 1));
    }
    for (const Shape& shape : options.shapes)
        if (at_headline(options, shape))
            cases.push_back(operator_case(options, problems, shape, best, options.threads.front(), true));
    cases.push_back(memory_read_case(options));
    add_naive_cases(options, problems, cases);
    return cases;
}

std::vector<StagedCase> make_staged_cases(const Options& options, std::vector<std::string>& left_out)
{
    std::vector<Shape> shapes = options.shapes;
    shapes.insert(shapes.end(), options.extra_shapes.begin(), options.extra_shapes.end());
    std::vector<StagedCase> cases;
    for (const Shape& shape : shapes) {
        if (!StagedLayer::affordable(shape)) {
            left_out.push_back("stages at " + text(shape) + ": the scores of all heads would take more than 2 GiB");
            continue;
        }
        for (const Target target : options.targets)
            if (at_headline(options, shape) || options.targets_chosen || target == options.targets.back())
                cases.push_back(staged_case(shape, target));
    }
    return cases;
}

}  // namespace headwise::sweep
