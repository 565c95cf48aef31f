# Run by ctest; see CMakeLists.txt for the variables.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${SLUICE_BINARY_DIR} --prefix ${WORK_DIR}/prefix)
# Moved, because a package must not contain the path where it was installed.
file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)

# A project with the program that README shows.
file(COPY ${CONSUMER_DIR}/ DESTINATION ${WORK_DIR}/source)
file(COPY ${HELLO} DESTINATION ${WORK_DIR}/source)

set(options -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
if(CUDA_COMPILER)
    list(APPEND options -DCMAKE_CUDA_COMPILER=${CUDA_COMPILER})
endif()
run(${CMAKE_COMMAND} -S ${WORK_DIR}/source -B ${WORK_DIR}/build -G ${GENERATOR} ${options}
    -Dsluice_ROOT=${WORK_DIR}/moved -DWITH_ASIO=${HAS_ASIO} -DBOOST_INCLUDE=${BOOST_INCLUDE})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/hello)
run(${WORK_DIR}/build/consumer)
if(HAS_ASIO)
    run(${WORK_DIR}/build/asio_consumer)
endif()

# The same program without CMake.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
    file(GLOB_RECURSE found ${WORK_DIR}/moved/*/sluice.pc)
    get_filename_component(folder ${found} DIRECTORY)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${PKG_CONFIG} --cflags --libs sluice
        OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND ${flags})
    run(${CXX_COMPILER} -std=c++20 -O1 -x c++ ${HELLO} -x none ${flags} -o ${WORK_DIR}/hello_by_pkg_config)
    run(${WORK_DIR}/hello_by_pkg_config)
endif()
