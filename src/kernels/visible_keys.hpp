// The keys that a row sees, one by one: its interval less what the mask excludes. Only for what is rare or asked for.
//
// Rows that see one key only, or none: the weight of a single key is exactly 1, the row of Y a copy, and the log-sum-exp
// that key's score itself. It is given rounded once, from a sum in double, so that nothing of such a row carries an error.
#pragma once

#include "kernels/attend_block.hpp"
#include "kernels/mask_element.hpp"

namespace headwise::kernels {

template <class Arch, class T, class E>
class VisibleKeys {
public:
    explicit VisibleKeys(const AttendBlock<T>& b) : block(b) {}

    /// How many keys a row sees, 2 standing for several, and the first of them.
    struct Seen {
        int count;
        std::int64_t key;
    };

    bool sees(const AttendRow<T>& row, std::int64_t key) const
    {
        if (key < row.first_key || key >= row.end_key) return false;
        return !block.has_mask || mask_at(row, key) != -infinity<double>;
    }

    Seen look(const AttendRow<T>& row) const
    {
        Seen seen{0, -1};
        for (std::int64_t key = row.first_key; key < row.end_key && seen.count < 2; ++key) {
            if (!sees(row, key)) continue;
            if (++seen.count == 1) seen.key = key;
        }
        return seen;
    }

    std::int64_t count(const AttendRow<T>& row) const
    {
        if (!block.has_mask) return row.end_key - row.first_key;
        std::int64_t keys = 0;
        for (std::int64_t key = row.first_key; key < row.end_key; ++key) keys += sees(row, key);
        return keys;
    }

    /// A row's log-sum-exp, `maximum` being what its weights were taken against, in natural units, and `sum` their sum.
    /// q_at(c): component c of its query.
    template <class QAt>
    double log_sum_exp(const AttendRow<T>& row, double maximum, T sum, const QAt& q_at) const
    {
        if (sum == T(1)) {
            const Seen seen = look(row);
            if (seen.count == 0) return -infinity<double>;  // a sink alone does not make a row
            if (seen.count == 1 && !block.has_sinks) return score(row, seen.key, q_at);
        }
        return maximum + __builtin_log(static_cast<double>(sum));
    }

private:
    const AttendBlock<T>& block;

    /// The score of a row and the key it sees.
    template <class QAt>
    double score(const AttendRow<T>& row, std::int64_t key, const QAt& q_at) const
    {
        const E* k = static_cast<const E*>(block.k.data) + key * block.k.row_stride;
        double sum = 0;
        for (std::int64_t c = 0; c < block.d_k; ++c)
            sum += q_at(c) * widened<Arch, double>(k[c * block.k.column_stride]);
        sum *= static_cast<double>(block.scale);
        const double cap = static_cast<double>(block.softcap);
        if (cap != 0) sum = cap * __builtin_tanh(sum / cap);
        if (block.has_mask) sum += mask_at(row, key);
        if (block.has_alibi)
            sum +=
                static_cast<double>(row.alibi_slope) * (static_cast<double>(key) - static_cast<double>(row.position));
        return sum;
    }

    double mask_at(const AttendRow<T>& row, std::int64_t key) const
    {
        return with_mask_type(block.mask_type, [&]<class Element>(const Element*) {
            return MaskElement<Arch, double, Element>::number(
                static_cast<const Element*>(row.mask)[key * block.mask_stride]);
        });
    }
};

}  // namespace headwise::kernels
