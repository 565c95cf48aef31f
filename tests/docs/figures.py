#!/usr/bin/env python3
"""Checks that the pages give one figure for one thing: the one that bench/results has.

    figures.py REPOSITORY      prints each figure that contradicts another one or the results, and fails
    figures.py --self-test     plants mistakes in a temporary tree and checks that each is found

- A time or a rate in a table of one of PAGES is a value of a file in bench/results that the page names, or docs/figures.md:
  a line's, or the mean, the median or an end of the range of the lines of one thing at one commit, rounded as it is printed.
- So is one in a sentence with the widths of a network (64-64-64-10), on any page, unless its paragraph names a commit.
- A ratio in a table is ours over the cell before it.
- A row of README's table has the numbers of a row of docs/figures.md.
- The number of operators is that of docs/operators.md.
"""

import bisect
import json
import pathlib
import re
import statistics
import sys
import tempfile

import checking

MAIN = "docs/figures.md"
PAGES = ("docs/figures.md", "docs/microseconds.md", "docs/replayed_streams.md", "docs/eight_bits.md", "docs/networks.md")
SCALES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "GB/s": 1e9, "TB/s": 1e12, "k/s": 1e3, "M/s": 1e6,
          "M rows/s": 1e6, "rows/s": 1.0, "1/s": 1.0}
NUMBER = re.compile(r"(?<![\w.-])(\d[\d,]*(?:\.\d+)?) (ns|µs|us|ms|GB/s|TB/s|M rows/s|M/s|k/s)(?![\w/])")
NAMED = re.compile(r"`?\b(20\d\d-\d\d-\d\d-[\w-]+?)(?:\.jsonl?)?[`),]")
NETWORK = re.compile(r"\b\d+(?:-\d+){2,}\b(?!-)")
RATIO = re.compile(r"\d+\.\d\d")


def values_of(files):
    """All values, baselines and peers' values in these files, and of each thing at one commit what sums them up; sorted."""
    groups = {}
    for file in files:
        for line in filter(str.strip, file.read_text("utf-8").splitlines()):
            entry = json.loads(line)
            scale = SCALES.get(entry.get("unit", ""), 1.0)
            thing = (entry["figure"], json.dumps(entry.get("params"), sort_keys=True), entry.get("commit"))
            found = {"value": entry.get("value"), "baseline": entry.get("baseline"), **(entry.get("peers") or {})}
            for name, value in found.items():
                if isinstance(value, (int, float)):
                    groups.setdefault((thing, name), []).append(value * scale)
    summed = set()
    for each in groups.values():
        summed.update([*each, statistics.mean(each), statistics.median(each)])
    return sorted(summed)


def is_among(number, unit, values):
    digits = number.replace(",", "")
    least = 0.5001 * 10.0 ** -len(digits.partition(".")[2]) * SCALES[unit]
    wanted = float(digits) * SCALES[unit]
    at = bisect.bisect_left(values, wanted - least)
    return at < len(values) and values[at] <= wanted + least


def rows_of(text):
    """(line, cells, cells of the table's head)"""
    head = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("|"):
            head = None
            continue
        cells = [each.strip() for each in line.strip().strip("|").split("|")]
        if head is None:
            head = cells
        elif not re.fullmatch(r"[|: -]+", line):
            yield number, cells, head


def half_a_digit(text):
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def ratio_problems(name, text):
    for line, cells, head in rows_of(text):
        if head.count("ours") != 1 or "ratio" not in head:
            continue
        ours = NUMBER.search(cells[head.index("ours")])
        for column, title in enumerate(head):
            theirs = NUMBER.search(cells[column - 1]) if column < len(cells) else None
            if title != "ratio" or not ours or not theirs or not RATIO.fullmatch(cells[column]):
                continue
            above, below = (float(each[1].replace(",", "")) for each in (ours, theirs))
            above, below = above * SCALES[ours[2]], below * SCALES[theirs[2]]
            slack = 0.0051 + above / below * (half_a_digit(ours[1]) * SCALES[ours[2]] / above +
                                              half_a_digit(theirs[1]) * SCALES[theirs[2]] / below)
            if abs(above / below - float(cells[column])) > slack:
                yield f"{name}:{line}: the ratio {cells[column]} of {ours.group()} and {theirs.group()}"


