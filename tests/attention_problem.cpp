// What the programs that include attention_problem.hpp share, compiled once.
#include "attention_problem.hpp"

namespace tensors {

#define HEADWISE_INSTANTIATE_PROBLEM(E)                                       \
    template struct Inputs<E>;                                                \
    template struct Outputs<E>;                                               \
    template Outputs<E> run_kernels(const Inputs<E>&, headwise::WorkReport*); \
    template Outputs<E> run_reference<compute_t<E>>(const Inputs<E>&);        \
    template Outputs<compute_t<E>> run_oracle(const Inputs<E>&);
HEADWISE_FOR_EACH_ELEMENT_TYPE(HEADWISE_INSTANTIATE_PROBLEM)

}  // namespace tensors
