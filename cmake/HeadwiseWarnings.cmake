# headwise_warnings(TARGET): the warnings that all of the project's own code is free of.
function(headwise_warnings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
    if(HEADWISE_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
endfunction()
