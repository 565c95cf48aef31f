#!/usr/bin/env python3
"""What `sluice check` costs a program: the time of a process with the recorder and without, in turn.

    check_overhead.py TOOL PLANTED ROUNDS [--torch] > rows.jsonl

The time is that of the whole process with the start of CUDA; of PyTorch it is what the program prints, 100 steps. The
check of the trace, which follows, is a row of its own.
Rows name no machine, date and commit: add them.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PYTHON_PROGRAMS = pathlib.Path(__file__).parent.parent / "tests" / "check" / "programs" / "planted.py"


def seconds(command, environment=None):
    begin = time.perf_counter()
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=100)
    whole = time.perf_counter() - begin
    printed = [float(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("seconds ")]
    return printed[0] if printed else whole


def measure(tool, recorder, name, command, rounds):
    plain, recorded, checked = [], [], []
    for _ in range(rounds):
        plain.append(seconds(command))
        with tempfile.TemporaryDirectory() as folder:
            inject = os.environ | {"CUDA_INJECTION64_PATH": recorder, "SLUICE_CHECK_TRACES": folder}
            recorded.append(seconds(command, inject))
            trace = next(pathlib.Path(folder).glob("*.trace"))
            begin = time.perf_counter()
            subprocess.run([tool, "check", "--replay", trace], check=True, capture_output=True, timeout=100)
            checked.append(time.perf_counter() - begin)
            size = trace.stat().st_size
    without, value = statistics.median(plain), statistics.median(recorded)
    print(json.dumps({"figure": "check_recording", "params": {"program": name, "of": f"median of {rounds}, in turn"},
                      "value": round(value, 4), "unit": "s", "baseline": round(without, 4),
                      "ratio": round(value / without, 3), "least": [round(min(plain), 4), round(min(recorded), 4)],
                      "versions": {"baseline": "without the recorder"}}))
    print(json.dumps({"figure": "check_replay", "params": {"program": name, "trace_bytes": size,
                                                           "of": f"median of {rounds}"},
                      "value": round(statistics.median(checked), 4), "unit": "s"}), flush=True)


def main(tool, planted, rounds, with_torch):
    recorder = str(pathlib.Path(tool).parent / "libsluice_check_inject.so")
    for name in ("many_launches", "launches_of_10_us"):
        measure(tool, recorder, name, [planted, name], rounds)
    if with_torch:
        measure(tool, recorder, "training in PyTorch", [sys.executable, str(PYTHON_PROGRAMS), "training"], min(rounds, 3))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), "--torch" in sys.argv)
