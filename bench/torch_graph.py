# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with PyTorch share: a network in a CUDA graph of PyTorch, and bench_network_gpu."""

import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class Graphed:
    """One call: copies in, the network and a copy out, in one CUDA graph. `forward` takes x in the type and layout."""

    def __init__(self, forward, shape, type, layout=torch.contiguous_format):
        size = int(np.prod(shape))
        source = torch.from_numpy((np.arange(size) % 17).astype(np.float32) * np.float32(0.1) - np.float32(0.8))
        self.source = source.reshape(shape).pin_memory()
        self.stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(self.stream):
            x = torch.empty(shape, device="cuda")
            self.kept = (forward, x)  # the graph uses their memory and their code

            def run():
                x.copy_(self.source, non_blocking=True)
                made = forward(x.to(type, memory_format=layout)).float()
                self.result.copy_(made.reshape(-1), non_blocking=True)

            self.result = torch.empty(forward(x.to(type, memory_format=layout)).numel()).pin_memory()
            for _ in range(3):
                run()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                run()

    def median(self, calls):
        times = []
        with torch.cuda.stream(self.stream):
            for _ in range(calls + 2):
                start = time.perf_counter()
                self.graph.replay()
                self.stream.synchronize()
                times.append((time.perf_counter() - start) * 1e6)
        return statistics.median(times[2:])


class Ours:
    """bench_network_gpu PROGRAM PATH TYPE PIECES, and the lines that it answers."""

    def __init__(self, program, path, type, pieces):
        self.process = subprocess.Popen(
            [program, path, type, pieces], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        print(f"{path} {type} {pieces}: {self.answer()}", file=sys.stderr, flush=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("bench_network_gpu has ended")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def median(self, calls):
        return float(self.ask(f"run {calls}"))

    def output(self, folder):
        path = str(pathlib.Path(folder) / "output")
        self.ask(f"output {path}")
        return np.fromfile(path, dtype=np.float32)

    def steps(self):
        lines = [self.ask("steps")]
        while lines[-1]:
            lines.append(self.answer())
        return "\n".join(lines)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def difference(expected, got):
    """The largest difference, as a part of the largest number that is expected."""
    return float(np.abs(expected - got).max() / max(float(np.abs(expected).max()), 1e-30))
