#!/usr/bin/env python3
"""Checks that the tests that docs/design/defects.md names exist, and that each of its rows names one or says why not.

    defects.py REPOSITORY      prints each row without a test and each test that its file does not have, and fails
    defects.py --self-test     checks that such rows are found
"""

import pathlib
import re
import sys

import checking

PAGE = "docs/design/defects.md"
COLUMNS = 4  # defect, root, mended in, test
NAMED = re.compile(r"`(\w+)\.([\w.]+)` \(([\w./]+)[;)]")  # `suite.name` (file), or with a remark after a semicolon


def has(suite, name, path, text):
    """Whether the file of this path below tests/, with this text, has the test."""
    if path.startswith("compile_fail/"):
        return f"compile_fail.{pathlib.Path(path).stem}.is_refused" == f"{suite}.{name}"
    if path.endswith("CMakeLists.txt"):
        return re.search(rf"\({name} ", text) is not None
    if path.endswith(".py"):
        method = re.search(rf"^class {suite}\(.*?^    def {name}\(", text, re.DOTALL | re.MULTILINE)
        return method is not None or f"{suite}.{name}" == f"docs.{pathlib.Path(path).stem}"
    return re.search(rf"TEST\w*\({suite},\s*{name}\)", text) is not None


def problems(page, read):
    """`read` gives the text of a file below tests/, or None."""
    for number, line in enumerate(page.splitlines(), start=1):
        if not line.startswith("| ") or line.startswith("| defect "):
            continue
        cells = line.strip("| ").split(" | ")
        if len(cells) != COLUMNS:
            yield f"{number}: {len(cells)} columns instead of {COLUMNS}: defect, root, mended in, test"
            continue
        named = NAMED.findall(cells[-1])
        if not named and not cells[-1].startswith("no test: "):
            yield f"{number}: no test, and no reason"
        if len(named) != len(re.findall(r"`\w+\.\w[\w.]*` \(", cells[-1])):
            yield f"{number}: a test that is not written as `suite.name` (file)"
        for suite, name, path in named:
            text = read(path)
            if text is None:
                yield f"{number}: no file tests/{path}"
            elif not has(suite, name, path, text):
                yield f"{number}: tests/{path} has no {suite}.{name}"


def self_test():
    files = {"a/b_tests.cpp": "TEST_P(b, holds) {\n", "compile_fail/c.cpp": "",
             "a/d.py": "class d(x):\n    def test_e(self):",
             "install/CMakeLists.txt": "sluice_parent_test(f ON OFF)"}

    def row(last):
        return f"| what went wrong | root | 0123abcd | {last} |"

    healthy = [row("`b.holds` (a/b_tests.cpp; on a GPU), `compile_fail.c.is_refused` (compile_fail/c.cpp)"),
               row("`d.test_e` (a/d.py)"), row("`install.f` (install/CMakeLists.txt)"), row("no test: a limit")]
    planted = {row("`b.hold` (a/b_tests.cpp)"): "1: tests/a/b_tests.cpp has no b.hold",
               row("`b.holds` (a/c_tests.cpp)"): "1: no file tests/a/c_tests.cpp",
               row("`compile_fail.x.is_refused` (compile_fail/c.cpp)"):
                   "1: tests/compile_fail/c.cpp has no compile_fail.x.is_refused",
               row("`d.test_f` (a/d.py)"): "1: tests/a/d.py has no d.test_f",
               row("`install.g` (install/CMakeLists.txt)"): "1: tests/install/CMakeLists.txt has no install.g",
               row("`b.holds` (a/b_tests.cpp), `b.holds` (?)"): "1: a test that is not written as `suite.name` (file)",
               row("later"): "1: no test, and no reason", "| what | root |": "1: 2 columns instead of 4: defect, root, mended in, test"}
    missed = [f"found in: {line}" for line in healthy if list(problems(line, files.get))]
    for line, expected in planted.items():
        found = list(problems(line, files.get))
        if found != [expected]:
            missed.append(f"expected {expected}, found {found}")
    return missed


def problems_of(root):
    def read(path):
        file = root / "tests" / path
        return file.read_text(encoding="utf-8") if file.is_file() else None

    return [f"{PAGE}:{each}" for each in problems((root / PAGE).read_text(encoding="utf-8"), read)]


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems_of, self_test))
