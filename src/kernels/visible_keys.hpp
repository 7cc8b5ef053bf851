// The keys that a row sees, one by one: its interval less what the mask excludes. Only for what is rare or asked for.
//
// Rows that see one key only, or none: the weight of a single key is exactly 1, the row of Y a copy, and the log-sum-exp
// that key's score itself. It is given rounded once, from a sum in double, so that nothing of such a row carries an error.
#pragma once

#include "kernels/attend_panel.hpp"

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

    /// The score of the panel's row i and the key it sees.
    double score(const Panel<Arch, T>& panel, std::int64_t i, std::int64_t key) const
    {
        const AttendRow<T>& row = panel.rows[i];
        const E* k = static_cast<const E*>(block.k.data) + key * block.k.row_stride;
        double sum = 0;
        for (std::int64_t c = 0; c < block.d_k; ++c)
            sum += q_at(panel, i, c) * widened<Arch, double>(k[c * block.k.column_stride]);
        sum *= static_cast<double>(block.scale);
        const double cap = static_cast<double>(block.softcap);
        if (cap != 0) sum = cap * __builtin_tanh(sum / cap);
        if (block.has_mask) sum += mask_at(row, key);
        if (block.has_alibi)
            sum +=
                static_cast<double>(row.alibi_slope) * (static_cast<double>(key) - static_cast<double>(row.position));
        return sum;
    }

private:
    const AttendBlock<T>& block;

    double q_at(const Panel<Arch, T>& panel, std::int64_t i, std::int64_t c) const
    {
        if (!block.q_panels.data)
            return widened<Arch, double>(static_cast<const E*>(panel.rows[i].q)[c * block.q_stride]);
        const T* q = block.q_panels.data + panel.index * block.q_panels.panel_stride;
        return static_cast<double>(q[(block.q_panels.first_row + c) * panel.width() + i]);
    }

    double mask_at(const AttendRow<T>& row, std::int64_t key) const
    {
        const auto element = [&](auto type) {
            return widened<Arch, double>(static_cast<const decltype(type)*>(row.mask)[key * block.mask_stride]);
        };
        switch (block.mask_type) {
            case ElementType::boolean:
                return static_cast<const bool*>(row.mask)[key * block.mask_stride] ? 0 : -infinity<double>;
            case ElementType::float64: return element(double());
            case ElementType::bfloat16: return element(bfloat16());
            case ElementType::float16: return element(float16());
            case ElementType::float32: break;
        }
        return element(float());
    }
};

}  // namespace headwise::kernels
