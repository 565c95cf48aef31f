# Writes sluice.spdx.json into the build folder: the bill of materials of this build in SPDX 2.3, with what is linked,
# compiled in or opened at run time, and the versions that CMake found. It is installed with the library's licence, and
# scripts/make_bill_of_materials copies it. The same build gives the same bytes where SOURCE_DATE_EPOCH is set.

# sluice_version_in(<variable> <file> <regular expression>...): the first groups of the expressions in a header, joined by
# dots; NOASSERTION where the header is not there or says it in another way.
function(sluice_version_in variable file)
    set(parts "")
    foreach(pattern IN LISTS ARGN)
        set(line "")
        if(EXISTS "${file}")
            file(STRINGS "${file}" line REGEX "${pattern}" LIMIT_COUNT 1)
        endif()
        if("${line}" MATCHES "${pattern}")
            list(APPEND parts "${CMAKE_MATCH_1}")
        else()
            set(parts NOASSERTION)
            break()
        endif()
    endforeach()
    list(JOIN parts "." version)
    set(${variable} "${version}" PARENT_SCOPE)
endfunction()

# sluice_material(<SPDX id> <name> <version> <licence> <relationship> <supplier> <address>): one dependency.
# The relationship reads from the project to it, as SPDX names it; RUNTIME_DEPENDENCY_OF, BUILD_TOOL_OF and
# TEST_DEPENDENCY_OF read the other way. Adds to sluice_packages and sluice_relationships of the caller.
function(sluice_material id name version licence relationship supplier address)
    set(version_line "")
    if(NOT version MATCHES "^(NOASSERTION)?$") # an unknown version is left out, as SPDX permits
        set(version_line "\n      \"versionInfo\": \"${version}\",")
    endif()
    set(package "    {
      \"SPDXID\": \"SPDXRef-${id}\",
      \"name\": \"${name}\",${version_line}
      \"supplier\": \"Organization: ${supplier}\",
      \"downloadLocation\": \"NOASSERTION\",
      \"homepage\": \"${address}\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"${licence}\",
      \"copyrightText\": \"NOASSERTION\"
    }")
    set(from SPDXRef-sluice)
    set(to SPDXRef-${id})
    if(relationship MATCHES "_OF$")
        set(from SPDXRef-${id})
        set(to SPDXRef-sluice)
    endif()
    set(relation "    {\"spdxElementId\": \"${from}\", \"relationshipType\": \"${relationship}\", \"relatedSpdxElement\": \"${to}\"}")
    set(sluice_packages "${sluice_packages},\n${package}" PARENT_SCOPE)
    set(sluice_relationships "${sluice_relationships},\n${relation}" PARENT_SCOPE)
endfunction()

