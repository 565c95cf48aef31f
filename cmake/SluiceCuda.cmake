# Finds the CUDA toolkit and the headers of cuDNN 9 and NCCL, as far as they are installed. Sets SLUICE_HAS_CUDA, in the
# cache, so that a parent project sees it in all of its folders; SLUICE_HAS_CUDNN and SLUICE_CUDNN_INCLUDE;
# SLUICE_HAS_NCCL and SLUICE_NCCL_INCLUDE. The libraries cuDNN and NCCL are opened at run time when they are first
# needed.

set(SLUICE_HAS_CUDA OFF CACHE INTERNAL "Whether this Sluice has the CUDA backend")
if(NOT SLUICE_CUDA STREQUAL "OFF")
    if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
        set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc CACHE FILEPATH "")
    endif()
    set(SLUICE_CUDA_ARCHITECTURES usual CACHE STRING "The GPUs to compile for, where neither CMAKE_CUDA_ARCHITECTURES \
nor the environment variable CUDAARCHS names them: usual, or released, as packages and wheels have them")
    if(NOT SLUICE_CUDA_ARCHITECTURES MATCHES "^(usual|released)$")
        message(FATAL_ERROR "SLUICE_CUDA_ARCHITECTURES is usual or released, not ${SLUICE_CUDA_ARCHITECTURES}; "
            "a list of one's own is CMAKE_CUDA_ARCHITECTURES, e.g. 90-real")
    endif()
    set(sluice_chooses_architectures OFF)
    # The second time CMake runs in a folder, CMAKE_CUDA_ARCHITECTURES is what was chosen here the first time.
    if((NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS}) OR
            (DEFINED SLUICE_CHOSEN_ARCHITECTURES AND CMAKE_CUDA_ARCHITECTURES STREQUAL SLUICE_CHOSEN_ARCHITECTURES))
        set(sluice_chooses_architectures ON)
        # Those of this machine's GPUs, where each supported toolkit knows all of them. Else A100, A10 and RTX 30 (8.0 runs
        # on 8.6), RTX 40 and L4 (which have f8), H100 and H200. Newer GPUs compile the last one's PTX when the program
        # starts on them.
        set(usual 80-real 89-real 90)
        find_program(SLUICE_NVIDIA_SMI nvidia-smi)
        mark_as_advanced(SLUICE_NVIDIA_SMI)
        if(SLUICE_NVIDIA_SMI AND SLUICE_CUDA_ARCHITECTURES STREQUAL "usual")
            execute_process(COMMAND ${SLUICE_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader TIMEOUT 10
                OUTPUT_VARIABLE capabilities RESULT_VARIABLE status ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
            string(REGEX REPLACE "[ \r\n]+" ";" capabilities "${capabilities}")
            list(REMOVE_DUPLICATES capabilities)
            set(others ${capabilities})
            list(REMOVE_ITEM others 7.5 8.0 8.6 8.9 9.0)
            if(status EQUAL 0 AND capabilities AND NOT others)
                string(REPLACE "." "" usual "${capabilities}")
            endif()
        endif()
        set(CMAKE_CUDA_ARCHITECTURES ${usual}
            CACHE STRING "CUDA architectures to compile for; one's own, e.g. 90-real, compiles faster" FORCE)
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        find_package(CUDAToolkit 12.4 REQUIRED)
        if(sluice_chooses_architectures AND SLUICE_CUDA_ARCHITECTURES STREQUAL "released")
            # T4 and RTX 20 too, and, with a toolkit that knows them, B200 and RTX 50.
            set(released 75-real 80-real 86-real 89-real 90)
            if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
                set(released 75-real 80-real 86-real 89-real 90-real 100-real 120)
            endif()
            set(CMAKE_CUDA_ARCHITECTURES ${released} CACHE STRING "CUDA architectures to compile for" FORCE)
        endif()
        if(sluice_chooses_architectures)
            set(SLUICE_CHOSEN_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE INTERNAL "What SluiceCuda.cmake has chosen")
        endif()
        set(SLUICE_HAS_CUDA ON CACHE INTERNAL "Whether this Sluice has the CUDA backend")
    elseif(SLUICE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_CUDA=ON, but no CUDA compiler was found. Set CMAKE_CUDA_COMPILER to nvcc.")
    endif()
endif()

set(SLUICE_HAS_CUDNN OFF)
if(SLUICE_HAS_CUDA AND NOT SLUICE_CUDNN STREQUAL "OFF")
    find_path(SLUICE_CUDNN_INCLUDE cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    set(sluice_cudnn_version "none")
    if(SLUICE_CUDNN_INCLUDE)
        file(STRINGS ${SLUICE_CUDNN_INCLUDE}/cudnn_version.h sluice_cudnn_version REGEX "define CUDNN_MAJOR ")
        string(REGEX MATCH "[0-9]+" sluice_cudnn_version "${sluice_cudnn_version}")
    endif()
    if(sluice_cudnn_version STREQUAL "9")
        set(SLUICE_HAS_CUDNN ON)
    elseif(SLUICE_CUDNN STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_CUDNN=ON, but the header of cuDNN 9 was not found (found: ${sluice_cudnn_version})."
            " Install cudnn9 from NVIDIA's repository, or add its folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No cuDNN 9: convolutions on a GPU are computed as matrix products of cuBLASLt")
    endif()
endif()

set(SLUICE_HAS_NCCL OFF)
if(SLUICE_HAS_CUDA AND NOT SLUICE_NCCL STREQUAL "OFF")
    find_path(SLUICE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(SLUICE_NCCL_INCLUDE)
        set(SLUICE_HAS_NCCL ON)
    elseif(SLUICE_NCCL STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_NCCL=ON, but nccl.h was not found. Install libnccl-dev from NVIDIA's repository, "
            "or add its folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No NCCL: collectives are for CPU devices only")
    endif()
endif()

include(SluiceKernelSources)
