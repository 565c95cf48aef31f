# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs above the same call from C: one row through a network of 64 inputs, on the CPU.

    python python/bench/one_row.py PREFIX [MODEL]      PREFIX: where libsluice_c is installed, e.g. build/wheel_prefix

MODEL takes 64 numbers a row; without it, a perceptron 64-64-64-10 with random weights is measured.

The two run in turn, in many short stretches, because the machine's other work changes the times. The figures are medians
and tenth percentiles of microseconds. The last line is what the measurement itself costs in Python.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import sluice

HERE = pathlib.Path(__file__).resolve().parent
TURNS, STRETCHES = 2000, 15


def c_program(prefix, folder):
    program = folder / "one_row"
    subprocess.run(["cc", "-O2", "-std=c11", f"-I{prefix}/include", HERE / "one_row.c", "-o", program, f"-L{prefix}/lib",
                    f"-Wl,-rpath,{prefix}/lib", "-lsluice_c"], check=True)
    return program


def perceptron(folder):
    """A file with a perceptron 64-64-64-10, which says its activations."""
    sizes, tensors, parts, at = [64, 64, 64, 10], {}, [], 0
    for layer, (inside, outside) in enumerate(zip(sizes, sizes[1:])):
        for name, shape in [("weight", (outside, inside)), ("bias", (outside,))]:
            numbers = numpy.random.default_rng(layer).standard_normal(shape, dtype=numpy.float32) / 8
            tensors[f"{2 * layer}.{name}"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + numbers.nbytes]}
            parts.append(numbers.tobytes())
            at += numbers.nbytes
    header = json.dumps({"__metadata__": {"activation": "relu"}} | tensors).encode()
    header += b" " * (-len(header) % 8)
    file = folder / "perceptron.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(parts))
    return file


def times_of(call):
    times = []
    for _ in range(TURNS):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return times


def show(name, times):
    times = sorted(times)
    print(f"{name:34} median {statistics.median(times) / 1000:8.2f}   tenth percentile {times[len(times) // 10] / 1000:8.2f}")


def main():
    prefix = pathlib.Path(sys.argv[1]).resolve()
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        program = c_program(prefix, pathlib.Path(folder))
        model = sys.argv[2] if len(sys.argv) > 2 else perceptron(pathlib.Path(folder))
        net, row = sluice.load(model, "cpu"), numpy.zeros((1, 64), numpy.float32)
        room, fast = numpy.empty((1, 10), numpy.float32), net.prepare((1, 64))
        calls = {"Python, net(x)": lambda: net(row), "Python, net(x, out=y)": lambda: net(row, out=room),
                 "Python, prepared.run()": fast.run, "Python, an empty function": lambda: None}
        for _ in range(STRETCHES):
            for how in ("run", "into", "prepared"):
                out = subprocess.run([program, model, how, str(TURNS)], capture_output=True, text=True, check=True).stdout
                times.setdefault(f"C, {how}", []).extend(list(map(int, out.split()))[TURNS // 10 :])
            for name, call in calls.items():
                times.setdefault(name, []).extend(times_of(call)[TURNS // 10 :])
    for name, each in times.items():
        show(name, each)


if __name__ == "__main__":
    main()
