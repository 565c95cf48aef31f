#!/usr/bin/env python3
"""Checks that programs which were built with an older version of the C interface work with this one.

    abi.py symbols LIBRARY REPOSITORY    each function of tests/c/abi/frozen.txt is found in the library as a program's loader
                                         looks for it, and each number in the header is what it was
    abi.py types REPOSITORY CC           libabigail compares the types of functions and structures with those of
                                         tests/c/abi/sluice_c.abi; status 77 where abidw and abidiff are not installed
    abi.py write REPOSITORY CC           writes both files, after a function or a number was added
    abi.py --self-test CC                plants differences, and fails unless each is found

Added at the end of a structure, members change nothing: its first member says how long the caller's is.
"""

import ctypes
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What abidiff says of a change that is more than members at the end of a structure.
BREAKS = re.compile(r"data member change|deletion|was (added|removed)|name changed|offset changed|return type|[1-9]\d* Removed|type of '")


def without_comments(header):
    return re.sub(r"/\*.*?\*/", "", header, flags=re.S)


def functions(header):
    """(what it returns, name, parameters) of each function."""
    declared = re.findall(r"^(?!typedef)([a-z][\w\s*]*?)\b(sluice_\w+)\(([^;{}]*)\);", without_comments(header), re.M)
    return [(returned.strip(), name, " ".join(taken.split())) for returned, name, taken in declared]


def numbers(header):
    """The numbers of the enumerations, by name."""
    return dict(re.findall(r"\b(SLUICE_\w+) = (-?\d+)", without_comments(header)))


def versions(script):
    """The version of each function in a version script."""
    found = {}
    for version, body in re.findall(r"^(\w[\w.]*) \{(.*?)^\}", re.sub(r"/\*.*?\*/", "", script, flags=re.S), re.S | re.M):
        for name in re.findall(r"(\w+);", body.split("local:")[0]):
            found[name] = version
    return found


def frozen_text(header, script):
    lines = [f"{name} {version}" for name, version in sorted(versions(script).items())]
    return "\n".join(lines + [f"{name} {number}" for name, number in numbers(header).items()]) + "\n"


def missing(frozen, header, finds):
    """What the frozen lines have, and this version does not; finds(name, version) asks the library."""
    now = numbers(header)
    lines = []
    for name, value in (line.split() for line in frozen.splitlines()):
        if name.startswith("SLUICE_"):
            if now.get(name) != value:
                lines.append(f"{name} was {value}, and is {now.get(name, 'gone')}")
        elif not finds(name, value):
            lines.append(f"{name} of version {value} is gone: programs that call it do not start")
    return lines


def finder(library):
    loaded = ctypes.CDLL(library)
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype = ctypes.c_void_p
    dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    return lambda name, version: dlvsym(loaded._handle, name.encode(), version.encode()) is not None


def stub(header_path, header, cc, folder, name="libstub.so"):
    """A library with the interface's functions, which do nothing, and with debug information about their types."""
    source = pathlib.Path(folder) / "stub.c"
    text = [f'#include "{header_path}"']
    for returned, function, taken in functions(header):
        text.append(f"{returned} {function}({taken}) {{ {'' if returned == 'void' else 'return 0;'} }}")
    source.write_text("\n".join(text) + "\n")
    made = source.with_name(name)
    subprocess.run([cc, "-std=c11", "-g", "-O0", "-shared", "-fPIC", "-w", "-o", made, source], check=True)
    return made


def described(library):
    """Without what names this machine: paths of sources."""
    text = subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", library], capture_output=True, text=True, check=True).stdout
    return re.sub(r" path='[^']*'", "", text)


def differences(before, header_path, header, cc):
    """abidiff's words about what changed; empty for nothing, and for additions."""
    with tempfile.TemporaryDirectory() as folder:
        made = stub(header_path, header, cc, folder)
        ran = subprocess.run(["abidiff", "--no-added-syms", before, made], capture_output=True, text=True)
        failed = ran.returncode & 3 != 0  # abidiff itself
        return ran.stdout + ran.stderr if failed or BREAKS.search(ran.stdout) else ""


def has_tools():
    missing_tools = [each for each in ("abidw", "abidiff") if shutil.which(each) is None]
    if missing_tools:
        print(f"SKIPPED: NOT CHECKED: the types of the C interface: {' and '.join(missing_tools)} (Debian: abigail-tools) not found")
    return not missing_tools


def self_test(cc):
    header = "#include <stddef.h>\ntypedef struct o { size_t size; int a; } o;\nenum { SLUICE_A = 1 };\nint sluice_f(const o* x, int y);\nvoid sluice_g(void);\n"
    script = "V_1.0 {\n global:\n  sluice_f;\n  sluice_g;\n local:\n  *;\n};\n"
    failures = []

    def check(what, is_right):
        if not is_right:
            failures.append(what)

    frozen = frozen_text(header, script)
    check("frozen", frozen == "sluice_f V_1.0\nsluice_g V_1.0\nSLUICE_A 1\n")
    check("healthy", not missing(frozen, header, lambda *_: True))
    check("gone", "sluice_f" in missing(frozen, header, lambda name, _: name != "sluice_f")[0])
    check("number", "was 1, and is 2" in missing(frozen, header.replace("= 1", "= 2"), lambda *_: True)[0])
    check("no number", "is gone" in missing(frozen, header.replace("SLUICE_A = 1", "SLUICE_B = 1"), lambda *_: True)[0])
    if not has_tools():
        return failures
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "h.h"

        def differ(now):
            path.write_text(now)
            return differences(before, path, now, cc)

        path.write_text(header)
        before = pathlib.Path(folder) / "before.abi"
        before.write_text(described(stub(path, header, cc, folder)))
        check("same types", differ(header) == "")
        check("grown", differ(header.replace("int a;", "int a; long b;")) == "")
        check("added", differ(header + "int sluice_h(int);\n".replace("(int)", "(int x)")) == "")
        check("another member", differ(header.replace("int a;", "long a;")) != "")
        check("a member before", differ(header.replace("int a;", "int b; int a;")) != "")
        check("another parameter", differ(header.replace("int y", "long y")) != "")
        check("another result", differ(header.replace("void sluice_g", "int sluice_g")) != "")
        check("a function less", differ(header.replace("void sluice_g(void);", "")) != "")
    return failures


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--self-test":
        lines = self_test(arguments[1])
    elif len(arguments) == 3 and arguments[0] in ("symbols", "types", "write"):
        root = pathlib.Path(arguments[2] if arguments[0] == "symbols" else arguments[1])
        path, folder = root / "include/sluice/c/sluice.h", root / "tests/c/abi"
        header = path.read_text()
        if arguments[0] == "symbols":
            lines = missing((folder / "frozen.txt").read_text(), header, finder(arguments[1]))
        elif not has_tools():
            return 77
        elif arguments[0] == "types":
            found = differences(folder / "sluice_c.abi", path, header, arguments[2])
            lines = found.splitlines()
        else:
            folder.mkdir(exist_ok=True)
            (folder / "frozen.txt").write_text(frozen_text(header, (root / "src/c/sluice_c.map").read_text()))
            with tempfile.TemporaryDirectory() as at:
                (folder / "sluice_c.abi").write_text(described(stub(path, header, arguments[2], at)))
            lines = []
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
