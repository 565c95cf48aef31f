# Finds MPI for the tool's `run --distributed`, or does without. The library itself needs none. Sets SLUICE_HAS_MPI.

set(SLUICE_HAS_MPI OFF)
if(SLUICE_MPI STREQUAL "AUTO" AND SLUICE_SANITIZE)
    message(STATUS "Sanitizers: without MPI, whose libraries are not made for them")
elseif(NOT SLUICE_MPI STREQUAL "OFF")
    include(CheckLanguage)
    check_language(C) # MPI's interface is C's, and CMake looks for it only with that language
    if(CMAKE_C_COMPILER)
        enable_language(C)
        find_package(MPI COMPONENTS C)
    endif()
    if(MPI_C_FOUND)
        set(SLUICE_HAS_MPI ON)
    elseif(SLUICE_MPI STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_MPI=ON, but no MPI was found. "
            "Install libopenmpi-dev and openmpi-bin, or add the MPI's place to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No MPI: the tool is built without `run --distributed`")
    endif()
endif()
