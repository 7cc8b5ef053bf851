# cmake -P: installs the build in HEADWISE_BINARY_DIR into a folder of its own and lets the consumer project use it.
foreach(name HEADWISE_BINARY_DIR CONFIG GENERATOR CXX_COMPILER VERSION)
    if(NOT DEFINED ${name} OR "${${name}}" STREQUAL "")
        message(FATAL_ERROR "run.cmake: ${name} is not given")
    endif()
endforeach()

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(work "${HEADWISE_BINARY_DIR}/installed_package")
set(prefix "${work}/prefix")
# Nothing of an earlier installation may stand in for a file that is no longer installed.
file(REMOVE_RECURSE "${work}")

run("${CMAKE_COMMAND}" --install "${HEADWISE_BINARY_DIR}" --config "${CONFIG}" --prefix "${prefix}")

set(toolchain "")
if(TOOLCHAIN_FILE)
    # The prefix lies outside of the folders that a cross build searches.
    set(toolchain "-DCMAKE_TOOLCHAIN_FILE=${TOOLCHAIN_FILE}" -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH)
endif()
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}/build" -G "${GENERATOR}" ${toolchain}
    "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
    "-DCMAKE_PREFIX_PATH=${prefix}" "-DHEADWISE_EXPECTED_VERSION=${VERSION}")
run("${CMAKE_COMMAND}" --build "${work}/build" --config "${CONFIG}")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${work}/build" -C "${CONFIG}" --output-on-failure --no-tests=error)
