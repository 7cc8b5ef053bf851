# headwise_library_options(TARGET): what holds for every file of the library.
function(headwise_library_options target)
    headwise_warnings(${target})
    # Contraction is the kernels' decision (they say fma), never the compiler's: g++ and clang differ in it.
    target_compile_options(${target} PRIVATE -ffp-contract=off)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
    if(NOT BUILD_SHARED_LIBS)
        # A shared library that links headwise statically does not export it again.
        set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    endif()
endfunction()

# headwise_add_isa(NAME [BASELINE] [FLAGS ...]): compiles src/isa/NAME.cpp for one instruction set and tells
# src/target.cpp so with HEADWISE_HAVE_NAME. BASELINE: every processor of the family has it.
function(headwise_add_isa isa)
    cmake_parse_arguments(PARSE_ARGV 1 arg "BASELINE" "" "FLAGS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "headwise_add_isa(${isa}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set(object headwise_isa_${isa})
    add_library(${object} OBJECT "${PROJECT_SOURCE_DIR}/src/isa/${isa}.cpp")
    target_compile_features(${object} PRIVATE cxx_std_20)
    target_include_directories(${object} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${object} PRIVATE headwise_xsimd)
    headwise_library_options(${object})
    # Optimised in every configuration: an inline function that stays a function of its own could be taken by the
    # linker for code that runs on any processor (tests/isa_symbols.py).
    # Inner loops begin at a cache line: where they fell otherwise, a change elsewhere cost projections 5 % (Zen 3).
    set(optimisation -O3 -falign-loops=64)
    if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
        # Of an unrolled kernel, UBSan's checks of null pointers and of address arithmetic take most of the code and of
        # the time to compile; AddressSanitizer sees a wrong access all the same.
        set(optimisation -O1 -fno-sanitize=null,pointer-overflow)
    endif()
    target_compile_options(${object} PRIVATE ${arg_FLAGS} ${optimisation})

    string(TOUPPER ${isa} upper)
    target_sources(headwise PRIVATE $<TARGET_OBJECTS:${object}>)
    target_compile_definitions(headwise PRIVATE HEADWISE_HAVE_${upper})
    set_property(GLOBAL APPEND PROPERTY HEADWISE_ISAS ${isa})
    if(arg_BASELINE)
        set_property(GLOBAL PROPERTY HEADWISE_BASELINE_ISA ${isa})
    endif()
endfunction()
