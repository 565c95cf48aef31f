# Finds protobuf, with which ONNX files are read. Sets SLUICE_HAS_ONNX, and defines the target sluice_onnx_schema: the
# C++ code of src/nn/onnx/onnx.proto; SLUICE_ONNX_OPTIONS are the compile options of what includes it. The installed package names the library as SLUICE_ONNX_LIBRARY_NAME.

set(SLUICE_HAS_ONNX OFF)
set(SLUICE_ONNX_LIBRARY_NAME "")
if(NOT SLUICE_ONNX STREQUAL "OFF")
    find_program(SLUICE_PROTOC protoc)
    find_path(SLUICE_PROTOBUF_INCLUDE google/protobuf/message_lite.h)
    find_library(SLUICE_PROTOBUF_LIBRARY protobuf-lite)
    if(SLUICE_PROTOC AND SLUICE_PROTOBUF_INCLUDE AND SLUICE_PROTOBUF_LIBRARY)
        set(SLUICE_HAS_ONNX ON)
        set(SLUICE_ONNX_LIBRARY_NAME protobuf-lite)
    elseif(SLUICE_ONNX STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_ONNX=ON, but protobuf was not found. Install libprotobuf-dev and protobuf-compiler, "
            "or add protobuf's folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No protobuf: networks in ONNX files are refused")
    endif()
endif()

if(SLUICE_HAS_ONNX)
    set(schema ${PROJECT_SOURCE_DIR}/src/nn/onnx/onnx.proto)
    set(generated ${PROJECT_BINARY_DIR}/onnx)
    file(MAKE_DIRECTORY ${generated})
    add_custom_command(
        OUTPUT ${generated}/onnx.pb.cc ${generated}/onnx.pb.h
        COMMAND ${SLUICE_PROTOC} --proto_path ${PROJECT_SOURCE_DIR}/src/nn/onnx --cpp_out ${generated} onnx.proto
        DEPENDS ${schema}
        COMMENT "Generating the reader of ONNX's messages"
        VERBATIM)
    # For the sources that include the generated header. The system's own folder must not be named: the standard
    # library's headers are found relative to it.
    set(SLUICE_ONNX_OPTIONS -isystem${generated})
    if(NOT SLUICE_PROTOBUF_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        list(APPEND SLUICE_ONNX_OPTIONS -isystem${SLUICE_PROTOBUF_INCLUDE})
    endif()
    # An object library of its own: the generated code does not pass our warnings.
    add_library(sluice_onnx_schema OBJECT ${generated}/onnx.pb.cc ${generated}/onnx.pb.h)
    target_compile_features(sluice_onnx_schema PRIVATE cxx_std_20)
    target_include_directories(sluice_onnx_schema SYSTEM PUBLIC ${generated} ${SLUICE_PROTOBUF_INCLUDE})
    set_target_properties(sluice_onnx_schema PROPERTIES CXX_CLANG_TIDY "" POSITION_INDEPENDENT_CODE ON)
    if(SLUICE_SANITIZE)
        target_compile_options(sluice_onnx_schema PRIVATE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer)
    endif()
endif()
