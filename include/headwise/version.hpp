// headwise: the version of the library. CMake reads the three numbers from this file; nothing else states them.
#pragma once

#define HEADWISE_VERSION_MAJOR 0
#define HEADWISE_VERSION_MINOR 1
#define HEADWISE_VERSION_PATCH 0

namespace headwise {

/// "major.minor.patch" of the library that was linked (the macros tell that of the headers).
const char* version() noexcept;

}  // namespace headwise
