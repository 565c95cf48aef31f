# Debian packages by CPack (scripts/make_packages): the tool, and what programs that use the library are built with. A
# build with CUDA makes packages of other names, of which one can be installed in place of the others.

set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR "The Sluice authors")
set(CPACK_PACKAGE_CONTACT "The Sluice authors <maintainers@sluice.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tool development)
if(SLUICE_C)
    list(APPEND CPACK_COMPONENTS_ALL c_interface)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_SLUICE_BILL_OF_MATERIALS ${PROJECT_BINARY_DIR}/sluice.spdx.json) # for the script in the next line
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)

set(other "")
if(SLUICE_HAS_CUDA)
    set(other -cuda)
endif()
set(CPACK_DEBIAN_TOOL_PACKAGE_NAME sluice${other})
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_TOOL_DESCRIPTION "Runs trained networks: describes, measures and runs networks in ONNX and
 safetensors files, on CPUs and GPUs.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsluice${other}-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The library, its headers and its CMake package, for C++20 programs with
 asynchronous GPU pipelines.")

set(CPACK_DEBIAN_C_INTERFACE_PACKAGE_NAME libsluice-c${other})
set(CPACK_DEBIAN_C_INTERFACE_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_C_INTERFACE_DESCRIPTION "The C interface: a shared library, its header, and files for CMake and
 pkg-config.")

# The dynamic linker's list is renewed, and packages whose programs link libsluice_c depend on this one. CPack's
# own scripts call ldconfig as well, of which lintian warns.
set(control ${PROJECT_BINARY_DIR}/debian_control)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
file(WRITE ${control}/shlibs "libsluice_c 1 libsluice-c${other} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_C_INTERFACE_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs)

# The static library's users link what it uses.
set(depends "libstdc++-12-dev | libstdc++-13-dev | libstdc++-14-dev")
if(SLUICE_CPU_MATH_LIBRARY STREQUAL "ONEDNN")
    string(APPEND depends ", libdnnl-dev")
else()
    string(APPEND depends ", libopenblas-dev")
endif()
if(SLUICE_HAS_ONNX)
    string(APPEND depends ", libprotobuf-dev")
endif()
foreach(each "png libpng-dev" "jpeg libjpeg-dev" "z zlib1g-dev")
    separate_arguments(each)
    list(POP_FRONT each library package)
    if(library IN_LIST SLUICE_INPUT_LIBRARIES)
        string(APPEND depends ", ${package}")
    endif()
endforeach()
if(SLUICE_HAS_HTTP)
    string(APPEND depends ", libsimdjson-dev") # sluice::serve
endif()
if(SLUICE_HAS_GRPC)
    string(APPEND depends ", libgrpc++-dev, libprotobuf-dev") # sluice::serve
endif()
if(SLUICE_HAS_YAML)
    string(APPEND depends ", libyaml-cpp-dev") # sluice::serve
endif()
if(SLUICE_HAS_TLS)
    string(APPEND depends ", libssl-dev") # sluice::serve
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${depends}")

foreach(each "sluice TOOL sluice-cuda" "libsluice-dev DEVELOPMENT libsluice-cuda-dev"
        "libsluice-c C_INTERFACE libsluice-c-cuda")
    separate_arguments(each)
    list(GET each 1 component)
    list(GET each 2 with_cuda)
    list(GET each 0 each)
    if(SLUICE_HAS_CUDA)
        set(CPACK_DEBIAN_${component}_PACKAGE_PROVIDES ${each})
        set(CPACK_DEBIAN_${component}_PACKAGE_CONFLICTS ${each})
        set(CPACK_DEBIAN_${component}_PACKAGE_REPLACES ${each})
    else()
        set(CPACK_DEBIAN_${component}_PACKAGE_CONFLICTS ${with_cuda})
        set(CPACK_DEBIAN_${component}_PACKAGE_REPLACES ${with_cuda})
    endif()
endforeach()
include(CPack)
