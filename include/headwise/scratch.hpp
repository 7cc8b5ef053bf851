// headwise: the memory the library keeps between calls.
#pragma once

#include <cstddef>

namespace headwise {

/// Bytes of scratch memory that the calling thread holds for later calls. Every thread that runs kernels holds its own.
std::size_t thread_scratch_bytes() noexcept;

/// Gives the calling thread's scratch memory back; later calls on it allocate again. Must not be called from inside
/// a task that a headwise call is waiting for.
void release_thread_scratch() noexcept;

}  // namespace headwise
