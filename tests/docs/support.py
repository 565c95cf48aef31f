#!/usr/bin/env python3
"""Checks that docs/support.md names the versions that CMake, the presets and the scripts ask for.

    support.py REPOSITORY      prints each row that is missing or has another version, and fails
    support.py --self-test     plants mistakes in a copy of what it reads, and fails unless each is found

What it compares is the first cell of each row: "g++ 12", "CUDA 12.4 or later". Both directions are checked: a version
that a file asks for has a row, and a row about the same thing has no other version.
"""

import pathlib
import re
import sys
import tempfile

import checking

PAGE = "docs/support.md"
DEBIAN = {"bookworm": "12", "trixie": "13"}


def boost(number):  # 108100 -> 1.81
    return f"{int(number) // 100000}.{int(number) // 100 % 1000}"


def architectures(text):  # "80-real 86-real 90" -> sm_80, sm_86, sm_90
    return ", ".join("sm_" + each for each in re.findall(r"\d+", text))


# What the row begins with, what follows the version there, the file, what the version is in, how it is written.
FACTS = [
    ("g++ ", "", ".ci/run", r"g\+\+ (\d+)", str),
    ("clang ", "", "CMakePresets.json", r"clang\+\+-(\d+)", str),
    ("CUDA ", " or later", "cmake/SluiceCuda.cmake", r"find_package\(CUDAToolkit ([\d.]+) REQUIRED\)", str),
    ("cuDNN ", "", "cmake/SluiceCuda.cmake", r'sluice_cudnn_version STREQUAL "(\d+)"', str),
    ("sm_", "", "cmake/SluiceCuda.cmake", r"set\(usual ([\d a-z-]+)\)", architectures),
    ("sm_", "", "cmake/SluiceCuda.cmake", r"set\(released ([\d a-z-]+ 120)\)", architectures),
    ("CMake ", " or later", "CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)\)", str),
    ("Boost ", " or later", "cmake/SluiceAsio.cmake", r"GREATER_EQUAL (\d+)", boost),
    ("Python ", " or later", "python/pyproject.toml", r'requires-python = ">=([\d.]+)"', str),
    ("Debian ", "", "tests/install/clean_root", r"^release=(\w+)", DEBIAN.get),
    ("Debian ", "", "scripts/in_newer_root", r"^release=(\w+)", DEBIAN.get),
]


def first_cells(page):
    return [match.strip() for match in re.findall(r"^\|([^|\n]*)\|", page, re.MULTILINE)]


def problems(root):
    cells = first_cells((root / PAGE).read_text("utf-8"))
    found, wanted = [], {}
    for prefix, suffix, file, pattern, written in FACTS:
        versions = sorted(set(re.findall(pattern, (root / file).read_text("utf-8"), re.MULTILINE)))
        if not versions:
            found.append(f"{file}: no version of {prefix.strip()} was found: support.py must learn where it is now")
        for version in versions:
            if written(version) is None:
                found.append(f"{file}: '{version}' is not known: name its number in support.py")
                continue
            name = written(version)
            cell = (name if name.startswith(prefix) else prefix + name) + suffix
            wanted.setdefault(prefix, {})[cell] = file
    for prefix, rows in wanted.items():
        for cell, file in rows.items():
            if cell not in cells:
                found.append(f"{PAGE}: no row begins with '{cell}', which {file} asks for")
        for cell in cells:
            if cell.startswith(prefix) and cell not in rows:
                found.append(f"{PAGE}: the row '{cell}' has a version that {', '.join(sorted(set(rows.values())))} does not")
    return found


def self_test():
    here = pathlib.Path(__file__).resolve().parents[2]
    names = {PAGE} | {file for _, _, file, _, _ in FACTS}
    healthy = {name: (here / name).read_text("utf-8") for name in names}
    planted = [("g++ 14 alone in .ci/run", ".ci/run", "g++ 14", "g++ 15", "'g++ 15'"),
               ("clang", "CMakePresets.json", "clang++-19", "clang++-20", "'clang 20'"),
               ("CUDA", "cmake/SluiceCuda.cmake", "CUDAToolkit 12.4", "CUDAToolkit 12.8", "'CUDA 12.8 or later'"),
               ("architectures", "cmake/SluiceCuda.cmake", "usual 80-real 89-real", "usual 89-real", "'sm_89, sm_90'"),
               ("released architectures", "cmake/SluiceCuda.cmake", "100-real 120)", "120)", "sm_90, sm_120'"),
               ("Boost", "cmake/SluiceAsio.cmake", "108100", "108300", "'Boost 1.83 or later'"),
               ("release", "scripts/in_newer_root", "release=trixie", "release=odd", "'odd' is not known"),
               ("moved", "CMakeLists.txt", "cmake_minimum_required(VERSION", "cmake_minimum(", "must learn"),
               ("a row of its own", PAGE, "| clang 19 |", "| clang 19 |\n| clang 14 |", "the row 'clang 14'"),
               ("a row less", PAGE, "| g++ 12 |", "| gcc |", "'g++ 12'")]
    failures = []
    for name, file, old, new, reason in [("healthy", PAGE, "", "", None)] + planted:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in healthy.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text.replace(old, new) if path == file and old else text, "utf-8")
            found = problems(root)
        if (found if reason is None else not any(reason in line for line in found)):
            failures.append(f"{name}: found {found}")
    return failures


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems, self_test))
