# Finds what `sluice serve` needs for HTTP: Boost 1.81 (Asio and Beast, found by SluiceAsio) and simdjson. Sets
# SLUICE_HAS_HTTP, and SLUICE_HTTP_MISSING: the name of what was not found.

set(SLUICE_HAS_HTTP OFF)
set(SLUICE_HTTP_MISSING "")
if(SLUICE_HTTP STREQUAL "OFF")
    set(SLUICE_HTTP_MISSING "HTTP (SLUICE_HTTP=OFF)")
else()
    find_path(SLUICE_SIMDJSON_INCLUDE simdjson.h)
    find_library(SLUICE_SIMDJSON_LIBRARY simdjson)
    if(NOT SLUICE_HAS_ASIO)
        set(SLUICE_HTTP_MISSING "Boost 1.81 or later (libboost1.81-dev)")
    elseif(NOT SLUICE_SIMDJSON_INCLUDE OR NOT SLUICE_SIMDJSON_LIBRARY)
        set(SLUICE_HTTP_MISSING "simdjson (libsimdjson-dev)")
    else()
        set(SLUICE_HAS_HTTP ON)
    endif()
    if(NOT SLUICE_HAS_HTTP AND SLUICE_HTTP STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_HTTP=ON, but ${SLUICE_HTTP_MISSING} was not found. "
            "Install it, or add its folder to CMAKE_PREFIX_PATH.")
    elseif(NOT SLUICE_HAS_HTTP)
        message(STATUS "No ${SLUICE_HTTP_MISSING}: `sluice serve` is built without HTTP")
    endif()
endif()
