# Finds what `sluice serve` needs for HTTP: Boost 1.81 (Asio and Beast, found by SluiceAsio) and simdjson. Sets
# SLUICE_HAS_HTTP, and SLUICE_WHY_NO_HTTP: what was not found, or the option that leaves it out. The same for YAML
# (yaml-cpp, for config.yaml), GRPC and TLS (OpenSSL 3).

set(SLUICE_HAS_HTTP OFF)
set(SLUICE_WHY_NO_HTTP "")
if(SLUICE_HTTP STREQUAL "OFF")
    set(SLUICE_WHY_NO_HTTP "SLUICE_HTTP=OFF")
else()
    find_path(SLUICE_SIMDJSON_INCLUDE simdjson.h)
    find_library(SLUICE_SIMDJSON_LIBRARY simdjson)
    if(NOT SLUICE_HAS_ASIO AND SLUICE_ASIO STREQUAL "OFF")
        set(SLUICE_WHY_NO_HTTP "SLUICE_ASIO=OFF, and HTTP needs Boost.Asio")
    elseif(NOT SLUICE_HAS_ASIO)
        set(SLUICE_WHY_NO_HTTP "Boost 1.81 or later (libboost1.81-dev) was not found")
    elseif(NOT SLUICE_SIMDJSON_INCLUDE OR NOT SLUICE_SIMDJSON_LIBRARY)
        set(SLUICE_WHY_NO_HTTP "simdjson (libsimdjson-dev) was not found")
    else()
        set(SLUICE_HAS_HTTP ON)
    endif()
    if(NOT SLUICE_HAS_HTTP AND SLUICE_HTTP STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_HTTP=ON, but ${SLUICE_WHY_NO_HTTP}. "
            "Install what is missing, or add its folder to CMAKE_PREFIX_PATH.")
    elseif(NOT SLUICE_HAS_HTTP)
        message(STATUS "`sluice serve` is built without HTTP: ${SLUICE_WHY_NO_HTTP}")
    endif()
endif()

set(SLUICE_HAS_YAML OFF)
set(SLUICE_WHY_NO_YAML "")
if(SLUICE_YAML STREQUAL "OFF")
    set(SLUICE_WHY_NO_YAML "SLUICE_YAML=OFF")
else()
    find_path(SLUICE_YAML_INCLUDE yaml-cpp/eventhandler.h)
    find_library(SLUICE_YAML_LIBRARY yaml-cpp)
    if(SLUICE_YAML_INCLUDE AND SLUICE_YAML_LIBRARY)
        set(SLUICE_HAS_YAML ON)
    elseif(SLUICE_YAML STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_YAML=ON, but yaml-cpp (libyaml-cpp-dev) was not found. "
            "Install it, or add its folder to CMAKE_PREFIX_PATH.")
    else()
        set(SLUICE_WHY_NO_YAML "yaml-cpp (libyaml-cpp-dev) was not found")
        message(STATUS "`sluice serve` is built without config.yaml: ${SLUICE_WHY_NO_YAML}")
    endif()
endif()

# gRPC (libgrpc++-dev, protobuf-compiler-grpc): SLUICE_HAS_GRPC; SLUICE_WHY_NO_GRPC says why not.
# Defines the target sluice_grpc_schema: the C++ code of src/serve/grpc/inference.proto.
set(SLUICE_HAS_GRPC OFF)
set(SLUICE_WHY_NO_GRPC "")
if(SLUICE_GRPC STREQUAL "OFF")
    set(SLUICE_WHY_NO_GRPC "SLUICE_GRPC=OFF")
