#include <headwise/version.hpp>

#define HEADWISE_TEXT_OF(x) #x
#define HEADWISE_TEXT(x) HEADWISE_TEXT_OF(x)

namespace headwise {

const char* version() noexcept
{
    return HEADWISE_TEXT(HEADWISE_VERSION_MAJOR) "." HEADWISE_TEXT(HEADWISE_VERSION_MINOR) "." HEADWISE_TEXT(
        HEADWISE_VERSION_PATCH);
}

}  // namespace headwise
