# Run by ctest; see CMakeLists.txt for the variables.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(configure ${CMAKE_COMMAND} -S ${PARENT_DIR} -G ${GENERATOR} -DSLUICE_SOURCE_DIR=${SLUICE_SOURCE_DIR}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DSLUICE_CUDA=${WITH_CUDA}
    -DBY_FETCH_CONTENT=${BY_FETCH_CONTENT} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
if(WITH_CUDA)
    list(APPEND configure -DCMAKE_CUDA_COMPILER=${CUDA_COMPILER})
    # A parent that does not enable CUDA gets an error, instead of a kernel that no GPU can run.
    execute_process(COMMAND ${configure} -B ${WORK_DIR}/forgetful -DFORGETS_CUDA=ON
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
    if(status EQUAL 0 OR NOT said MATCHES "Write enable_language\\(CUDA\\)")
        message(FATAL_ERROR "A parent without CUDA was not refused: ${said}")
    endif()
endif()
run(${configure} -B ${WORK_DIR}/build)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --target parent_app)
run(${WORK_DIR}/build/app/parent_app)

# No build type was given: the library and the kernels are optimised, the rest of the parent is as it was.
file(READ ${WORK_DIR}/build/compile_commands.json commands)
string(JSON count LENGTH ${commands})
math(EXPR last "${count} - 1")
foreach(at RANGE ${last})
    string(JSON command GET ${commands} ${at} command)
    string(JSON file GET ${commands} ${at} file)
    if(file MATCHES "app/main\\.cpp$" AND command MATCHES " -O")
        message(FATAL_ERROR "The parent's own file was optimised: ${command}")
    elseif(file MATCHES "app/kernel\\.cu$|src/base/error\\.cpp$" AND NOT command MATCHES " -O[23]")
        message(FATAL_ERROR "Not optimised: ${command}")
    endif()
endforeach()
