# Finds an mdspan for the tests and the example of sluice/mdspan.hpp: CCCL's, with the CUDA toolkit or apart from it. The
# library itself does not need it. Sets SLUICE_HAS_MDSPAN and, if it is found, defines the target sluice_mdspan.
#
# std::mdspan needs C++23, and Sluice's tests are C++20: tests/mdspan/CMakeLists.txt compiles a program with libc++.

set(SLUICE_HAS_MDSPAN OFF)
find_path(SLUICE_CCCL_INCLUDE cuda/std/mdspan
    HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include PATH_SUFFIXES cccl)
if(SLUICE_CCCL_INCLUDE)
    set(SLUICE_HAS_MDSPAN ON)
    add_library(sluice_mdspan INTERFACE)
    target_include_directories(sluice_mdspan SYSTEM INTERFACE ${SLUICE_CCCL_INCLUDE})
else()
    message(STATUS "No CCCL: the tests and the example of sluice/mdspan.hpp are not built")
endif()
