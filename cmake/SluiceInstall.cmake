# The install rules: the library, its headers, and a CMake package that finds the library's dependencies.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(sluice_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

install(TARGETS sluice EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${sluice_package_dir})

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
