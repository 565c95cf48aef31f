#!/usr/bin/env python3
"""Checks that each test which tests/points.md names exists, in the file that the page leads to.

    points.py REPOSITORY      prints each name that does not exist and each row that is out of place, and fails
    points.py --self-test     plants mistakes in a temporary tree and checks that each is found

A name is `suite.test` of GoogleTest, or `compile_fail.name`, `examples.name` or `install.name` of ctest. links.py checks
the links to pages.
"""

import pathlib
import re
import sys
import tempfile

import checking

PAGE = pathlib.PurePosixPath("tests/points.md")
ROW = re.compile(r"^\| (\d{3})\.(\d+) \| ([^|]+) \| ([^|]+) \|$")
NAMED = re.compile(r"\[`(\w+)\.(\w+)`\]\(([^)]+)\)")
COUNT = re.compile(r"\b(\d+) points\b")


def text_of(root, path):
    file = root / path
    return file.read_text("utf-8") if file.is_file() else ""


def exists(root, suite, name, target):
    if suite == "compile_fail":
        listed = text_of(root, "tests/compile_fail/CMakeLists.txt")
        return re.search(rf"sluice_compile_fail\({name}\s+{re.escape(target.name)}\s", listed) is not None
    if suite == "examples":
        listed = text_of(root, "examples/CMakeLists.txt")
        again = any(f"{program}_{options}" == name for program, options in re.findall(r"(\w+)_with\((\w+) ", listed))
        return target.is_file() and (f"sluice_example({name})" in listed or again)
    if suite == "install":
        return f"add_test(NAME install.{name}" in text_of(root, "tests/install/CMakeLists.txt")
    macro = rf"TEST(?:_F|_P)?\(\s*{suite},\s*{name}\)"
    return target.is_file() and re.search(macro, target.read_text("utf-8")) is not None


def problems(root):
    found = []
    text = text_of(root, PAGE)
    last = {}
    for line in text.splitlines():
        row = ROW.match(line)
        if row is None:
            if re.match(r"\| \d", line):
                found.append(f"{PAGE}: not a row of three columns: {line[:60]}")
            continue
        document, number, _, shown = row.groups()
        if int(number) != last.get(document, 0) + 1:
            found.append(f"{PAGE}: {document}.{number} comes after {document}.{last.get(document, 0)}")
        last[document] = int(number)
        if "](" not in shown:
            found.append(f"{PAGE}: {document}.{number} names nothing that shows it")
        for suite, name, link in NAMED.findall(shown):
            if not exists(root, suite, name, (root / PAGE).parent / link):
                found.append(f"{PAGE}: {document}.{number}: no test {suite}.{name} in {link}")
    said = COUNT.search(text)
    if said is None or int(said.group(1)) != sum(last.values()):
        found.append(f"{PAGE}: {sum(last.values())} rows, but the text says {said.group(1) if said else 'no'} points")
    return found


def self_test():
    healthy = (
        "# Points\n\nThere are 3 points.\n\n| point | what | shown by |\n| --- | --- | --- |\n"
        "| 000.1 | one | [`all.works`](a_tests.cpp) · "
        "[`compile_fail.wrong`](compile_fail/w.cpp) |\n"
        "| 000.2 | two | [`examples.one_twice`](../examples/one.cu) · "
        "[`install.goes`](install/CMakeLists.txt) |\n"
        "| 001.1 | three | [a page](../docs/a.md) |\n"
    )
    planted = {
        "healthy": (healthy, None),
        "test": (healthy.replace("all.works", "all.fails"), "no test all.fails"),
        "suite": (healthy.replace("all.works", "one.works"), "no test one.works"),
        "file": (healthy.replace("a_tests.cpp", "b_tests.cpp"), "no test all.works"),
        "compile_fail": (healthy.replace("w.cpp", "v.cpp"), "no test compile_fail.wrong"),
        "example": (healthy.replace("one_twice", "one_thrice"), "no test examples.one_thrice"),
        "install": (healthy.replace("install.goes", "install.comes"), "no test install.comes"),
        "number": (healthy.replace("000.2", "000.3").replace("3 points", "4 points"), "000.3 comes after 000.1"),
        "count": (healthy.replace("3 points", "4 points"), "3 rows"),
        "nothing": (healthy.replace("[a page](../docs/a.md)", "nothing"), "001.1 names nothing"),
        "columns": (healthy.replace("| three |", "|"), "not a row"),
    }
    failures = []
    for name, (text, reason) in planted.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, contents in {
                str(PAGE): text,
                "tests/a_tests.cpp": "TEST_P(all, works) {}\n",
                "tests/compile_fail/CMakeLists.txt": 'sluice_compile_fail(wrong w.cpp "no")\n',
                "tests/install/CMakeLists.txt": "add_test(NAME install.goes)\n",
                "examples/CMakeLists.txt": "sluice_example(one)\none_with(twice one --twice)\n",
                "examples/one.cu": "",
            }.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(contents, "utf-8")
            found = problems(root)
        if (reason is None and found) or (reason and not any(reason in each for each in found)):
            failures.append(f"{name}: found {found}")
    return failures


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems, self_test))
