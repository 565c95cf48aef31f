# Run by ctest; see CMakeLists.txt for the variables.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE output)
    message("${output}")
    set(output "${output}" PARENT_SCOPE)
endfunction()

function(run_program)
    run(${ARGN} ${MODEL})
    if(NOT output MATCHES "^Sluice [0-9.]+: 10 numbers\n$")
        message(FATAL_ERROR "not what the program prints")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${SLUICE_BINARY_DIR} --prefix ${WORK_DIR}/prefix --component c_interface)
# Moved, because a package must not contain the path where it was installed.
file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)

run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build -G ${GENERATOR} -Dsluice_c_ROOT=${WORK_DIR}/moved)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run_program(${WORK_DIR}/build/classify)

find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
    message("There is no pkg-config: sluice_c.pc is not tested")
    return()
endif()
file(GLOB_RECURSE description ${WORK_DIR}/moved/*/sluice_c.pc)
cmake_path(GET description PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${PKG_CONFIG} --cflags --libs sluice_c)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${PKG_CONFIG} --variable=libdir sluice_c)
string(STRIP "${output}" libraries)
run(cc -std=c11 ${CONSUMER_DIR}/main.c ${flags} -Wl,-rpath,${libraries} -o ${WORK_DIR}/by_pkg_config)
run_program(${WORK_DIR}/by_pkg_config)
