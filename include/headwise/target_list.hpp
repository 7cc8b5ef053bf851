// headwise: the instruction sets that kernels exist for. Plain, so that kernel files can include it.
#pragma once

namespace headwise {

/// An instruction set with kernels of its own. Which exist depends on the processor family the library is built for.
enum class Target { sse2, avx2, avx512, neon };

}  // namespace headwise
