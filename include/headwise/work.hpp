// headwise: counts of arithmetic work. The same struct holds what the arithmetic predicts (cost.hpp), what the
// reference counts (reference.hpp) and what the kernels report they issued.
#pragma once

#include <cstdint>

namespace headwise {

/// Work by stage. A multiply-add counts as one; an exponential is one exp of a score.
struct Work {
    std::int64_t project_q = 0;     ///< multiply-adds of Q = X W_q
    std::int64_t project_k = 0;     ///< multiply-adds of K = X_kv W_k
    std::int64_t project_v = 0;     ///< multiply-adds of V = X_kv W_v
    std::int64_t score = 0;         ///< multiply-adds of Q K^T
    std::int64_t exponentials = 0;  ///< exponentials of the softmax
    std::int64_t blend = 0;         ///< multiply-adds of weights V
    std::int64_t project_o = 0;     ///< multiply-adds of Y = concat(heads) W_o

    friend bool operator==(const Work&, const Work&) = default;

    Work& operator+=(const Work& other) noexcept
    {
        project_q += other.project_q;
        project_k += other.project_k;
        project_v += other.project_v;
        score += other.score;
        exponentials += other.exponentials;
        blend += other.blend;
        project_o += other.project_o;
        return *this;
    }
};

/// What the kernels did. `useful` is the work on (query, key) pairs that take part and on real rows and columns;
/// `issued` also has what vectors and register tiles add: idle lanes of the last panel, keys of a tile that only some
/// of its queries see, and the exponentials that rescale earlier tiles. issued - useful is the padding.
struct WorkReport {
    Work useful;
    Work issued;
};

}  // namespace headwise
