// headwise: which scores attention() hands out.
#pragma once

namespace headwise {

/// Which scores AttentionOptions::scores receives; the numbers are those of ONNX Attention's qk_matmul_output_mode.
enum class ScoreStage {
    scaled = 0,      ///< scale * q.k, for every pair, masked ones too
    softcapped = 1,  ///< after the soft cap
    biased = 2,      ///< after mask, ALiBi, causal, windows, lengths: what the softmax reads; -inf for keys left out
    weights = 3      ///< the softmax's result; the same as AttentionOptions::weights
};

}  // namespace headwise
