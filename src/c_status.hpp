// From exceptions to the status codes of the C interface.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>

#include <headwise/headwise.h>

namespace headwise::c_interface {

/// What headwise_last_error() returns on this thread from now on.
void set_last_error(std::string_view text) noexcept;

/// Runs body(); what it throws becomes a status and this thread's message.
template <class Body>
headwise_status status_of(const Body& body) noexcept
{
    try {
        body();
        return HEADWISE_OK;
    } catch (const std::invalid_argument& error) {
        set_last_error(error.what());
        return HEADWISE_INVALID_ARGUMENT;
    } catch (const std::bad_alloc&) {
        set_last_error("out of memory");
        return HEADWISE_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
        set_last_error(error.what());
    } catch (...) {
        set_last_error("unknown error");
    }
    return HEADWISE_INTERNAL_ERROR;
}

}  // namespace headwise::c_interface
