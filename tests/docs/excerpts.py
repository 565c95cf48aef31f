#!/usr/bin/env python3
"""Checks that the code in the documentation is taken from files that are compiled and run.

    excerpts.py REPOSITORY      prints each block of C++ and C in README.md, CONTRIBUTING.md and docs/*.md, of Python in
                                docs/python.md, and of CMake in the first two, that is not an excerpt, and fails
    excerpts.py --self-test     plants mistakes in a temporary tree, and fails unless each is found

Each block comes after a line `<!-- excerpt: PATH -->` and must be in that file, line by line, ignoring spaces. Where a page
says `<!-- whole program: PATH -->`, its blocks together have each line of that file, except comments.
"""

import pathlib
import re
import sys
import tempfile

import checking

BLOCK = re.compile(r"^```(cpp|c|python|cmake)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- excerpt: (\S+) -->\n\Z")
WHOLE = re.compile(r"<!-- whole program: (\S+) -->")


def stripped(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def contains(lines, excerpt):
    return any(lines[at : at + len(excerpt)] == excerpt for at in range(len(lines) - len(excerpt) + 1))


def missing_lines(text, source):
    """The lines of code of a file that no block of C++ on the page shows."""
    shown = {line for block in BLOCK.finditer(text) if block.group(1) == "cpp" for line in stripped(block.group(2))}
    return [line for line in stripped(source) if line not in shown and not line.startswith("//")]


def problems(root):
    found = []
    front = [page for page in (root / "README.md", root / "CONTRIBUTING.md") if page.is_file()]
    for page in front + sorted((root / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for whole in WHOLE.finditer(text):
            source = root / whole.group(1)
            if not source.is_file():
                found.append(f"{page.relative_to(root)}: no such file: {whole.group(1)}")
                continue
            for line in missing_lines(text, source.read_text(encoding="utf-8")):
                found.append(f"{page.relative_to(root)}: shows no line '{line}' of {whole.group(1)}")
        for block in BLOCK.finditer(text):
            place = f"{page.relative_to(root)}:{text.count(chr(10), 0, block.start()) + 1}"
            mark = MARK.search(text, 0, block.start())
            is_free = (block.group(1) == "cmake" and page not in front) or (
                block.group(1) == "python" and page.name != "python.md")
            if not mark and is_free:
                continue
            if not mark:
                found.append(f"{place}: no <!-- excerpt: PATH --> before it")
                continue
            source = root / mark.group(1)
            if not source.is_file():
                found.append(f"{place}: no such file: {mark.group(1)}")
            elif not contains(stripped(source.read_text(encoding="utf-8")), stripped(block.group(2))):
                found.append(f"{place}: not in {mark.group(1)}")
    return found


def self_test():
    healthy = "Text.\n\n<!-- excerpt: a.cpp -->\n```cpp\nint x;\n\nint y;\n```\n```sh\nanything\n```\n"
    planted = {
        "": (healthy, None),
        "no mark": (healthy.replace("<!-- excerpt: a.cpp -->\n", ""), "no <!-- excerpt"),
        "no file": (healthy.replace("a.cpp", "b.cpp"), "no such file"),
        "C": (healthy.replace("```cpp", "```c").replace("a.cpp", "b.c"), "no such file"),
        "changed": (healthy.replace("int y", "int z"), "not in a.cpp"),
        "whole": (healthy + "<!-- whole program: whole.cpp -->\n", None),
        "part of a program": (healthy + "<!-- whole program: a.cpp -->\n", "shows no line 'void f() {' of a.cpp"),
        "in between": (healthy.replace("int x;\n", "int x;\nint between;\n"), "not in a.cpp"),
    }
    failures = []
    for name, (text, reason) in planted.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs" / "page.md").write_text(text)
            (root / "a.cpp").write_text("void f() {\n    int x;\n    int y;\n// }\n")
            (root / "whole.cpp").write_text("// two\nint x;\nint y;\n")
            found = problems(root)
            (root / "docs" / "page.md").rename(root / "README.md")
            if [line.replace("README.md", "docs/page.md") for line in problems(root)] != found:
                found.append(f"README.md: {problems(root)}")
        if (reason is None and found) or (reason and (len(found) != 1 or reason not in found[0])):
            failures.append(f"{name or 'healthy'}: found {found}")
    return failures


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems, self_test))
