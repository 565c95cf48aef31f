# Finds the libraries with which files of inputs are read: zlib (compressed .npz), libpng and libjpeg. For each it sets
# SLUICE_HAS_<NAME>, SLUICE_<NAME>_LIBRARY and SLUICE_<NAME>_OPTIONS, the compile options of the source that includes its
# header. The installed package names the libraries as SLUICE_INPUT_LIBRARIES.

set(SLUICE_INPUT_LIBRARIES "")
function(sluice_find_input_library name header library package what)
    set(found OFF)
    if(NOT SLUICE_${name} STREQUAL "OFF")
        find_path(SLUICE_${name}_INCLUDE ${header})
        find_library(SLUICE_${name}_LIBRARY ${library})
        if(SLUICE_${name}_INCLUDE AND SLUICE_${name}_LIBRARY)
            set(found ON)
        elseif(SLUICE_${name} STREQUAL "ON")
            message(FATAL_ERROR "SLUICE_${name}=ON, but ${header} or lib${library} was not found. Install ${package}, or "
                "add its folder to CMAKE_PREFIX_PATH.")
        else()
            message(STATUS "No ${package}: ${what} are refused")
        endif()
    endif()
    set(SLUICE_HAS_${name} ${found} PARENT_SCOPE)
    # The system's own folder must not be named: the standard library's headers are found relative to it.
    if(found AND NOT SLUICE_${name}_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        set(SLUICE_${name}_OPTIONS -isystem${SLUICE_${name}_INCLUDE} PARENT_SCOPE)
    endif()
    if(found)
        set(SLUICE_INPUT_LIBRARIES ${SLUICE_INPUT_LIBRARIES} ${library} PARENT_SCOPE)
    endif()
endfunction()
# libpng needs zlib, and is named before it.
sluice_find_input_library(PNG png.h png libpng-dev "PNG files")
sluice_find_input_library(JPEG jpeglib.h jpeg libjpeg-dev "JPEG files")
sluice_find_input_library(ZLIB zlib.h z zlib1g-dev "compressed .npz files")
