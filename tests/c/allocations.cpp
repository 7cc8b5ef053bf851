// An operator new that counts, and that fails when told to. The library's calls of it end here too.
#include "check.h"

#include <cstdlib>
#include <new>

namespace {

thread_local long count = 0;
thread_local allocation_failure next_failure = THROWS_NOTHING;

void* allocate(std::size_t bytes, std::size_t alignment)
{
    ++count;
    const allocation_failure failure = next_failure;
    next_failure = THROWS_NOTHING;
    if (failure == THROWS_BAD_ALLOC) throw std::bad_alloc();
    if (failure == THROWS_ANOTHER_TYPE) throw 1;
    // aligned_alloc wants a multiple of the alignment
    const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, padded == 0 ? alignment : padded);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

long allocation_count(void)
{
    return count;
}

void fail_next_allocation(allocation_failure failure)
{
    next_failure = failure;
}

void* operator new(std::size_t bytes)
{
    return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}

void* operator new(std::size_t bytes, std::align_val_t alignment)
{
    return allocate(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept
{
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept
{
    std::free(memory);
}

void operator delete(void* memory, std::align_val_t) noexcept
{
    std::free(memory);
}

void operator delete(void* memory, std::size_t, std::align_val_t) noexcept
{
    std::free(memory);
}
