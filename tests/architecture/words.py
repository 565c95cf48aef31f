#!/usr/bin/env python3
"""Checks that names and prose use the field's words.

    words.py REPOSITORY      prints each line with a word that has a plain replacement, and fails
    words.py --self-test     plants each word in a temporary file and checks that it is found
"""

import pathlib
import re
import subprocess
import sys

INSTEAD = {  # a regular expression: what to write
    r"\bhangs?[ _]on\b|\bhung on\b": "depends on",
    r"\b(is|are|was|were|been|be) told\b": "receives, gets",
    r"\b(nobody|somebody|everybody|whoever)\b": "the noun: no thread, the caller, each waiter",
    r"\b(goes|went|gone) on\b": "continues",
    r"\banew\b": "again",
    r"\bunder way\b": "in flight, running",
    r"\bby way of\b": "through",
    r"\bso (long|many) from now\b": "after the given time",
    r"\bin the lurch\b|\bmade light of\b": "say it plainly",
    r"\bis_(beside|abroad)\b": "is_peer_of, is_remote",
    r"\bleast_busy_device\b": "least_loaded_device",
    r"\bper_device\b": "round_robin_devices",
    r"\b(touched_by_host|holds_no_data)\b": "on_host_access, mark_scratch",
    r"\blanded_(vector|buffer|span)\b": "downloaded_*",
    r"\b(foreign_needs|settlement)\b": "cross_device_dependencies, completion_awaiter",
    r"\b\w*_bodies\b": "*_dispatch",
    r"\bgemm_ways?\b|\bchoose_gemm_way\b": "gemm_algorithm",
    r"\b(is_staged|staged_access|stage_ref|giving_up|end_of_patience)\b": "host_driven, cancellation",
    r"\b(alarm_list|set_alarm)\b": "timer_queue, set_timer",
}
KINDS = {".hpp", ".cpp", ".cu", ".cuh", ".md", ".txt", ".cmake", ".py", ".sh", ".json", ""}
EXEMPT = {"tests/architecture/words.py", "LICENSE"}
EXEMPT_FOLDERS = ("bench/results/", "data/", "models/", "tests/fuzz/corpus/", "tests/regressions/")
WORDS = {re.compile(pattern, re.IGNORECASE): plain for pattern, plain in INSTEAD.items()}


def findings(name, text):
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, plain in WORDS.items():
            match = pattern.search(line)
            if match:
                yield f"{name}:{number}: '{match.group()}': write {plain}"


def files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [
        str(path.relative_to(root)) for path in pathlib.Path(root).rglob("*") if "build" not in path.parts]
    for name in sorted(filter(None, names)):
        path = pathlib.Path(root) / name
        if path.suffix in KINDS and name not in EXEMPT and not name.startswith(EXEMPT_FOLDERS) and path.is_file():
            yield name, path


def self_test():
    planted = ["it hangs on", "who is told", "nobody waits", "it goes on", "anew", "under way", "by way of",
               "so long from now", "made light of", "is_beside", "least_busy_device", "per_device", "holds_no_data",
               "landed_vector", "foreign_needs", "gemm_bodies", "gemm_way", "is_staged", "alarm_list"]
    missed = [line for line in planted if not list(findings("planted", line))]
    missed += [f"{pattern} is not planted" for pattern in INSTEAD
               if not any(re.search(pattern, line) for line in planted)]
    if list(findings("healthy", "A command depends on it; the caller receives an error and continues.")):
        missed.append("a plain sentence")
    return missed


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        problems = self_test()
    else:
        problems = []
        for name, path in files(sys.argv[1]):
            try:
                problems += findings(name, path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue  # not text
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
