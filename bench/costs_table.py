"""Writes the table of docs/costs.md from what costs.py measured.

    costs_table.py COSTS.json PAGE      replaces the table between the two markers of the page
    costs_table.py COSTS.json           prints it
"""

import json
import pathlib
import sys

# Rows that the page leaves out: what a user decides by is in others. The JSON has all.
LEFT_OUT = ("headers", "shared libraries that", "libraries that", "`import`: by", "`import numpy`")
ALSO_LEFT_OUT = ("lines after preprocessing", "wall time")  # at the end of a row's name
# What the page says once, below the table.
SHORTER = {"a process that loads models/digits.onnx and answers one row": "first answer", ": greatest resident memory": ": memory",
           "of the process less that of `python -c pass`": "beyond `python -c pass`",
           "with its reader of ONNX files, stripped; without oneDNN and protobuf": "without oneDNN and protobuf",
           "stripped; without the shared libraries that it needs": "without shared libraries",
           "with one pipeline of upload, kernel and download, or one graph of three tasks": "with one pipeline of three steps"}
SIDES = ("ours", "onnxruntime", "openvino", "taskflow")
BEGIN, END = "<!-- table: bench/costs_table.py -->", "<!-- end of table -->"


def text(value, unit):
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB" if value >= 1e6 else f"{value / 1e3:.0f} kB"
    if unit == "ms":
        return f"{value:.1f} ms"
    if unit == "s":
        return f"{value:.2f} s"
    return f"{value:,}"


def table(measured):
    names = measured["versions"]
    yield "| | ours | ONNX Runtime {onnxruntime} | OpenVINO {openvino} | Taskflow {taskflow} |".format(
        **{side: names[side].split("-")[0] for side in SIDES[1:]})
    yield "|---|---|---|---|---|"
    for row in measured["rows"]:
        if row["cost"].startswith(LEFT_OUT) or row["cost"].endswith(ALSO_LEFT_OUT):
            continue
        name = row["cost"]
        for long, short in SHORTER.items():
            name = name.replace(long, short)
        cells = [text(row[side], row["unit"]) if side in row else "" for side in SIDES]
        yield f"| {name} | {' | '.join(cells)} |"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: costs_table.py COSTS.json [PAGE]")
    lines = "\n".join(table(json.loads(pathlib.Path(sys.argv[1]).read_text())))
    if len(sys.argv) == 2:
        print(lines)
        return
    page = pathlib.Path(sys.argv[2])
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"costs_table.py: {page} lacks the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{lines}\n{END}{after}")


if __name__ == "__main__":
    main()
