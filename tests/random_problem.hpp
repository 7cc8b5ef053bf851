// Calls of attention() drawn at random, for the tests and for the fuzzers.
#pragma once

#include "attention_problem.hpp"

#include <cmath>

namespace tensors {

/// Some options at random, every one of them now and then. `random` has below(n), chance(p) and uniform(), as Random.
template <class Source>
Problem random_problem(Source& random)
{
    const auto layout = [&] { return layouts[static_cast<std::size_t>(random.below(layouts.size()))]; };
    Problem p{.b = 1 + random.below(2),
              .h = 1 + random.below(6),
              .n_q = 1 + random.below(40),
              .n_kv = 1 + random.below(random.chance(0.3) ? 450 : 40),
              .d_k = 1 + random.below(70),
              .d_v = 1 + random.below(70),
              .q_layout = layout(),
              .k_layout = layout(),
              .v_layout = layout(),
              .y_layout = layout(),
              .mask_layout = layout(),
              .output_layout = layout()};
    do p.h_kv = 1 + random.below(p.h);
    while (p.h % p.h_kv != 0);
    if (random.chance(0.3)) p.scale = (2 * random.uniform() - 1) / std::sqrt(static_cast<double>(p.d_k));
    if (random.chance(0.3)) p.softcap = 0.5 + 4 * random.uniform();
    p.causal = random.chance(0.4);
    if (random.chance(0.3)) p.query_offset = random.below(p.n_kv + 20) - 10;
    else p.query_offsets = random.chance(0.3);
    p.kv_lengths = random.chance(0.3);
    if (random.chance(0.3)) p.left_window = random.below(p.n_kv + 1);
    if (random.chance(0.3)) p.right_window = random.below(p.n_kv + 1);
    p.mask = static_cast<MaskKind>(random.below(4));
    if (p.mask != MaskKind::none) {
        p.mask_shape = {p.b, p.h, p.n_q, p.n_kv};
        for (std::int64_t& extent : p.mask_shape)
            if (random.chance(0.3)) extent = 1;
        if (p.mask_shape[3] > 2 && random.chance(0.2)) p.mask_shape[3] = 2 + random.below(p.mask_shape[3] - 1);
    }
    p.sinks = random.chance(0.3);
    p.alibi = random.chance(0.3);
    p.weights = random.chance(0.4);
    p.mean_weights = random.chance(0.4);
    p.scores = random.chance(0.4);
    p.score_stage = static_cast<headwise::ScoreStage>(random.below(4));
    p.log_sum_exp = random.chance(0.6);
    return p;
}

}  // namespace tensors
