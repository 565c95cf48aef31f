"""Checks from where the libraries of CUDA come in this process; tests/install/nvidia_wheels runs it.

    nvidia_wheels.py found       all are opened, each from NVIDIA's wheels next to the package sluice
    nvidia_wheels.py refused     none can be opened
"""

import ctypes
import importlib.metadata
import pathlib
import re
import sys

import sluice

LIBRARIES = ("libcublas", "libcublasLt", "libnvrtc", "libnvrtc-builtins")


def loaded():
    """{name of a library of CUDA: the files that it was loaded from}."""
    found = {}
    for line in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[-1]
        match = re.match(r"/.*/(lib(?:cu|nv)[\w-]*)\.so", path)
        if match:
            found.setdefault(match.group(1), set()).add(path)
    return found


def main(arguments):
    if arguments not in (["found"], ["refused"]):
        print(__doc__, file=sys.stderr)
        return 2
    package = pathlib.Path(sluice.__file__).parent
    if early := loaded():
        print(f"import sluice has opened {early}", file=sys.stderr)
        return 1
    major = int(importlib.metadata.version("nvidia-cublas").partition(".")[0])
    is_open = ctypes.CDLL(package / "nvidia_wheels.so").open_the_libraries(major) == 0
    files = loaded()
    if arguments == ["refused"]:
        if is_open or files:
            print(f"libraries were opened that are hidden: {files}", file=sys.stderr)
            return 1
        return 0
    wrong = [f"{name} is not open" for name in LIBRARIES if name not in files]
    wrong += [f"{file} is not of NVIDIA's wheels" for paths in files.values() for file in paths
              if not pathlib.Path(file).is_relative_to(package.parent / "nvidia")]
    for line in wrong:
        print(line, file=sys.stderr)
    for name, paths in sorted(files.items()):
        print(f"{name}: {', '.join(sorted(paths))}")
    return 0 if is_open and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
