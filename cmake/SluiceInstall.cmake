# The install rules: the library, its headers, a CMake package that finds the library's dependencies, and a file for
# pkg-config. The component `development` is all of this; `tool` is the command-line tool (apps/sluice).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(sluice_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

install(TARGETS sluice EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sluice_serve) # sluice::serve and sluice::check, where the tool or the tests are built
    install(TARGETS sluice_serve sluice_check EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${sluice_package_dir})
include(SluiceBillOfMaterials)

# The C interface can be installed alone (the component c_interface): a program in C needs no other part.
if(SLUICE_C)
    install(TARGETS sluice_c EXPORT sluice_cTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c_interface)
    install(FILES ${PROJECT_SOURCE_DIR}/include/sluice/c/sluice.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/c COMPONENT c_interface)
    install(EXPORT sluice_cTargets NAMESPACE sluice::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice_c COMPONENT c_interface)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluice_cConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    file(RELATIVE_PATH sluice_c_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # from the folder of the file
    configure_file(${PROJECT_SOURCE_DIR}/cmake/sluice_c.pc.in ${PROJECT_BINARY_DIR}/sluice_c.pc @ONLY)
    install(FILES ${PROJECT_SOURCE_DIR}/cmake/sluice_cConfig.cmake ${PROJECT_BINARY_DIR}/sluice_cConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice_c COMPONENT c_interface)
    install(FILES ${PROJECT_BINARY_DIR}/sluice_c.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT c_interface)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sluiceConfig.cmake.in
    ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
    INSTALL_DESTINATION ${sluice_package_dir}
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
    ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/SluiceKernelSources.cmake
    DESTINATION ${sluice_package_dir})

# For pkg-config: what a program links besides the static library.
set(libraries ${SLUICE_CPU_MATH_NAME} ${SLUICE_CPU_MATH_EXTRA_LIBRARIES} ${SLUICE_ONNX_LIBRARY_NAME}
    ${SLUICE_INPUT_LIBRARIES})
list(TRANSFORM libraries PREPEND -l)
if(SLUICE_HAS_CUDA)
    list(APPEND libraries -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt)
endif()
list(JOIN libraries " " sluice_pc_libraries)
string(APPEND sluice_pc_libraries " -pthread")
set(sluice_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH sluice_pc_prefix /usr/${sluice_pc_dir} /usr)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${sluice_pc_dir})

configure_file(${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake.in ${PROJECT_BINARY_DIR}/uninstall.cmake @ONLY)
if(PROJECT_IS_TOP_LEVEL)
    add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/uninstall.cmake)
    include(SluicePackages)
endif()
