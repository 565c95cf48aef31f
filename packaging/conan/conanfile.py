# SPDX-License-Identifier: Apache-2.0
"""The Conan 2 recipe. It builds the archive sluice-VERSION.tar.gz that lies next to it:

    scripts/make_archive packaging/conan && conan create packaging/conan

The recipe requires no Conan packages: the libraries that Sluice needs are the system's, and are named when they are
missing. Programs find Sluice with find_package(sluice) or find_package(sluice_c), or with pkg-config.
"""

import pathlib
import re
import shutil

from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, unzip
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class SluiceRecipe(ConanFile):
    name = "sluice"
    description = "Asynchronous GPU pipelines in C++20, and networks from ONNX files"
    license = "Apache-2.0"
    topics = ("gpu", "cuda", "async", "inference", "onnx")
    package_type = "static-library"  # and libsluice_c, which is shared
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "cuda": [True, False],  # needs nvcc 12.4 or later
        "onnx": [True, False],  # networks from ONNX files: needs protobuf
        "tool": [True, False],  # the command-line tool and its server: needs CLI11, Boost, simdjson and OpenSSL
    }
    default_options = {"cuda": False, "onnx": True, "tool": False}
    exports_sources = "sluice-*.tar.gz"

    def set_version(self):
        names = [path.name for path in pathlib.Path(self.recipe_folder).glob("sluice-*.tar.gz")]
        if len(names) != 1:
            raise ConanException(f"next to the recipe there must be one archive sluice-VERSION.tar.gz, and there are "
                                 f"{len(names)}: {' '.join(sorted(names)) or 'none'}. Write it with "
                                 "scripts/make_archive packaging/conan, and remove older ones")
        version = re.fullmatch(r"sluice-([0-9.]+)\.tar\.gz", names[0])
        if not version:
            raise ConanException(f"the archive {names[0]} names no version: it must be sluice-VERSION.tar.gz")
        if self.version not in (None, version[1]):
            raise ConanException(f"the archive next to the recipe is of version {version[1]}, not {self.version}")
        self.version = version[1]

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"Sluice runs on Linux, not on {self.settings.os}")
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        # On Debian and Ubuntu; elsewhere CMake names what it does not find.
        packages = ["ninja-build", "nlohmann-json3-dev", "zlib1g-dev", "libpng-dev", "libjpeg-dev"]
        if self.options.onnx:
            packages += ["libprotobuf-dev", "protobuf-compiler"]
        if self.options.tool:
            packages += ["libcli11-dev", "libsimdjson-dev", "libssl-dev"]
            packages += ["libgrpc++-dev", "libprotobuf-dev", "protobuf-compiler", "protobuf-compiler-grpc"]
        apt = Apt(self)
        apt.install(packages, check=True)
        apt.install_substitutes(["libdnnl-dev"], ["libopenblas-dev"])
        if self.options.tool:
            apt.install_substitutes(["libboost1.81-dev"], ["libboost1.83-dev"], ["libboost1.88-dev"])

    def source(self):
        unzip(self, f"sluice-{self.version}.tar.gz", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables.update({
            "SLUICE_CUDA": "ON" if self.options.cuda else "OFF",
            "SLUICE_ONNX": "ON" if self.options.onnx else "OFF",
            "SLUICE_MPI": "OFF",
            "SLUICE_C": True,
            "SLUICE_BUILD_APPS": bool(self.options.tool),
            "SLUICE_BUILD_EXAMPLES": False,
            "SLUICE_BUILD_TESTS": False,
            "SLUICE_SOURCES_JOINED": "8",
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")
        share = pathlib.Path(self.package_folder) / "share"
        shutil.rmtree(share / "doc")  # the licence again
        if not any(share.iterdir()):
            share.rmdir()

    def package_info(self):
        # CMake uses the package's own files; the generators for other build systems use what follows, which is what the
        # package says to pkg-config.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/sluice", "lib/cmake/sluice_c"]
        for line in (pathlib.Path(self.package_folder) / "lib/pkgconfig/sluice.pc").read_text().splitlines():
            if line.startswith("Libs:"):
                names = re.findall(r"-l(\S+)", line)
                self.cpp_info.libs = ["sluice"]
                self.cpp_info.system_libs = [name for name in names if name != "sluice"] + ["pthread"]
        if self.options.tool:
            self.runenv_info.append_path("PATH", str(pathlib.Path(self.package_folder) / "bin"))
