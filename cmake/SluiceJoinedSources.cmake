# Compiles up to SLUICE_SOURCES_JOINED of the library's sources of one folder as one: most of the time that one takes is
# the headers'. Names in unnamed namespaces must therefore differ within a folder. A source with compile options of its
# own, and each .cu, is compiled alone.
set(SLUICE_SOURCES_JOINED 1 CACHE STRING
    "How many of the library's sources of one folder are compiled as one: 8 build in half the time on two cores, but a \
change of one then compiles 8")

if(SLUICE_SOURCES_JOINED GREATER 1)
    # Their constants have the same names.
    set_source_files_properties(drawing/graph_svg.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

    get_target_property(sources sluice SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    list(SORT sources)
    set_target_properties(sluice PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    foreach(source IN LISTS sources)
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
        cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        cmake_path(GET path PARENT_PATH folder)
        string(MAKE_C_IDENTIFIER "${folder}" folder)
        if(NOT DEFINED count_${folder})
            set(count_${folder} 0)
        endif()
        math(EXPR group "${count_${folder}} / ${SLUICE_SOURCES_JOINED}")
        math(EXPR count_${folder} "${count_${folder}} + 1")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
    endforeach()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # it takes what is included for a header, used in several places
        target_compile_options(sluice PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
endif()
