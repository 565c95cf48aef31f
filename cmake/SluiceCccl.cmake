# Finds CCCL, which is in the CUDA toolkit, for the tests and the examples of sluice/mdspan.hpp and
# sluice/cuda/memory_resource.hpp. The library itself does not need it. Sets SLUICE_HAS_CCCL and, if it is found, defines
# the target sluice_cccl.
#
# std::mdspan needs C++23, and Sluice's tests are C++20: tests/mdspan/CMakeLists.txt compiles a program with libc++.

set(SLUICE_HAS_CCCL OFF)
find_path(SLUICE_CCCL_INCLUDE cuda/std/mdspan
    HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include PATH_SUFFIXES cccl)
find_path(SLUICE_CUDART_INCLUDE cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
if(SLUICE_CCCL_INCLUDE AND SLUICE_CUDART_INCLUDE)
    set(SLUICE_HAS_CCCL ON)
    add_library(sluice_cccl INTERFACE)
    target_include_directories(sluice_cccl SYSTEM INTERFACE ${SLUICE_CCCL_INCLUDE} ${SLUICE_CUDART_INCLUDE})
else()
    message(STATUS "No CCCL: the tests and the example of sluice/mdspan.hpp and sluice/cuda/memory_resource.hpp are not built")
endif()
