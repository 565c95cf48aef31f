#!/usr/bin/env python3
"""Checks programs of CUDA whose mistakes are known, as `sluice check PROGRAM` runs them.

    recorded_programs.py TOOL PLANTED [--keep FOLDER]    fails unless each program's mistake is found, and none in those
                                                         without one; exits with 77 where there is no GPU. With --keep
                                                         the traces stay there
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON_PROGRAMS = pathlib.Path(__file__).parent / "programs" / "planted.py"


def has_gpu():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.startswith("GPU")
    except FileNotFoundError:
        return False


def kinds_of(tool, program, keep):
    """The kinds of what is found, or a text that says why nothing was checked."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        kept = ["--keep", str(keep)] if keep else []
        ran = subprocess.run([tool, "check", "--json", "--report", report, *kept, *program], capture_output=True,
                             text=True, timeout=100)
        if ran.returncode not in (0, 3) or not report.exists():
            return [f"status {ran.returncode}: {ran.stderr}"]
        found = json.loads(report.read_text())["findings"]
    if bool(found) != (ran.returncode == 3):
        return [f"status {ran.returncode} with {len(found)} findings"]
    return [each["kind"] for each in found]


def is_right(expected, found):
    if expected == "clean" or expected.startswith("unseen: "):
        return not found
    if expected == "races":
        return bool(found) and set(found) == {"race"}
    return found == expected.split(",")


def listed(program):
    lines = subprocess.run([*program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(*line.split("\t"), [*program, line.split("\t")[0]]) for line in lines]


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


def main(tool, planted, keep):
    if not has_gpu():
        print("there is no GPU here")
        return 1 if os.environ.get("SLUICE_REQUIRE_GPU") else 77
    programs = listed([planted])
    if has_torch():
        programs += listed([sys.executable, str(PYTHON_PROGRAMS)])
    else:
        print("PyTorch is not installed: its programs are not checked")
    wrong, counts = 0, {}
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        all_found = threads.map(lambda each: kinds_of(tool, each[2], keep and pathlib.Path(keep) / each[0]), programs)
    for (name, expected, _), found in zip(programs, all_found):
        kind = expected if expected == "clean" else expected.split(": ")[0] if expected.startswith("unseen") else "planted"
        counts[kind] = counts.get(kind, 0) + 1
        if not is_right(expected, found):
            print(f"{name}: expected {expected}, found {found}")
            wrong += 1
    print(f"{counts}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    words = sys.argv[1:]
    folder = words[words.index("--keep") + 1] if "--keep" in words else None
    sys.exit(main(words[0], words[1], folder))
