// Scratch memory that a thread keeps between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <headwise/scratch.hpp>

namespace headwise {

/// A piece of the calling thread's scratch memory for the life of this object, which must end on the same thread.
/// Several may be alive at once: while a thread waits for its tasks, the scheduler may give it a task of another call.
class Scratch {
public:
    /// Throws std::bad_alloc.
    explicit Scratch(std::size_t bytes);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    /// The next `count` objects, aligned to 64 bytes, uninitialised. All that is taken must fit the bytes asked for,
    /// counting each piece with size().
    template <class T>
        requires std::is_trivially_destructible_v<T>
    T* take(std::int64_t count)
    {
        T* at = reinterpret_cast<T*>(memory_ + used_);
        used_ += size<T>(count);
        return at;
    }

    /// Bytes that take<T>(count) uses.
    template <class T>
    static std::size_t size(std::int64_t count)
    {
        return (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    }

private:
    std::byte* memory_;
    std::size_t bytes_;
    std::size_t used_ = 0;
};

}  // namespace headwise
