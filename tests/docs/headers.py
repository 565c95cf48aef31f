#!/usr/bin/env python3
"""Makes docs/headers.md, the table of the public headers, from the first sentence of each header's comment.

    headers.py REPOSITORY            prints what is wrong with the table, and fails when something is
    headers.py --write REPOSITORY    writes the table
    headers.py --self-test           plants mistakes in a temporary tree and checks that each is found

A header is public unless it is in a folder `detail`.
"""

import pathlib
import re
import sys
import tempfile

PAGE = pathlib.Path("docs/headers.md")
UMBRELLA = pathlib.Path("sluice/sluice.hpp")
COMMAND = "python3 tests/docs/headers.py --write ."
ROOMS = {
    "": "The library",
    "base": "base: errors, deadlines, half precision, the index of a kernel",
    "op": "op: operations and their combinators",
    "async": "async: coroutines and executors",
    "io": "io: files and their formats",
    "runtime": "runtime: devices, streams, memory, launches, waiting",
    "trace": "trace: what ran where and when",
    "drawing": "drawing: pictures of graphs",
    "cuda": "cuda: for code that calls CUDA's libraries",
    "sim": "sim: the simulator",
    "devices": "devices: several devices and collectives",
    "graph": "graph: compiled graphs",
    "kernels": "kernels: operations of the library",
    "nn": "nn: networks",
    "profiling": "profiling: the time of each node of a network",
    "serve": "serve: the server of networks",
    "check": "check: the order of CUDA programs",
    "asio": "asio: Boost.Asio",
    "senders": "senders: std::execution",
    "c": "c: the C interface",
}
INTRODUCTION = f"""# Public headers

<!-- Made by `{COMMAND}`; the test docs.headers compares. -->

`#include <sluice/sluice.hpp>` brings the headers that are marked with a star. Include single headers where compile time matters. All names are
in the namespace `sluice`; those of some rooms in `sluice::sim`, `io`, `nn`, `serve` and `cuda`. The comment at the top of a header says what
it is; the site has a page of each. Headers in folders named `detail` are the library's own.
"""


def first_sentence(text):
    """The first sentence of a file's leading comment, after its licence line; empty when there is none."""
    if text.startswith("/* "):  # a header for C: its comment as one of C++
        text = re.sub(r"^ ?[/ ]\*", "//", text.partition("*/")[0], flags=re.MULTILINE)
    words = []
    for line in text.splitlines():
        if line.startswith("// SPDX-License-Identifier:"):
            continue
        if not line.startswith("//") or not line[2:].strip():
            break
        words.append(line[2:].strip())
    sentence = re.split(r"(?<=[.])\s", " ".join(words).strip() + " ")[0].strip() if words else ""
    return sentence.rstrip(":,").rstrip() if sentence.endswith((":", ",")) else sentence


def subject(sentence, stem):
    """What a header's sentence is about: the names before its colon, without explanations in parentheses, or all of it;
    nothing where that is the header's own name."""
    names = re.sub(r" ?\([^)]*\)", "", sentence.partition(": ")[0])
    return "" if names == stem else escaped(names)


def public_headers(root):
    include = root / "include"
    paths = (path.relative_to(include) for kind in ("*.hpp", "*.h") for path in include.rglob(kind))
    return sorted(path for path in paths if "detail" not in path.parts)


def reached_from(root, header):
    """The headers that this one includes, directly or through others, with itself."""
    found, open_ends = set(), [header]
    while open_ends:
        path = open_ends.pop()
        file = root / "include" / path
        if path in found or not file.is_file():
            continue
        found.add(path)
        open_ends += map(pathlib.Path, re.findall(r'#include "(sluice/[^"]+)"', file.read_text(encoding="utf-8")))
    return found


def escaped(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def page(root):
    """The text of the page, and the headers that have no sentence."""
    by_room, silent = {}, []
    umbrella = reached_from(root, UMBRELLA)
    for path in public_headers(root):
        sentence = first_sentence((root / "include" / path).read_text(encoding="utf-8"))
        if not sentence:
            silent.append(path)
        room = path.parts[1] if len(path.parts) > 2 else ""
        star = " ★" if path in umbrella else ""
        by_room.setdefault(room, []).append(f"- [{path}](../include/{path}){star} {subject(sentence, path.stem)}".rstrip())
    text = INTRODUCTION
    order = [room for room in ROOMS if room in by_room] + sorted(set(by_room) - set(ROOMS))
    for room in order:
        rows = "\n".join(by_room[room])
        text += f"\n## {ROOMS.get(room, room)}\n\n{rows}\n"
    return text, silent


def problems(root):
    text, silent = page(root)
    found = [f"include/{path}: has no comment at its top that says what it is" for path in silent]
    file = root / PAGE
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        found.append(f"{PAGE} is out of date. Run: {COMMAND}")
    return found


def self_test():
    failures = []

    def check(name, expected, change=lambda root: None):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "include/sluice/op/detail").mkdir(parents=True)
            (root / "docs").mkdir()
            (root / "include/sluice/sluice.hpp").write_text('// Everything.\n#include "sluice/op/a.hpp"\n')
            (root / "include/sluice/op/a.hpp").write_text("// SPDX-License-Identifier: X\n// a<T>: the first\n// one. More.\n")
            (root / "include/sluice/op/detail/b.hpp").write_text("int b;\n")
            (root / "include/sluice/op/c.h").write_text("/* SPDX-License-Identifier: X\n * For\n * C. More.\n *\n */\n")
            (root / PAGE).write_text(page(root)[0])
            change(root)
            found = problems(root)
            if len(found) != len(expected) or not all(part in line for part, line in zip(expected, found)):
                failures.append(f"{name}: found {found}")
            rows = ("op/a.hpp) ★ a\\<T>\n", "op/c.h) For C.\n", "sluice.hpp) ★ Everything.\n")
            if name == "healthy" and not all(row in page(root)[0] for row in rows):
                failures.append("healthy: " + page(root)[0])

    header = "include/sluice/op/a.hpp"
    check("healthy", [])
    check("changed", ["out of date"], lambda root: (root / header).write_text("// Another sentence.\n"))
    check("added", ["out of date"], lambda root: (root / "include/sluice/op/c.hpp").write_text("// New.\n"))
    check("silent", ["op/a.hpp: has no comment", "out of date"], lambda root: (root / header).write_text("int a;\n"))
    check("no page", ["out of date"], lambda root: (root / PAGE).unlink())
    return failures


def write(root):
    (root / PAGE).write_text(page(root)[0], encoding="utf-8")


if __name__ == "__main__":
    import checking  # here, as the site loads this file from another folder

    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 3:
        sys.exit(write(pathlib.Path(sys.argv[2])))
    sys.exit(checking.run(__doc__, problems, self_test))
