// The calls that are measured, made ready to be called.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include <headwise/multi_head_attention.hpp>

#include "sweep/measure.hpp"
#include "sweep/problem.hpp"
#include "sweep/staged_layer.hpp"

namespace headwise::sweep {

/// Layers and operator inputs ready to run. Keeps the last ones, up to a gigabyte, since repetitions come back to them.
class Problems {
public:
    struct Layer {
        explicit Layer(const Shape& shape);
        LayerProblem<float> problem;
        MultiHeadAttention layer;
        std::vector<float> Y;
    };
    struct Operator {
        explicit Operator(const Shape& shape);
        OperatorProblem<float> problem;
        std::vector<float> Y;
    };

    std::shared_ptr<Layer> layer(const Shape& shape);
    std::shared_ptr<Operator> operator_input(const Shape& shape);

private:
    template <class Problem>
    std::shared_ptr<Problem> find_or_make(std::list<std::shared_ptr<Problem>>& kept, const Shape& shape,
                                          std::int64_t bytes);

    std::list<std::shared_ptr<Layer>> layers_;
    std::list<std::shared_ptr<Operator>> operators_;
    std::int64_t bytes_ = 0;
};

/// A row, and how to run it.
struct Case {
    Row row{};
    /// Makes the row's target the active one and returns the call to time.
    std::function<std::function<void()>()> prepare{};
    int repetitions = 0;
    double seconds = 0;  ///< of one call, roughly
    std::int64_t iterations = 1;
};

/// The staged layer on one shape and target: one pass times all of its stages, so the rows of the stages, and that of
/// their sum, share the passes of a repetition.
struct StagedCase {
    Shape shape;
    Target target{};
    std::array<Row, stage_count + 1> rows;  ///< the last one is the sum
    std::array<std::size_t, stage_count + 1> calls{};  ///< repetitions that each row has had
    std::vector<std::array<double, stage_count + 1>> seconds;  ///< of each repetition so far, a mean over its passes
    double pass_seconds = 0;  ///< roughly
    std::int64_t passes = 1;
};

std::vector<Case> make_cases(const Options& options, Problems& problems);
std::vector<StagedCase> make_staged_cases(const Options& options, std::vector<std::string>& left_out);

}  // namespace headwise::sweep
