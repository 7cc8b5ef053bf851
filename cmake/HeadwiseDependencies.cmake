# The libraries headwise is built with. A missing one ends the configuration with the name of what to install.

# headwise_require(PACKAGE DEBIAN_PACKAGE): find_package that says how to get what is missing.
macro(headwise_require package debian_package)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
        message(FATAL_ERROR "headwise needs ${package}, which was not found. On Debian and Ubuntu: "
            "apt-get install ${debian_package}")
    endif()
    message(STATUS "Found ${package} ${${package}_VERSION}")
endmacro()

# headwise_find_xsimd(): makes headwise_xsimd, an interface target with nothing but the include folder. The headers are
# looked for, not the CMake package: that of 8.1 asks to link the library xtl, that of 13 to find it, and neither is used.
function(headwise_find_xsimd)
    if("${HEADWISE_XSIMD_INCLUDE_DIR}" STREQUAL "")  # given as empty; find_path would leave it so
        unset(HEADWISE_XSIMD_INCLUDE_DIR CACHE)
    endif()
    find_path(HEADWISE_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp DOC "Folder that has xsimd/xsimd.hpp")
    if(NOT EXISTS "${HEADWISE_XSIMD_INCLUDE_DIR}/xsimd/xsimd.hpp")
        message(FATAL_ERROR "headwise needs xsimd, and HEADWISE_XSIMD_INCLUDE_DIR "
            "(${HEADWISE_XSIMD_INCLUDE_DIR}) has no xsimd/xsimd.hpp. On Debian and Ubuntu: apt-get install libxsimd-dev")
    endif()
    file(STRINGS "${HEADWISE_XSIMD_INCLUDE_DIR}/xsimd/config/xsimd_config.hpp" version
        REGEX "#define XSIMD_VERSION_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM version REPLACE "[^0-9]" "")
    list(JOIN version "." version)
    message(STATUS "Found xsimd ${version} in ${HEADWISE_XSIMD_INCLUDE_DIR}")
    add_library(headwise_xsimd INTERFACE)
    target_include_directories(headwise_xsimd SYSTEM INTERFACE "${HEADWISE_XSIMD_INCLUDE_DIR}")
endfunction()
