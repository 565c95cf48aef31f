#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says of each network in folders whether the rows of a batch are proven to be independent, by `sluice inspect`.

    python3 tools/rows_of_networks.py TOOL [--folder FOLDER]...     prints a table; default: the repository's networks
    python3 tools/rows_of_networks.py TOOL --write PAGE             writes the page's table of the repository's networks
    python3 tools/rows_of_networks.py TOOL --check PAGE             exits with 1 where the page has another table
    python3 tools/rows_of_networks.py --self-test                   checks that a wrong table is noticed

A network of the repository that is not proven needs an entry in RIGHT: why that is right. One of models/ must be proven.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["models", "tests/c/networks", "tests/fuzz/corpus/onnx", "tests/io/data"]
BEGIN, END = "<!-- networks: begin -->", "<!-- networks: end -->"

RIGHT = {
    "tests/c/networks/reshape.onnx": "its second input is the shape of the whole output: two requests have two",
    "tests/c/networks/scalar.onnx": "it computes a number, and has no dimensions",
    "tests/c/networks/unknown.onnx": "what its operator does is not known",
    "tests/fuzz/corpus/onnx/external.onnx": "its numbers are in a file that is not there",
    "tests/fuzz/corpus/onnx/folded.onnx": "the Reshape makes rows of another width: [n, 4] to [3, -1]",
    "tests/fuzz/corpus/onnx/loop.onnx": "the body of the Loop could use all rows; it is not looked into",
    "tests/fuzz/corpus/onnx/quantized_images.onnx": "it takes a fixed number of images",
    "tests/fuzz/corpus/onnx/shuffle.onnx": "it takes a fixed number of images",
    "tests/fuzz/corpus/onnx/stretch.onnx": "it takes a fixed number of images",
    "tests/fuzz/corpus/onnx/types.onnx": "its operator has an attribute that it does not know",
}


def rows_of(tool, file):
    """(whether it is proven, what is in the way)"""
    ended = subprocess.run([tool, "inspect", str(file), "--json"], capture_output=True, text=True, timeout=120)
    if ended.returncode != 0:
        return False, "the file cannot be read"
    report = json.loads(ended.stdout)
    if "rows" not in report:
        return False, "it has operators or attributes that are not known"
    rows = report["rows"]
    if not rows["independent"]:
        return False, rows["why"]
    axes = rows["input_axes"] + rows["output_axes"]
    return True, "" if not any(axes) else f"along the axes {rows['input_axes']} and {rows['output_axes']}"


def cell(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("\n", " ")


def table(tool, root, files, right):
    """(the lines, what is wrong)"""
    lines, wrong = ["| network | rows | why that is right |", "| --- | --- | --- |"], []
    for file in files:
        name = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
        is_proven, text = rows_of(tool, file)
        if not is_proven and name.startswith("models/"):
            wrong.append(f"{name} is not proven: {text}")
        if right is not None and is_proven == (name in right):
            wrong.append(f"{name} is {'' if is_proven else 'not '}proven, and RIGHT says something else: {text}")
        why = "" if right is None else right.get(name, "")
        lines.append(f"| {name} | {'proven' + (' ' + text if text else '') if is_proven else cell(text)} | {why} |")
    return lines, wrong


def with_table(page, lines):
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1]


def self_test():
    page = f"a\n{BEGIN}\nold\n{END}\nb\n"
    assert with_table(page, ["new"]) == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    with tempfile.TemporaryDirectory() as folder:
        tool = pathlib.Path(folder) / "tool"
        tool.write_text('#!/bin/sh\necho \'{"rows": {"independent": false, "why": "node a mixes"}}\'\n')
        tool.chmod(0o755)
        lines, wrong = table(str(tool), pathlib.Path(folder), [pathlib.Path(folder) / "models/x.onnx"], {})
        assert len(wrong) == 2 and "node a mixes" in lines[-1], (lines, wrong)
        assert not table(str(tool), pathlib.Path(folder), [pathlib.Path(folder) / "y.onnx"], {"y.onnx": "yes"})[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", nargs="?")
    parser.add_argument("--folder", type=pathlib.Path, action="append")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    folders = options.folder or [ROOT / each for each in FOLDERS]
    files = sorted(file for each in folders for file in each.rglob("*.onnx"))
    lines, wrong = table(options.tool, ROOT, files, None if options.folder else RIGHT)
    if options.write:
        options.write.write_text(with_table(options.write.read_text(), lines))
    elif options.check:
        if with_table(options.check.read_text(), lines) != options.check.read_text():
            wrong.append(f"{options.check} has another table: run tools/rows_of_networks.py TOOL --write {options.check}")
    else:
        print("\n".join(lines))
    for each in wrong:
        print(each, file=sys.stderr)
    return sys.exit(1 if wrong else 0)


main()