function(sluice_write_bill_of_materials to)
    set(sluice_packages "    {
      \"SPDXID\": \"SPDXRef-sluice\",
      \"name\": \"sluice\",
      \"versionInfo\": \"${PROJECT_VERSION}\",
      \"supplier\": \"Organization: The Sluice authors\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"Apache-2.0\",
      \"licenseDeclared\": \"Apache-2.0\",
      \"copyrightText\": \"Copyright The Sluice authors\",
      \"summary\": \"${PROJECT_DESCRIPTION}\",
      \"primaryPackagePurpose\": \"LIBRARY\"
    }")
    set(sluice_relationships "    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-sluice\"}")
    set(licences "")
    set(number "([0-9]+)")

    if(SLUICE_CPU_MATH_LIBRARY STREQUAL "ONEDNN")
        set(header ${SLUICE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h)
        sluice_version_in(version ${header} "DNNL_VERSION_MAJOR ${number}" "DNNL_VERSION_MINOR ${number}"
            "DNNL_VERSION_PATCH ${number}")
        sluice_material(onednn oneDNN "${version}" Apache-2.0 DYNAMIC_LINK Intel https://github.com/oneapi-src/oneDNN)
        sluice_material(libgomp libgomp NOASSERTION "GPL-3.0-or-later WITH GCC-exception-3.1" DYNAMIC_LINK
            "Free Software Foundation" https://gcc.gnu.org)
    else()
        sluice_version_in(version ${SLUICE_OPENBLAS_INCLUDE}/openblas_config.h "OpenBLAS ([0-9.]+)")
        sluice_material(openblas OpenBLAS "${version}" BSD-3-Clause DYNAMIC_LINK "The OpenBLAS project"
            https://www.openblas.net)
    endif()
    if(SLUICE_HAS_ONNX)
        # 3021012 is 3.21.12, whose name for programs other than C++ is 21.12.
        sluice_version_in(version ${SLUICE_PROTOBUF_INCLUDE}/google/protobuf/stubs/common.h
            "define GOOGLE_PROTOBUF_VERSION ${number}")
        if(NOT version STREQUAL "NOASSERTION")
            math(EXPR major "${version} / 1000000")
            math(EXPR minor "${version} / 1000 % 1000")
            math(EXPR patch "${version} % 1000")
            set(version ${major}.${minor}.${patch})
        endif()
        sluice_material(protobuf protobuf-lite "${version}" BSD-3-Clause DYNAMIC_LINK Google https://protobuf.dev)
        sluice_material(protoc protoc "${version}" BSD-3-Clause BUILD_TOOL_OF Google https://protobuf.dev)
    endif()
    if(SLUICE_HAS_ZLIB)
        sluice_version_in(version ${SLUICE_ZLIB_INCLUDE}/zlib.h "define ZLIB_VERSION \"([^\"]+)\"")
        sluice_material(zlib zlib "${version}" Zlib DYNAMIC_LINK "Jean-loup Gailly and Mark Adler" https://zlib.net)
    endif()
    if(SLUICE_HAS_PNG)
        sluice_version_in(version ${SLUICE_PNG_INCLUDE}/png.h "define PNG_LIBPNG_VER_STRING \"([^\"]+)\"")
        sluice_material(libpng libpng "${version}" libpng-2.0 DYNAMIC_LINK "The PNG Reference Library authors"
            http://www.libpng.org/pub/png/libpng.html)
    endif()
    if(SLUICE_HAS_JPEG)
        find_file(SLUICE_JPEG_CONFIG jconfig.h HINTS ${SLUICE_JPEG_INCLUDE})
        mark_as_advanced(SLUICE_JPEG_CONFIG)
        sluice_version_in(version "${SLUICE_JPEG_CONFIG}" "define LIBJPEG_TURBO_VERSION +([0-9.]+)")
        sluice_material(libjpeg libjpeg-turbo "${version}" "IJG AND BSD-3-Clause AND Zlib" DYNAMIC_LINK
            "The libjpeg-turbo project" https://libjpeg-turbo.org)
    endif()
    if(TARGET sluice_serve)
        find_package(nlohmann_json QUIET)
        sluice_material(nlohmann-json nlohmann-json "${nlohmann_json_VERSION}" MIT STATIC_LINK "Niels Lohmann"
            https://json.nlohmann.me)
        if(SLUICE_HAS_HTTP)
            sluice_version_in(version ${SLUICE_BOOST_INCLUDE}/boost/version.hpp "define BOOST_LIB_VERSION \"([^\"]+)\"")
            string(REPLACE "_" "." version "${version}")
            sluice_material(boost "Boost (Asio and Beast)" "${version}" BSL-1.0 STATIC_LINK "The Boost authors"
                https://www.boost.org)
            sluice_version_in(version ${SLUICE_SIMDJSON_INCLUDE}/simdjson.h "define SIMDJSON_VERSION \"?([0-9.]+)")
            sluice_material(simdjson simdjson "${version}" Apache-2.0 DYNAMIC_LINK "The simdjson authors"
                https://simdjson.org)
        endif()
        if(SLUICE_HAS_GRPC)
            sluice_version_in(version ${SLUICE_GRPC_INCLUDE}/grpcpp/version_info.h
                "define GRPC_CPP_VERSION_STRING \"([^\"]+)\"")
            sluice_material(grpc gRPC "${version}" Apache-2.0 DYNAMIC_LINK "The gRPC authors" https://grpc.io)
        endif()
        if(SLUICE_HAS_TLS)
            sluice_material(openssl OpenSSL "${OPENSSL_VERSION}" Apache-2.0 DYNAMIC_LINK "The OpenSSL project"
                https://www.openssl.org)
        endif()
    endif()
    if(SLUICE_BUILD_APPS)
        find_package(CLI11 QUIET)
        sluice_material(cli11 CLI11 "${CLI11_VERSION}" BSD-3-Clause STATIC_LINK "University of Cincinnati"
            https://github.com/CLIUtils/CLI11)
        if(SLUICE_HAS_MPI)
            sluice_material(mpi MPI NOASSERTION NOASSERTION DYNAMIC_LINK "the maker of the MPI that was found"
                https://www.mpi-forum.org)
        endif()
    endif()
    if(SLUICE_HAS_CUDA)
        sluice_material(cudart "CUDA runtime" "${CUDAToolkit_VERSION}" LicenseRef-NVIDIA-CUDA STATIC_LINK NVIDIA
            https://developer.nvidia.com/cuda-toolkit)
        sluice_material(cuda-libraries "cuBLAS, cuBLASLt and NVRTC" "${CUDAToolkit_VERSION}" LicenseRef-NVIDIA-CUDA
            RUNTIME_DEPENDENCY_OF NVIDIA https://developer.nvidia.com/cuda-toolkit)
        if(SLUICE_HAS_CUDNN)
            set(header ${SLUICE_CUDNN_INCLUDE}/cudnn_version.h)
            sluice_version_in(version ${header} "define CUDNN_MAJOR ${number}" "define CUDNN_MINOR ${number}"
                "define CUDNN_PATCHLEVEL ${number}")
            sluice_material(cudnn cuDNN "${version}" LicenseRef-NVIDIA-cuDNN RUNTIME_DEPENDENCY_OF NVIDIA
                https://developer.nvidia.com/cudnn)
        endif()
        if(SLUICE_HAS_NCCL)
            set(header ${SLUICE_NCCL_INCLUDE}/nccl.h)
            sluice_version_in(version ${header} "define NCCL_MAJOR ${number}" "define NCCL_MINOR ${number}"
                "define NCCL_PATCH ${number}")
            sluice_material(nccl NCCL "${version}" BSD-3-Clause RUNTIME_DEPENDENCY_OF NVIDIA
                https://developer.nvidia.com/nccl)
        endif()
        set(terms "Terms of NVIDIA, which come with the library; see its address.")
        set(licences "    {\"licenseId\": \"LicenseRef-NVIDIA-CUDA\", \"name\": \"NVIDIA CUDA Toolkit EULA\", \"extractedText\": \"${terms}\"}")
        if(SLUICE_HAS_CUDNN)
            string(APPEND licences
                ",\n    {\"licenseId\": \"LicenseRef-NVIDIA-cuDNN\", \"name\": \"NVIDIA cuDNN SLA\", \"extractedText\": \"${terms}\"}")
        endif()
        set(licences ",\n  \"hasExtractedLicensingInfos\": [\n${licences}\n  ]")
    endif()
    if(SLUICE_BUILD_TESTS)
        sluice_material(googletest GoogleTest "${GTest_VERSION}" BSD-3-Clause TEST_DEPENDENCY_OF Google
            https://google.github.io/googletest/)
    endif()

    # A document's namespace names its content, so that two builds with other materials have other ones.
    string(SHA1 content "${sluice_packages}${sluice_relationships}${licences}")
    string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC) # SOURCE_DATE_EPOCH, where that is set
    file(CONFIGURE OUTPUT ${to} @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "sluice-@PROJECT_VERSION@",
  "documentNamespace": "https://spdx.org/spdxdocs/sluice-@PROJECT_VERSION@-@content@",
  "creationInfo": {
    "created": "@created@",
    "creators": ["Organization: The Sluice authors", "Tool: SluiceBillOfMaterials.cmake"]
  },
  "packages": [
@sluice_packages@
  ],
  "relationships": [
@sluice_relationships@
  ]@licences@
}
]])
endfunction()

sluice_write_bill_of_materials(${PROJECT_BINARY_DIR}/sluice.spdx.json)
install(FILES ${PROJECT_BINARY_DIR}/sluice.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
