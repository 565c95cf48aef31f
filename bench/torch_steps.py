# SPDX-License-Identifier: Apache-2.0
"""Steps of recurrent networks, one at a time, by PyTorch in a CUDA graph and by bench_session_steps.

    torch_steps.py PROGRAM > steps.jsonl

A step is a copy in, the network with its state, which stays on the device, and a copy out. PyTorch's graph has all of
it, its state is copied in place. TF32 is off on both sides.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

NETWORKS = {"gru 128": ("GRU", 64, 128, 1), "lstm 128": ("LSTM", 64, 128, 1), "lstm 2 x 256": ("LSTM", 128, 256, 2)}


class Step(torch.nn.Module):
    def __init__(self, kind, inputs, hidden, layers):
        super().__init__()
        self.layer = getattr(torch.nn, kind)(inputs, hidden, layers)
        self.head = torch.nn.Linear(hidden, 8)

    def forward(self, x, h0, c0=None):
        y, state = self.layer(x, h0 if c0 is None else (h0, c0))
        return (self.head(y), *((state,) if c0 is None else state))


def peer(step, x, states):
    step, x_there, there = step.cuda(), torch.empty_like(x, device="cuda"), [each.cuda() for each in states]
    source, stream = x.pin_memory(), torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        result = torch.empty_like(step(source.cuda(), *there)[0], device="cpu").pin_memory()

        def run():
            x_there.copy_(source, non_blocking=True)
            made = step(x_there, *there)
            for to, state in zip(there, made[1:]):
                to.copy_(state)
            result.copy_(made[0], non_blocking=True)

        for _ in range(3):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        for each in there:
            each.zero_()
        times = []
        for _ in range(4000):
            start = time.perf_counter()
            graph.replay()
            stream.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times), float(result.reshape(-1)[0])


def main(program):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, inputs, hidden, layers) in NETWORKS.items():
            torch.manual_seed(1)
            step = Step(kind, inputs, hidden, layers).eval()
            x = ((torch.arange(inputs) % 17) * 0.1 - 0.8).reshape(1, 1, inputs)
            states = [torch.zeros(layers, 1, hidden) for _ in range(2 if kind == "LSTM" else 1)]
            path = str(pathlib.Path(folder) / (name.replace(" ", "_") + ".onnx"))
            names = ["h", "c"][: len(states)]
            torch.onnx.export(step, (x, *states), path, dynamo=False, input_names=["x"] + [each + "0" for each in names],
                              output_names=["y"] + [each + "n" for each in names])
            ours = json.loads(subprocess.run([program, path], check=True, capture_output=True, text=True).stdout)
            theirs, first = peer(step, x, states)
            print(json.dumps({"network": name, **ours, "model": None, "torch_graph_us": round(theirs, 2),
                              "torch_first": first, "ratio": round(ours["graph_us"] / theirs, 3)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
