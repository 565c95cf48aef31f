# Finds MPI, if it is installed, for the tool's `run --distributed`. The library itself does not need MPI. Sets
# SLUICE_HAS_MPI.

set(SLUICE_HAS_MPI OFF)
if(SLUICE_MPI STREQUAL "AUTO" AND SLUICE_SANITIZE)
    message(STATUS "Sanitizers: built without MPI, whose libraries do not support them")
elseif(NOT SLUICE_MPI STREQUAL "OFF")
    include(CheckLanguage)
    check_language(C) # MPI's interface is in C, and CMake finds it only when that language is enabled
    if(CMAKE_C_COMPILER)
        enable_language(C)
        find_package(MPI COMPONENTS C)
    endif()
    if(MPI_C_FOUND)
        set(SLUICE_HAS_MPI ON)
    elseif(SLUICE_MPI STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_MPI=ON, but no MPI was found. "
            "Install libopenmpi-dev and openmpi-bin, or add the MPI's folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No MPI: the tool is built without `run --distributed`")
    endif()
endif()
