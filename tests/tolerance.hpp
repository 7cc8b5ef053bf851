// Earned tolerances: the kernels may err at most twice as much as the plain evaluation in the same precision does.
#pragma once

#include "attention_problem.hpp"

#include <map>
#include <string>

namespace tensors {

/// Largest errors of the kernels and of the plain evaluation, over one output of one or more problems.
struct Errors {
    double kernels = 0;
    double plain = 0;

    void include(const Errors& other)
    {
        kernels = std::max(kernels, other.kernels);
        plain = std::max(plain, other.plain);
    }

    bool earned(double absolute) const { return kernels <= 2 * plain + absolute; }
};

struct Comparison {
    std::string failures;
    std::map<std::string, Errors> errors;  ///< of each output
    bool intact = true;  ///< nothing was written beside the outputs

    /// Compares one output. `unit` is the size of the numbers that its rounding errors come from; the absolute term is one
    /// rounding of that, for outputs of few numbers where the plain evaluation may happen to be exact.
    template <class E, class T, int Rank>
    void add(const std::string& name, const Tensor<E, Rank>& got, const Tensor<E, Rank>& plain,
             const Tensor<T, Rank>& want, double unit)
    {
        const Errors found{max_error(got.view(), want.view()), max_error(plain.view(), want.view())};
        errors[name] = found;
        if (!found.earned(unit * number(std::numeric_limits<compute_t<E>>::epsilon()))) {
            std::ostringstream s;
            s << name << ": error " << found.kernels << ", plain evaluation " << found.plain << ", unit " << unit
              << "; ";
            failures += s.str();
        }
    }

    template <class E, class T>
    void add_optional_outputs(const Outputs<E>& got, const Outputs<E>& plain, const Outputs<T>& want)
    {
        const auto size_of = [](const auto& tensor) { return std::max(1.0, max_magnitude(tensor.view())); };
        add("weights", got.weights, plain.weights, want.weights, 1);
        add("mean_weights", got.mean_weights, plain.mean_weights, want.mean_weights, 1);
        add("scores", got.scores, plain.scores, want.scores, size_of(want.scores));
        add("log_sum_exp", got.log_sum_exp, plain.log_sum_exp, want.log_sum_exp, size_of(want.log_sum_exp));
    }
};

/// Compares every output of a call on `inputs` with those of its plain evaluation and of its oracle.
template <class E>
Comparison compare_outputs(const Inputs<E>& inputs, const Outputs<E>& got, const Outputs<E>& plain,
                           const Outputs<compute_t<E>>& want)
{
    Comparison c;
    c.add("Y", got.Y, plain.Y, want.Y, max_magnitude(inputs.V.view()));
    c.add_optional_outputs(got, plain, want);
    c.intact = got.intact_around();
    if (!c.intact) c.failures += "memory beside an output was written; ";
    if (!c.failures.empty()) c.failures += inputs.problem.text();
    return c;
}

/// The outputs of many calls, each held to the bound over all calls together: of a few rows alone, one score's rounding
/// decides.
class JointErrors {
public:
    void include(const Comparison& c)
    {
        for (const auto& [name, errors] : c.errors) errors_[name].include(errors);
        intact_ = intact_ && c.intact;
    }

    std::string failures() const
    {
        std::ostringstream s;
        for (const auto& [name, errors] : errors_)
            if (!errors.earned(0))
                s << name << ": largest error " << errors.kernels << ", plain evaluation " << errors.plain << "; ";
        if (!intact_) s << "memory beside an output was written; ";
        return s.str();
    }

private:
    std::map<std::string, Errors> errors_;
    bool intact_ = true;
};

/// Runs attention() on the active target and compares.
template <class E>
Comparison compare(const Inputs<E>& inputs)
{
    return compare_outputs(inputs, run_kernels(inputs), run_reference<compute_t<E>>(inputs), run_oracle(inputs));
}

template <class E>
Comparison compare(const Problem& problem)
{
    return compare(Inputs<E>(problem));
}

/// Weights `got` against the reference's. Where a row's sum is NaN the reference gives NaN to every key that takes part
/// and 0 to all others; the kernels may give 0 to some of the former, but not to all.
template <class E, class T, int Rank>
bool weights_agree(const Tensor<E, Rank>& got, const Tensor<T, Rank>& want, double limit)
{
    auto rows = got.shape();
    const std::int64_t n_kv = std::exchange(rows.back(), 1);
    bool agree = true;
    for_each_index(rows, [&](auto index) {
        bool nan_wanted = false, nan_got = false;
        for (index.back() = 0; index.back() < n_kv; ++index.back()) {
            const double g = number(at(got.view(), index)), w = number(at(want.view(), index));
            nan_wanted = nan_wanted || std::isnan(w);
            nan_got = nan_got || std::isnan(g);
            agree = agree && (std::isnan(w) ? std::isnan(g) || g == 0 : std::abs(g - w) <= limit);
        }
        agree = agree && nan_wanted == nan_got;
    });
    return agree;
}

}  // namespace tensors
