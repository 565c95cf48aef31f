# The install rules: the library, its headers, and a CMake package that finds the library's dependencies.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(sluice_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

install(TARGETS sluice EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sluice_serve) # sluice::serve, where the tool or the tests are built
    install(TARGETS sluice_serve EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${sluice_package_dir})

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
