# Run by ctest; see CMakeLists.txt for the variables. Installs everything and one component, and removes both by the
# target `uninstall`. Then nothing is left but files that others put there.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

# Sets `said`.
function(uninstall expected)
    execute_process(COMMAND ${CMAKE_COMMAND} --build ${SLUICE_BINARY_DIR} --target uninstall
        COMMAND_ECHO STDOUT RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
    string(REGEX REPLACE "[ \n]+" " " said "${output}${errors}") # messages of CMake have lines of their own
    if((expected STREQUAL "succeeds" AND NOT status EQUAL 0) OR (expected STREQUAL "fails" AND status EQUAL 0))
        message(FATAL_ERROR "uninstall should have said that it ${expected}:\n${said}")
    endif()
    set(said "${said}" PARENT_SCOPE)
endfunction()

function(require_files expected)
    file(GLOB_RECURSE found LIST_DIRECTORIES false RELATIVE ${WORK_DIR} ${WORK_DIR}/*)
    list(SORT found)
    if(NOT found STREQUAL expected)
        message(FATAL_ERROR "expected [${expected}], found [${found}]")
    endif()
endfunction()

set(all ${WORK_DIR}/all)
set(alone ${WORK_DIR}/alone)
file(REMOVE_RECURSE ${WORK_DIR})
file(GLOB manifests ${SLUICE_BINARY_DIR}/install_manifest*.txt)
if(manifests)
    file(REMOVE ${manifests})
endif()

uninstall(fails)
if(NOT said MATCHES "Nothing is known to be installed from this folder")
    message(FATAL_ERROR "not the reason: ${said}")
endif()

run(${CMAKE_COMMAND} --install ${SLUICE_BINARY_DIR} --prefix ${all})
run(${CMAKE_COMMAND} --install ${SLUICE_BINARY_DIR} --prefix ${alone} --component c_interface)
file(GLOB_RECURSE installed RELATIVE ${WORK_DIR} ${all}/*.hpp ${alone}/*.h)
list(LENGTH installed count)
if(count LESS 100)
    message(FATAL_ERROR "only ${count} headers were installed")
endif()
file(WRITE ${all}/include/sluice/of_another.hpp "// not installed by CMake\n")

# A file that cannot be removed, here because a folder has its place: it is named, and the manifests stay.
file(REMOVE ${all}/include/sluice/sluice.hpp)
file(WRITE ${all}/include/sluice/sluice.hpp/kept "")
uninstall(fails)
if(NOT said MATCHES "could not be removed[^/]*${all}/include/sluice/sluice\\.hpp")
    message(FATAL_ERROR "the file that stays is not named: ${said}")
endif()
require_files("all/include/sluice/of_another.hpp;all/include/sluice/sluice.hpp/kept")
file(REMOVE_RECURSE ${all}/include/sluice/sluice.hpp)

uninstall(succeeds)
require_files("all/include/sluice/of_another.hpp")
file(GLOB_RECURSE folders LIST_DIRECTORIES true ${WORK_DIR}/*)
list(FILTER folders INCLUDE REGEX "/(sluice|sluice_c)$")
if(NOT folders STREQUAL "${all}/include/sluice")
    message(FATAL_ERROR "folders of Sluice stay: ${folders}")
endif()
uninstall(fails)
