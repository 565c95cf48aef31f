# Finds Boost.Asio, if it is installed, for the tests and the example of the adaptor sluice/asio.hpp. The library itself
# does not need Boost. Sets SLUICE_HAS_ASIO and, if Asio is found, defines the target sluice_asio.

set(SLUICE_HAS_ASIO OFF)
find_path(SLUICE_BOOST_INCLUDE boost/asio.hpp)
if(NOT SLUICE_ASIO STREQUAL "OFF")
    set(sluice_boost_version 0)
    if(SLUICE_BOOST_INCLUDE AND EXISTS ${SLUICE_BOOST_INCLUDE}/boost/version.hpp)
        file(STRINGS ${SLUICE_BOOST_INCLUDE}/boost/version.hpp sluice_boost_version REGEX "define BOOST_VERSION ")
        string(REGEX MATCH "[0-9]+" sluice_boost_version "${sluice_boost_version}")
    endif()
    if(sluice_boost_version GREATER_EQUAL 108100)
        set(SLUICE_HAS_ASIO ON)
        add_library(sluice_asio INTERFACE)
        target_include_directories(sluice_asio SYSTEM INTERFACE ${SLUICE_BOOST_INCLUDE})
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
            # g++ warns wrongly about the frames of Asio's coroutines, which have their own operator new and delete.
            target_compile_options(sluice_asio INTERFACE -Wno-mismatched-new-delete)
        endif()
    elseif(SLUICE_ASIO STREQUAL "ON")
        message(FATAL_ERROR "SLUICE_ASIO=ON, but Boost.Asio of Boost 1.81 or later was not found. "
            "Install libboost1.81-dev or later, or add its folder to CMAKE_PREFIX_PATH.")
    else()
        message(STATUS "No Boost 1.81 or later: the tests and the example of sluice/asio.hpp are not built")
    endif()
endif()
