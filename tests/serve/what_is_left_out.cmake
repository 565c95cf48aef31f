# What a build without a part of `sluice serve` says of the reason: the option that leaves it out, or what was not found.
# Run as a script: cmake -P what_is_left_out.cmake
cmake_minimum_required(VERSION 3.25)

function(check part wanted)
    if(NOT SLUICE_WHY_NO_${part} STREQUAL wanted OR SLUICE_HAS_${part})
        message(SEND_ERROR "SLUICE_WHY_NO_${part} is '${SLUICE_WHY_NO_${part}}', and not '${wanted}'")
    endif()
endfunction()

set(module ${CMAKE_CURRENT_LIST_DIR}/../../cmake/SluiceServe.cmake)
set(SLUICE_ASIO AUTO)
foreach(part HTTP YAML GRPC TLS)
    set(SLUICE_${part} OFF)
endforeach()
include(${module})
foreach(part HTTP YAML GRPC TLS)
    check(${part} "SLUICE_${part}=OFF")
endforeach()

# Nothing is found. Libraries that have been looked for are not looked for again.
foreach(part HTTP YAML GRPC TLS)
    set(SLUICE_${part} AUTO)
endforeach()
set(CMAKE_DISABLE_FIND_PACKAGE_OpenSSL ON)
foreach(each YAML_INCLUDE YAML_LIBRARY GRPC_PROTOC GRPC_PROTOBUF)
    set(SLUICE_${each} "")
endforeach()
include(${module})
check(HTTP "Boost 1.81 or later (libboost1.81-dev) was not found")
check(YAML "yaml-cpp (libyaml-cpp-dev) was not found")
check(GRPC "protobuf (libprotobuf-dev, protobuf-compiler) was not found")
check(TLS "OpenSSL 3 (libssl-dev) was not found")

set(SLUICE_ASIO OFF)
include(${module})
check(HTTP "SLUICE_ASIO=OFF, and HTTP needs Boost.Asio")
