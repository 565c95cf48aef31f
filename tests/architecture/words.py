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
    r"(?<!bool )(?<!\()\btells\b(?!\()|\bcannot tell\b|\btell (of|it|them|the)\b": "reports, says, shows, distinguishes",
    r"\b(nobody|somebody|everybody|whoever)\b|\bwho (had|has|waits|comes) \w+ (is|are|has|gets)\b":
        "the noun: no thread, the caller, each waiter",
    r"\b(he|his|him)\b": "the noun: the thread, the user; their",
    r"\b(goes|went|gone) on\b": "continues",
    r"\bgoes by\b": "uses, follows",
    r"\banew\b": "again",
    r"\bbehind\b": "after, later",
    r"\bbeside\b": "next to, in addition to, apart from, together with",
    r"\bstands? (in|before|above|below|after|between|under|on|at|side|still)\b": "is, comes",
    r"\bunder way\b": "in flight, running",
    r"\bby way of\b": "through",
    r"\bso (long|many)\b(?! as\b)": "the time; this many, that many",
    r"\bin the lurch\b|\bmade light of\b|\bon whose behalf\b": "say it plainly",
    r"\bpatience\b": "the time limit, at_most",
    r"\bawait\(": "wait, wait_until: a function that blocks is no await",
    r"\bis_(beside|abroad)\b|\babroad\b": "is_peer_of, is_remote",
    r"\b(device::turn|device_turn)\b": "collective_order",
    r"\bleast_busy_device\b": "least_loaded_device",
    r"\bper_device\b": "round_robin_devices",
    r"\b(touched_by_host|holds_no_data)\b": "on_host_access, mark_scratch",
    r"\btake_back\(": "release",
    r"\blanded_(vector|buffer|span)\b": "downloaded_*",
    r"\b(foreign_needs|settlement|witness|service_of_8_)\b": "cross_device_dependencies, completion_awaiter, service",
    r"_bodies\b": "*_dispatch",
    r"\bgemm_(ways?|choices)\b|\bchoose_gemm_way\b": "gemm_algorithm",
    r"\b(is_staged|staged_access|stage_ref|giving_up|end_of_patience|gone_on)\b": "host_driven, cancellation, on_resume",
    r"\b(alarm_list|set_alarm)\b": "timer_queue, set_timer",
    r"_no_cuda\b|\bno_(cuda|cudnn|nccl|mpi|onednn)\.cpp\b": "*_absent.cpp",
}
# What is right in the field's words: not looked at.
RIGHT = [re.compile(phrase) for phrase in (
    r"\b(leaves?|left) (\w+ )?(\w+ )?behind\b",
    r"\bbehind (a )?(balancer|HAProxy|front end)\b|\bfront end .*behind\b|\bbehind_balancer\b",
)]
KINDS = {".hpp", ".cpp", ".cu", ".cuh", ".md", ".txt", ".cmake", ".py", ".sh", ".json", ""}
EXEMPT = {"tests/architecture/words.py", "LICENSE"}
EXEMPT_FOLDERS = ("bench/results/", "data/", "models/", "tests/fuzz/corpus/", "tests/regressions/")
WORDS = {re.compile(pattern, re.IGNORECASE): plain for pattern, plain in INSTEAD.items()}


def findings(name, text):
    for number, line in enumerate(text.splitlines(), start=1):
        for phrase in RIGHT:
            line = phrase.sub("", line)
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
    planted = ["it hangs on", "who is told", "the stream tells when", "nobody waits", "who waits longest gets", "his own",
               "it goes on", "goes by it", "anew", "behind the copy", "beside the copy", "it stands in", "under way",
               "by way of", "so many rows", "made light of", "patience", "await(one)", "is_beside", "device::turn",
               "least_busy_device", "per_device", "holds_no_data", "blocks.take_back(x)", "landed_vector", "foreign_needs",
               "gemm_bodies", "gemm_way", "is_staged", "alarm_list", "gemm_no_cuda"]
    missed = [line for line in planted if not list(findings("planted", line))]
    missed += [f"{pattern} is not planted" for pattern in INSTEAD
               if not any(re.search(pattern, line) for line in planted)]
    healthy = ["A command depends on it; the caller receives an error and continues.",
               "It leaves nothing behind; co_await x; await run; three replicas behind HAProxy; as long as it lives"]
    missed += [f"found in: {line}" for line in healthy if list(findings("healthy", line))]
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
