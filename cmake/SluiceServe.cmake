# Finds what `sluice serve` needs for HTTP: Boost 1.81 (Asio and Beast, found by SluiceAsio) and simdjson. Sets
# SLUICE_HAS_HTTP, and SLUICE_HTTP_MISSING: the name of what was not found. Finds yaml-cpp for config.yaml:
# SLUICE_HAS_YAML.

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

set(SLUICE_HAS_YAML OFF)
if(NOT SLUICE_YAML STREQUAL "OFF")
    find_path(SLUICE_YAML_INCLUDE yaml-cpp/eventhandler.h)
    find_library(SLUICE_YAML_LIBRARY yaml-cpp)
    if(SLUICE_YAML_INCLUDE AND SLUICE_YAML_LIBRARY)
        set(SLUICE_HAS_YAML ON)
    elseif(SLUICE_YAML STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_YAML=ON, but yaml-cpp (libyaml-cpp-dev) was not found. "
            "Install it, or add its folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No yaml-cpp (libyaml-cpp-dev): `sluice serve` is built without config.yaml")
    endif()
endif()
