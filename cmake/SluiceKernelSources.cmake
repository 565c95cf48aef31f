# sluice_kernel_sources(<target> <file.cu>...) adds kernel files to a target. nvcc compiles them if Sluice has CUDA;
# otherwise the host compiler compiles them as plain C++. In a project without a build type they are optimised (-O2),
# unless CMAKE_CUDA_FLAGS or CMAKE_CXX_FLAGS say otherwise. The function is installed with the package, so that users'
# kernels are built the same way:
#
#     find_package(sluice REQUIRED)      # or add_subdirectory(), or FetchContent_MakeAvailable()
#     if(SLUICE_HAS_CUDA)
#         enable_language(CUDA)
#     endif()
#     add_executable(app main.cpp)
#     sluice_kernel_sources(app kernel.cu)
#     target_link_libraries(app PRIVATE sluice::sluice)

# CMake 3.25 does not know nvcc's C++20 flag and would silently fall back to C++17. The variable is in the cache,
# because CMake reads it in the directory of each target; a newer CMake's own value has precedence.
foreach(kind STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20 CACHE INTERNAL "")
    endif()
endforeach()

# Unoptimised, a kernel on a CPU takes many times as long.
function(sluice_optimise_kernels language)
    if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT "${CMAKE_${language}_FLAGS}" MATCHES "-O|-G")
        set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O2)
    endif()
endfunction()

function(sluice_kernel_sources target)
    # A kernel that was compiled as plain C++ by mistake could not be launched on a GPU.
    if(NOT DEFINED SLUICE_HAS_CUDA)
        message(FATAL_ERROR "sluice_kernel_sources(${target}): this folder has not found Sluice. "
            "Call find_package(sluice) here or in a folder above.")
    endif()
    if(SLUICE_HAS_CUDA)
        if(NOT CMAKE_CUDA_COMPILER_LOADED)
            message(FATAL_ERROR "sluice_kernel_sources(${target}): this Sluice has CUDA, but this folder has not. "
                "Write enable_language(CUDA) before the call, in this folder or one above.")
        endif()
        set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
        sluice_optimise_kernels(CUDA ${ARGN})
    else()
        set_property(SOURCE ${ARGN} PROPERTY LANGUAGE CXX)
        set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -xc++)
        sluice_optimise_kernels(CXX ${ARGN})
    endif()
    target_sources(${target} PRIVATE ${ARGN})
endfunction()
