# sluice_options: warnings and sanitizers for our own targets. Never exported to consumers.

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

add_library(sluice_options INTERFACE)
set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND cxx_warnings -Wno-restrict)  # false alarms on std::string (GCC PR 105651)
endif()
if(SLUICE_WERROR)
    list(APPEND cxx_warnings -Werror)
endif()
target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>)
if(SLUICE_HAS_CUDA)
    # -Wpedantic trips over nvcc's own line markers, so host warnings are the short list there.
    set(cuda_warnings -Wall,-Wextra,-Wshadow,-Wno-restrict)
    if(SLUICE_WERROR)
        set(cuda_warnings ${cuda_warnings},-Werror)
    endif()
    target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_warnings}>)
endif()

if(SLUICE_SANITIZE)
    target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLUICE_SANITIZE}>
        $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
    target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
