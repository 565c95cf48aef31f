# sluice_options: warnings and sanitizers for our own targets. Never exported to consumers.

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

add_library(sluice_options INTERFACE)
set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align)
# -Wpedantic warns about nvcc's own line markers, so CUDA files get fewer host warnings.
set(cuda_warnings -Wall -Wextra -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 warns wrongly about std::string (GCC PR 105651).
    list(APPEND cxx_warnings -Wno-restrict)
    list(APPEND cuda_warnings -Wno-restrict)
endif()
if(SLUICE_WERROR)
    list(APPEND cxx_warnings -Werror)
    list(APPEND cuda_warnings -Werror)
endif()
target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>)
list(JOIN cuda_warnings "," cuda_warnings)
target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_warnings}>)

# Whether kernels check what they access (sluice/base/check_bounds.hpp). AUTO: as the header says.
if(SLUICE_CHECK_BOUNDS STREQUAL "ON" OR SLUICE_CHECK_BOUNDS STREQUAL "OFF")
    target_compile_definitions(sluice_options INTERFACE SLUICE_CHECK_BOUNDS=$<STREQUAL:${SLUICE_CHECK_BOUNDS},ON>)
elseif(NOT SLUICE_CHECK_BOUNDS STREQUAL "AUTO")
    message(FATAL_ERROR "SLUICE_CHECK_BOUNDS is AUTO, ON or OFF, not ${SLUICE_CHECK_BOUNDS}")
endif()

if(SLUICE_SANITIZE)
    target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLUICE_SANITIZE}>
        $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
    target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=lld SLUICE_HAS_LLD) # links large executables in a quarter of the time
    if(SLUICE_HAS_LLD)
        target_link_options(sluice_options INTERFACE -fuse-ld=lld)
    endif()
endif()
