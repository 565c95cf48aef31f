#!/usr/bin/env python3
"""Records programs of CUDA whose mistakes are known, and checks the traces.

    recorded_programs.py TOOL PLANTED RECORDER     fails unless each program's mistake is found, and none in those
                                                   without one; exits with 77 where there is no GPU
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile


def has_gpu():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.startswith("GPU")
    except FileNotFoundError:
        return False


def kinds_of(tool, planted, recorder, name):
    with tempfile.TemporaryDirectory() as folder:
        recording = os.environ | {"CUDA_INJECTION64_PATH": recorder, "SLUICE_CHECK_TRACES": folder}
        ran = subprocess.run([planted, name], env=recording, capture_output=True, text=True, timeout=60)
        traces = list(pathlib.Path(folder).glob("*.trace"))
        if ran.returncode != 0 or len(traces) != 1:
            return [f"status {ran.returncode}, {len(traces)} traces: {ran.stderr}"]
        checked = subprocess.run([tool, "check", "--json", "--replay", traces[0]], capture_output=True, text=True)
    if not checked.stdout:
        return [f"status {checked.returncode}: {checked.stderr}"]
    return [each["kind"] for each in json.loads(checked.stdout)["findings"]]


def main(tool, planted, recorder):
    if not has_gpu():
        print("there is no GPU here")
        return 1 if os.environ.get("SLUICE_REQUIRE_GPU") else 77
    failed = 0
    for line in subprocess.run([planted, "--list"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, expected = line.split("\t")
        found = kinds_of(tool, planted, recorder, name)
        if found != ([] if expected == "clean" else [expected]):
            print(f"{name}: expected {expected}, found {found}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
