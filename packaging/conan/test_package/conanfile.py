# SPDX-License-Identifier: Apache-2.0
"""Builds and runs a program in C++ and one in C with the package, as a user of Conan does."""

import pathlib

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class SluiceTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeToolchain(self, generator="Ninja").generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("sum", "version"):
                self.run(str(pathlib.Path(self.build_folder, self.cpp.build.bindir, program)), env="conanrun")
