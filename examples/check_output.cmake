# Runs PROGRAM, with ARGUMENTS if there are any, and compares what it prints with the file EXPECTED. Exit status 77: the
# program needs a GPU, and there is none.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE printed ERROR_VARIABLE complaints RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(status EQUAL 77 AND "$ENV{SLUICE_REQUIRE_GPU}" STREQUAL "")
    message("[  SKIPPED ] ${complaints}")
    return()
endif()
if(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}\n${printed}${complaints}")
endif()
if(NOT printed STREQUAL expected)
    message(FATAL_ERROR "printed:\n${printed}\nexpected:\n${expected}")
endif()
