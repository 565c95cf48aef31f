"""The network of network_latency.cpp with PyTorch's CUDA graphs: pinned host memory to pinned host memory, bf16.

Three forms: the modules as they are; with ReLU inside the products (torch._addmm_activation); and that with the batch in
pieces, so that one piece's copy hides another's computing. Prints the same JSON lines, as figure network_latency_torch.
Needs PyTorch with CUDA.
"""

import json
import os
import statistics
import time

import torch

WIDTHS = (784, 512, 512, 10)


def plain(weights, x):
    for i, (weight, bias) in enumerate(weights):
        x = torch.nn.functional.linear(x, weight, bias)
        if i + 1 < len(weights):
            x = torch.relu(x)
    return x


def fused(weights, x):
    for weight, bias in weights[:-1]:
        x = torch._addmm_activation(bias, x, weight.t())  # ReLU, in the product's epilogue
    weight, bias = weights[-1]
    return torch.addmm(bias, x, weight.t())


def pieces_of(rows):
    last = rows // 16
    return [rows] if rows < 4096 else [rows - 4 * last, 3 * last, last]


def measure(rows, forward, pieces):
    torch.manual_seed(1)
    weights = [
        (
            torch.randn(out, into, dtype=torch.bfloat16, device="cuda") / into**0.5,
            torch.randn(out, dtype=torch.bfloat16, device="cuda"),
        )
        for into, out in zip(WIDTHS, WIDTHS[1:])
    ]
    source = torch.randn(rows, WIDTHS[0], dtype=torch.bfloat16).pin_memory()
    result = torch.empty(rows, WIDTHS[-1], dtype=torch.bfloat16).pin_memory()
    x = torch.empty(rows, WIDTHS[0], dtype=torch.bfloat16, device="cuda")
    stream, copying_in, copying_out = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()

    def run():
        if len(pieces) == 1:
            x.copy_(source, non_blocking=True)
            result.copy_(forward(weights, x), non_blocking=True)
            return
        copying_in.wait_stream(stream)
        kept = []
        row = 0
        for size in pieces:
            here = slice(row, row + size)
            with torch.cuda.stream(copying_in):
                x[here].copy_(source[here], non_blocking=True)
            stream.wait_stream(copying_in)
            kept.append(forward(weights, x[here]))
            copying_out.wait_stream(stream)
            with torch.cuda.stream(copying_out):
                result[here].copy_(kept[-1], non_blocking=True)
            row += size
        stream.wait_stream(copying_out)

    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        times = []
        for _ in range(220 if rows > 1000 else 2020):
            start = time.perf_counter()
            graph.replay()
            stream.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[20:])


for batch in (1, 64, 16384):
    forms = [("modules", plain, [batch]), ("fused ReLU", fused, [batch])]
    if len(pieces_of(batch)) > 1:
        forms.append(("fused ReLU, in pieces", fused, pieces_of(batch)))
    for form, forward, pieces in forms:
        print(
            json.dumps(
                {
                    "figure": "network_latency_torch",
                    "params": {"network": "784-512-512-10", "type": "bf16", "batch": batch, "form": form},
                    "value": round(measure(batch, forward, pieces), 2),
                    "unit": "us",
                    "baseline": None,
                    "ratio": None,
                    "machine": torch.cuda.get_device_name(),
                    "date": time.strftime("%Y-%m-%d"),
                    "commit": os.environ.get("SLUICE_COMMIT", "unknown"),
                }
            )
        )
