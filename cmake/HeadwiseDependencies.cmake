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

# headwise_find_xsimd(): makes headwise_xsimd, an interface target with nothing but the include folder. The package's
# own target will not do: that of xsimd 8.1 asks to link the library xtl, which need not be installed.
function(headwise_find_xsimd)
    add_library(headwise_xsimd INTERFACE)
    if(HEADWISE_XSIMD_INCLUDE_DIR)
        if(NOT EXISTS "${HEADWISE_XSIMD_INCLUDE_DIR}/xsimd/xsimd.hpp")
            message(FATAL_ERROR
                "HEADWISE_XSIMD_INCLUDE_DIR is ${HEADWISE_XSIMD_INCLUDE_DIR}, which has no xsimd/xsimd.hpp.")
        endif()
        set(include_dirs "${HEADWISE_XSIMD_INCLUDE_DIR}")
        message(STATUS "Using xsimd from ${HEADWISE_XSIMD_INCLUDE_DIR}")
    else()
        headwise_require(xsimd libxsimd-dev)
        get_target_property(include_dirs xsimd INTERFACE_INCLUDE_DIRECTORIES)
    endif()
    target_include_directories(headwise_xsimd SYSTEM INTERFACE ${include_dirs})
endfunction()
