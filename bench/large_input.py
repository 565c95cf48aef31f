#!/usr/bin/env python3
"""How much memory `sluice run` takes for a large input: the peak of the resident set, for 4 GB of zeros in a file
that occupies no disk space. Prints one line of JSON, as bench/support/result.hpp does.

    bench/large_input.py build/release/apps/sluice/sluice [--device cpu] [--gigabytes 4] [--directory /tmp]
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import sys
import tempfile

WIDTH = 64  # inputs of models/digits.safetensors
MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "digits.safetensors"


def write_sparse_array(file, rows):
    """A .npy file of f32 zeros, [rows, WIDTH]. Returns its size in bytes."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {WIDTH}), }}"
    padding = -(10 + len(header) + 1) % 64  # the data start at a multiple of 64
    header = header.encode() + b" " * padding + b"\n"
    file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    size = file.tell() + rows * WIDTH * 4
    file.truncate(size)
    file.flush()
    return size


def run(command):
    """Runs a command without output; returns its exit status and its peak resident set in bytes."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], command, os.environ, file_actions=nowhere)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--directory", help="where the file goes; its file system must have sparse files")
    options = parser.parse_args()

    rows = int(options.gigabytes * 1e9) // (WIDTH * 4)
    with tempfile.NamedTemporaryFile(suffix=".npy", dir=options.directory) as file:  # removed in any case
        size = write_sparse_array(file, rows)
        tool = str(options.tool.resolve())
        exit_status, peak = run([tool, "run", str(MODEL), file.name, "--device", options.device])
    if exit_status != 0:
        sys.exit(f"large_input: {tool} ended with {exit_status}")
    print(json.dumps({
        "figure": "large_input_peak_memory",
        "params": {"rows": rows, "bytes": size, "device": options.device},
        "value": round(peak / 1e6, 1),
        "unit": "MB",
        "baseline": None,
        "ratio": None,
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": os.environ.get("SLUICE_COMMIT", "unknown"),
    }))


if __name__ == "__main__":
    main()
