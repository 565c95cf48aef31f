# Compiles up to SLUICE_SOURCES_JOINED of the library's sources of one folder as one, and as many files of kernels (.cu) of
# one namespace: most of the time that one takes is the headers'. Names in unnamed namespaces must therefore differ within a
# folder, and among such files of kernels. A source with compile options of its own is compiled alone.
set(SLUICE_SOURCES_JOINED 1 CACHE STRING
    "How many of the library's sources of one folder are compiled as one: 8 build in half the time on two cores, but a \
change of one then compiles 8")

# sluice_join_sources(<target>): joins those .cpp that the target has so far. Called in the folder of its sources.
function(sluice_join_sources target)
    if(SLUICE_SOURCES_JOINED GREATER 1)
        get_target_property(sources ${target} SOURCES)
        list(FILTER sources INCLUDE REGEX "\\.cpp$")
        list(SORT sources)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
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
            target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
        endif()
    endif()
endfunction()

# sluice_joined_kernels(<variable> <name> <file.cu>...): appends to the variable the files to compile instead of these files
# of kernels, which they include. All have one namespace: nvcc confuses unnamed namespaces of several.
function(sluice_joined_kernels variable name)
    set(joined ${${variable}})
    if(SLUICE_SOURCES_JOINED GREATER 1)
        set(count 0)
        set(files)
        foreach(source IN LISTS ARGN)
            math(EXPR group "${count} / ${SLUICE_SOURCES_JOINED}")
            math(EXPR count "${count} + 1")
            set(file ${CMAKE_CURRENT_BINARY_DIR}/joined/${name}_${group}.cu)
            string(APPEND text_of_${file} "#include \"${source}\"\n")
            list(APPEND files ${file})
        endforeach()
        list(REMOVE_DUPLICATES files)
        foreach(file IN LISTS files)
            file(CONFIGURE OUTPUT ${file} CONTENT "${text_of_${file}}" @ONLY)
        endforeach()
        list(APPEND joined ${files})
    else()
        list(APPEND joined ${ARGN})
    endif()
    set(${variable} ${joined} PARENT_SCOPE)
endfunction()
