# Run by CPack after it has copied the files of each package, and before it packs them (SluicePackages.cmake). Adds what
# Debian's policy wants in each: a copyright file, a changelog, and manual pages that are compressed; and the bill of
# materials.

cmake_minimum_required(VERSION 3.25) # CPack sets no policies
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where that is set
string(TIMESTAMP year "%Y" UTC)
find_program(GZIP gzip REQUIRED)

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
    if(NOT IS_DIRECTORY ${root})
        message(FATAL_ERROR "debian_files.cmake: CPack has not copied the component ${component} to ${root}")
    endif()
    file(REMOVE_RECURSE ${root}/share/doc) # the licence, which the copyright file names, and the bill of materials
    if(component STREQUAL development AND "c_interface" IN_LIST CPACK_COMPONENTS_ALL)
        file(REMOVE_RECURSE ${root}/include/sluice/c) # in the package of the C interface; dpkg refuses a file twice
    endif()
    set(doc ${root}/share/doc/${package})
    file(WRITE ${doc}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Sluice

Files: *
Copyright: ${year} The Sluice authors
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
    file(WRITE ${doc}/changelog
"${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
    file(COPY ${CPACK_SLUICE_BILL_OF_MATERIALS} DESTINATION ${doc} NO_SOURCE_PERMISSIONS)
    file(GLOB pages ${root}/share/man/man*/*.[1-9])
    execute_process(COMMAND ${GZIP} -n9 ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
    if(component STREQUAL c_interface)
        # One package, with the header: few programs use the library, and it keeps its interface.
        file(WRITE ${root}/share/lintian/overrides/${package}
"${package}: package-name-doesnt-match-sonames *
${package}: link-to-shared-library-in-wrong-package *
")
    endif()
endforeach()