elseif(SLUICE_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not see the locks and atomics of a library that is not instrumented: it would report a race for
    # each object that gRPC hands from one of its threads to another, also in a program that only starts a server.
    if(SLUICE_GRPC STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_GRPC=ON, but the system's gRPC is not built for SLUICE_SANITIZE=${SLUICE_SANITIZE}")
    endif()
    set(SLUICE_WHY_NO_GRPC "SLUICE_SANITIZE=${SLUICE_SANITIZE} cannot check gRPC")
    message(STATUS "`sluice serve` is built without gRPC: ${SLUICE_WHY_NO_GRPC}")
else()
    find_program(SLUICE_GRPC_PROTOC protoc)
    find_program(SLUICE_GRPC_PLUGIN grpc_cpp_plugin)
    find_path(SLUICE_GRPC_INCLUDE grpcpp/grpcpp.h)
    find_library(SLUICE_GRPC_PROTOBUF protobuf)
    find_library(SLUICE_GRPC_LIBRARY grpc++)
    find_library(SLUICE_GRPC_CORE grpc)
    find_library(SLUICE_GRPC_GPR gpr)
    find_library(SLUICE_GRPC_LOCKS absl_synchronization) # called by gRPC's headers
    if(NOT SLUICE_GRPC_PROTOC OR NOT SLUICE_GRPC_PROTOBUF)
        set(SLUICE_WHY_NO_GRPC "protobuf (libprotobuf-dev, protobuf-compiler) was not found")
    elseif(NOT SLUICE_GRPC_PLUGIN)
        set(SLUICE_WHY_NO_GRPC "gRPC's compiler (protobuf-compiler-grpc) was not found")
    elseif(NOT SLUICE_GRPC_INCLUDE OR NOT SLUICE_GRPC_LIBRARY OR NOT SLUICE_GRPC_CORE OR NOT SLUICE_GRPC_GPR
            OR NOT SLUICE_GRPC_LOCKS)
        set(SLUICE_WHY_NO_GRPC "gRPC (libgrpc++-dev) was not found")
    else()
        set(SLUICE_HAS_GRPC ON)
    endif()
    if(NOT SLUICE_HAS_GRPC AND SLUICE_GRPC STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_GRPC=ON, but ${SLUICE_WHY_NO_GRPC}. "
            "Install it, or add its folder to CMAKE_PREFIX_PATH.")
    elseif(NOT SLUICE_HAS_GRPC)
        message(STATUS "`sluice serve` is built without gRPC: ${SLUICE_WHY_NO_GRPC}")
    endif()
endif()

if(SLUICE_HAS_GRPC)
    set(schema ${PROJECT_SOURCE_DIR}/src/serve/grpc/inference.proto)
    set(generated ${PROJECT_BINARY_DIR}/grpc)
    file(MAKE_DIRECTORY ${generated})
    set(made inference.pb.cc inference.pb.h inference.grpc.pb.cc inference.grpc.pb.h)
    list(TRANSFORM made PREPEND ${generated}/)
    add_custom_command(
        OUTPUT ${made}
        COMMAND ${SLUICE_GRPC_PROTOC} --proto_path ${PROJECT_SOURCE_DIR}/src/serve/grpc --cpp_out ${generated}
            --grpc_out ${generated} --plugin=protoc-gen-grpc=${SLUICE_GRPC_PLUGIN} inference.proto
        DEPENDS ${schema}
        COMMENT "Generating the messages of the Open Inference Protocol"
        VERBATIM)
    # For the sources that include gRPC's or the generated headers; see SLUICE_ONNX_OPTIONS.
    set(SLUICE_GRPC_OPTIONS -isystem${generated})
    if(NOT SLUICE_GRPC_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        list(APPEND SLUICE_GRPC_OPTIONS -isystem${SLUICE_GRPC_INCLUDE})
    endif()
    # An object library of its own: the generated code does not pass our warnings.
    add_library(sluice_grpc_schema OBJECT ${made})
    target_compile_features(sluice_grpc_schema PRIVATE cxx_std_20)
    target_compile_options(sluice_grpc_schema PRIVATE -w ${SLUICE_GRPC_OPTIONS})
    set_target_properties(sluice_grpc_schema PROPERTIES CXX_CLANG_TIDY "" POSITION_INDEPENDENT_CODE ON)
    if(SLUICE_SANITIZE)
        target_compile_options(sluice_grpc_schema PRIVATE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer)
    endif()
endif()

set(SLUICE_HAS_TLS OFF)
set(SLUICE_WHY_NO_TLS "")
if(SLUICE_TLS STREQUAL "OFF")
    set(SLUICE_WHY_NO_TLS "SLUICE_TLS=OFF")
else()
    find_package(OpenSSL 3.0 QUIET)
    if(OpenSSL_FOUND)
        set(SLUICE_HAS_TLS ON)
    else()
        set(SLUICE_WHY_NO_TLS "OpenSSL 3 (libssl-dev) was not found")
        if(SLUICE_TLS STREQUAL "ON")
            message(FATAL_ERROR "SLUICE_TLS=ON, but ${SLUICE_WHY_NO_TLS}. "
                "Install it, or add its folder to CMAKE_PREFIX_PATH.")
        endif()
        message(STATUS "`sluice serve` is built without TLS: ${SLUICE_WHY_NO_TLS}")
    endif()
endif()
