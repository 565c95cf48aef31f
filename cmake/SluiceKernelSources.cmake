# sluice_kernel_sources(<target> <file.cu>...) adds kernel files to a target: compiled by nvcc where
# Sluice has CUDA, and by the host compiler, as plain C++, where it has not. Installed with the
# package, so that users' kernels are built the same way:
#
#     find_package(sluice REQUIRED)
#     if(SLUICE_HAS_CUDA)
#         enable_language(CUDA)
#     endif()
#     add_executable(app main.cpp)
#     sluice_kernel_sources(app kernel.cu)
#     target_link_libraries(app PRIVATE sluice::sluice)

# CMake 3.25 does not know nvcc's C++20 flag and would silently fall back to C++17. In the cache,
# because CMake reads it in the directory of each target; a newer CMake's own value goes first.
foreach(kind STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20 CACHE INTERNAL "")
    endif()
endforeach()

function(sluice_kernel_sources target)
    if(SLUICE_HAS_CUDA)
        if(NOT CMAKE_CUDA_COMPILER_LOADED)
            message(FATAL_ERROR "sluice_kernel_sources(${target}): this Sluice was built with CUDA. "
                "Write enable_language(CUDA) before the call.")
        endif()
        set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
    else()
        set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
    endif()
    target_sources(${target} PRIVATE ${ARGN})
endfunction()
