# The library for matrix products and convolutions on CPUs: oneDNN if it is found, otherwise OpenBLAS. Defines the
# target sluice_cpu_math, SLUICE_CPU_MATH_LIBRARY (ONEDNN or OPENBLAS), and for the installed package
# SLUICE_CPU_MATH_NAME and SLUICE_CPU_MATH_EXTRA_LIBRARIES: the libraries that users of the static library link.

add_library(sluice_cpu_math INTERFACE)
set(SLUICE_CPU_MATH_LIBRARY "")

if(SLUICE_CPU_MATH MATCHES "^(AUTO|ONEDNN)$")
    find_path(SLUICE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
    find_library(SLUICE_ONEDNN_LIBRARY dnnl)
    if(SLUICE_ONEDNN_INCLUDE AND SLUICE_ONEDNN_LIBRARY)
        set(SLUICE_CPU_MATH_LIBRARY ONEDNN)
        set(SLUICE_CPU_MATH_NAME dnnl)
        set(SLUICE_CPU_MATH_EXTRA_LIBRARIES gomp)
        # Not through dnnl's CMake config: it requires OpenCL's headers, which we do not use.
        target_link_libraries(sluice_cpu_math INTERFACE ${SLUICE_ONEDNN_LIBRARY} gomp)
        target_include_directories(sluice_cpu_math SYSTEM INTERFACE $<BUILD_INTERFACE:${SLUICE_ONEDNN_INCLUDE}>)
        target_compile_definitions(sluice_cpu_math INTERFACE SLUICE_WITH_ONEDNN=1)
    endif()
endif()
if(NOT SLUICE_CPU_MATH_LIBRARY AND SLUICE_CPU_MATH MATCHES "^(AUTO|OPENBLAS)$")
    find_path(SLUICE_OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread x86_64-linux-gnu)
    find_library(SLUICE_OPENBLAS_LIBRARY openblas)
    if(SLUICE_OPENBLAS_INCLUDE AND SLUICE_OPENBLAS_LIBRARY)
        set(SLUICE_CPU_MATH_LIBRARY OPENBLAS)
        set(SLUICE_CPU_MATH_NAME openblas)
        set(SLUICE_CPU_MATH_EXTRA_LIBRARIES "")
        target_link_libraries(sluice_cpu_math INTERFACE ${SLUICE_OPENBLAS_LIBRARY})
        target_include_directories(sluice_cpu_math SYSTEM INTERFACE $<BUILD_INTERFACE:${SLUICE_OPENBLAS_INCLUDE}>)
        target_compile_definitions(sluice_cpu_math INTERFACE SLUICE_WITH_OPENBLAS=1)
    endif()
endif()
if(NOT SLUICE_CPU_MATH_LIBRARY)
    message(FATAL_ERROR "No CPU math library found (SLUICE_CPU_MATH=${SLUICE_CPU_MATH}). "
        "Install libdnnl-dev (oneDNN) or libopenblas-dev, or use ./run, which installs one.")
endif()
