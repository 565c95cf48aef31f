#!/usr/bin/env python3
"""Checks that docs/adding_a_backend.md names each file above the waist that compares the kind of a device.

    device_kinds.py REPOSITORY      prints each file that the page lacks, or names in vain, and fails
    device_kinds.py --self-test     checks that such files are found
"""

import pathlib
import re
import sys

import checking

COMPARES = re.compile(r"(==|!=|case) (sluice::)?device_kind::\w+")
NAMES_A_KIND = re.compile(r'device_kind|"cuda"')
BACKENDS = ("src/cpu/", "src/cuda/", "src/sim/")
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}


def problems(page, sources):
    """`sources` are texts of files by their paths."""
    named = set(re.findall(r"[\w/]+\.(?:hpp|cpp|cuh|cu)\b", page))
    for path, text in sorted(sources.items()):
        if COMPARES.search(text) and path not in named:
            yield f"{path} compares device_kind, and the page does not name it"
    for path in sorted(named):
        if path in sources and not NAMES_A_KIND.search(sources[path]):
            yield f"{path} is named by the page, and has no device_kind"


def table_of(page):
    return "\n".join(line for line in page.splitlines() if line.startswith("|"))


def sources_of(root):
    found = {}
    for top in ("include/sluice", "src", "apps"):
        for path in (root / top).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(BACKENDS):
                found[name] = path.read_text(encoding="utf-8")
    return found


def self_test():
    page = "| src/a/known.cpp, src/a/left.cpp | something |"
    sources = {"src/a/known.cpp": "on.kind() == device_kind::cpu", "src/a/left.cpp": "", "src/a/other.cpp": "int x;",
               "src/a/new.cu": "if (kind != device_kind::cuda)"}
    found = list(problems(page, sources))
    expected = ["src/a/new.cu compares device_kind, and the page does not name it",
                "src/a/left.cpp is named by the page, and has no device_kind"]
    return [] if found == expected else [f"expected {expected}, found {found}"]


def problems_of(root):
    page = (root / "docs/adding_a_backend.md").read_text(encoding="utf-8")
    return problems(table_of(page), sources_of(root))


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems_of, self_test))
