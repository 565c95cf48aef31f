# Builds the archive that lies next to this file; scripts/make_archive packaging/vcpkg writes it there.
set(archive "${CURRENT_PORT_DIR}/sluice-${VERSION}.tar.gz")
if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "The archive of the sources is missing: ${archive}. In a clone of Sluice, "
        "scripts/make_archive packaging/vcpkg writes it.")
endif()
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options
    FEATURES
        c SLUICE_C
        cuda SLUICE_CUDA
        tool SLUICE_BUILD_APPS)

# No ONNX and no gRPC: protobuf as it is in vcpkg needs Abseil, which this build does not link.
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${feature_options}
        -DSLUICE_BUILD_EXAMPLES=OFF
        -DSLUICE_BUILD_TESTS=OFF
        -DSLUICE_CPU_MATH=OPENBLAS
        -DSLUICE_CUDNN=OFF
        -DSLUICE_GRPC=OFF
        -DSLUICE_JPEG=ON
        -DSLUICE_MPI=OFF
        -DSLUICE_NCCL=OFF
        -DSLUICE_ONNX=OFF
        -DSLUICE_PNG=ON
        -DSLUICE_SOURCES_JOINED=8
        -DSLUICE_ZLIB=ON)
vcpkg_cmake_install()
if("c" IN_LIST FEATURES)
    vcpkg_cmake_config_fixup(PACKAGE_NAME sluice_c CONFIG_PATH lib/cmake/sluice_c DO_NOT_DELETE_PARENT_CONFIG_PATH)
endif()
vcpkg_cmake_config_fixup(PACKAGE_NAME sluice CONFIG_PATH lib/cmake/sluice)
if("tool" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES sluice AUTO_CLEAN)
endif()
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/doc") # the licence, which the next line installs where vcpkg wants it
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