def sentences_about_networks(text):
    """Those outside of tables, but for paragraphs that name the commit that was measured."""
    for paragraph in re.finditer(r"(?:^[^|\n].*\n?)+", text, re.MULTILINE):
        if not re.search(r"\b[0-9a-f]{8}\)", paragraph.group()):
            for sentence in re.split(r"(?<=[.;:])\s", paragraph.group()):
                if NETWORK.search(sentence):
                    yield text.count("\n", 0, paragraph.start()) + 1, sentence


def problems(root):
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8")
             for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]}

    def named(page):
        return [path for each in NAMED.findall(texts[page]) for path in [root / f"bench/results/{each}.jsonl"] if path.is_file()]

    for page, text in texts.items():
        own, values = values_of(named(page) or named(MAIN)), values_of(dict.fromkeys(named(page) + named(MAIN)))
        if page in PAGES:
            for line, cells, _ in rows_of(text):
                for number in NUMBER.finditer(" ".join(cells)):
                    if not is_among(number[1], number[2], own):
                        yield f"{page}:{line}: {number.group()} is not in the results that the page names"
        for line, sentence in sentences_about_networks(text):
            for number in NUMBER.finditer(sentence):
                if not is_among(number[1], number[2], values):
                    yield f"{page}:{line}: {number.group()} is not in the results that the page or {MAIN} names"
        yield from ratio_problems(page, text)
    main = [set(NUMBER.findall(" ".join(cells))) for _, cells, _ in rows_of(texts[MAIN])]
    for line, cells, head in rows_of(texts["README.md"]):
        numbers = set(NUMBER.findall(" ".join(cells)))
        if "ours" in head and numbers and not any(numbers <= each for each in main):
            yield f"README.md:{line}: no row of {MAIN} has these numbers: {' '.join(' '.join(each) for each in sorted(numbers))}"
    operators = texts.get("docs/operators.md", "").partition("## All operators")[2]
    in_all_versions = operators.partition("\n\n|")[0].count(",")
    count = sum(1 for _ in rows_of(operators)) + (in_all_versions + 1 if in_all_versions else 0)
    for page, text in texts.items():
        for said in re.finditer(r"\b(\d{2,}) operators\b", text):
            if int(said[1]) != count:
                yield f"{page}: {said.group()}; docs/operators.md has {count}"


def self_test():
    line = {"figure": "f", "params": {"n": 1}, "value": 6.52, "unit": "us", "baseline": 13.04, "commit": "a"}
    result = "\n".join(json.dumps(each) for each in (line, {**line, "value": 6.62}))
    table = "| | ours | usual | ratio |\n|---|---|---|---|\n| one | 6.57 µs | 13.0 µs | 0.51 |\n"
    healthy = {"README.md": f"Text.\n\n{table}", MAIN: f"`2026-01-02-x`, 64-64-10 takes 6.5 µs.\n\n{table}",
               "docs/operators.md": "## All operators\n\nIn all:\n\nAbs,\nAdd\n\n| operator | v |\n|---|---|\n| If | 1 |\n",
               "docs/other.md": "There are 03 operators; 7 µs elsewhere.\n"}
    planted = [("healthy", MAIN, "", "", None), ("a value", MAIN, "| 6.57 µs", "| 6.67 µs", "6.67 µs is not in the results"),
               ("a network", MAIN, "6.5 µs", "6.4 µs", "6.4 µs is not in the results"),
               ("a ratio", MAIN, "0.51", "0.55", "the ratio 0.55"), ("no file", MAIN, "2026-01-02-x", "2026-01-02-y", "not in the results"),
               ("the front page", "README.md", "6.57 µs | 13.0 µs", "6.62 µs | 13.0 µs", "no row of docs/figures.md"),
               ("operators", "docs/other.md", "03 operators", "13 operators", "docs/operators.md has 3")]
    missed = []
    for name, file, old, new, reason in planted:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "bench/results").mkdir(parents=True)
            (root / "bench/results/2026-01-02-x.jsonl").write_text(result)
            for path, text in healthy.items():
                (root / path).write_text(text.replace(old, new) if path == file and old else text)
            found = list(problems(root))
        if (found if reason is None else not any(reason in each for each in found)):
            missed.append(f"{name}: found {found}")
    return missed


if __name__ == "__main__":
    sys.exit(checking.run(__doc__, problems, self_test))
