# cmake -DREGEX=... -P is_refused.cmake -- COMPILER ARGUMENT...
# Succeeds when the compiler refuses, and its output matches REGEX.

set(command "")
set(found_dashes FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
    if(found_dashes)
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif(CMAKE_ARGV${i} STREQUAL "--")
        set(found_dashes TRUE)
    endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
    message(FATAL_ERROR "The file compiled, and should not have.")
endif()
if(NOT output MATCHES "${REGEX}")
    message(FATAL_ERROR "The file was refused, but the message does not match '${REGEX}':\n${output}")
endif()
