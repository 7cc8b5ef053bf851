#include "sweep/memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <oneapi/tbb/task_arena.h>
#include <headwise/cost.hpp>
#include <headwise/multi_head_attention.hpp>
#include <headwise/scratch.hpp>

#include "sweep/problem.hpp"

namespace headwise::sweep {
namespace {

constexpr std::int64_t most_weights_bytes = std::int64_t{1} << 29;

/// Scratch memory that this thread holds after one forward that began with none.
std::int64_t scratch_of(const MultiHeadAttention& layer, const LayerProblem<float>& problem,
                        const AttentionOptions<float>& options)
{
    std::vector<float> Y(problem.X.size());
    release_thread_scratch();
    layer.forward(problem.input(), TensorView<float, 2>(Y.data(), {problem.shape.n, problem.shape.d_model}), options);
    const std::size_t bytes = thread_scratch_bytes();
    release_thread_scratch();
    return static_cast<std::int64_t>(bytes);
}

MemoryCheck check_shape(const Shape& shape)
{
    MemoryCheck check;
    check.shape = shape;
    check.arithmetic = cost::weights_elements(cost::square(shape.n, shape.d_model, shape.h));
    const LayerProblem<float> problem = make_layer_problem(shape);
    const MultiHeadAttention layer(problem.layer_shape(), problem.weights());
    check.fused_bytes = scratch_of(layer, problem, {});

    // What is still NaN afterwards was not written.
    std::vector<float> weights(static_cast<std::size_t>(check.arithmetic), std::numeric_limits<float>::quiet_NaN());
    AttentionOptions<float> asked;
    asked.weights = {weights.data(), {1, shape.h, shape.n, shape.n}};
    check.weighing_bytes = scratch_of(layer, problem, asked);
    check.counted = std::count_if(weights.begin(), weights.end(), [](float weight) { return !std::isnan(weight); });
    check.passed = check.counted == check.arithmetic;
    return check;
}

}  // namespace

std::vector<MemoryCheck> check_memory(const Options& options)
{
    std::vector<Shape> shapes = options.shapes;
    shapes.insert(shapes.end(), options.extra_shapes.begin(), options.extra_shapes.end());
    set_active_target(options.targets.back());
    std::vector<MemoryCheck> checks;
    tbb::task_arena one_thread(1);
    one_thread.execute([&] {
        for (const Shape& shape : shapes)
            if (at_headline(options, shape) &&
                shape.h * shape.n * shape.n * static_cast<std::int64_t>(sizeof(float)) <= most_weights_bytes)
                checks.push_back(check_shape(shape));
    });
    return checks;
}

}  // namespace headwise::sweep
