"""The network of network_latency.cpp with PyTorch's CUDA graphs: pinned host memory to pinned host memory, bf16.

Prints the same JSON lines, as figure network_latency_torch. Needs PyTorch with CUDA.
"""

import json
import os
import statistics
import time

import torch


def measure(rows):
    torch.manual_seed(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(784, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 10),
    ).to("cuda", torch.bfloat16)
    source = torch.randn(rows, 784, dtype=torch.bfloat16).pin_memory()
    result = torch.empty(rows, 10, dtype=torch.bfloat16).pin_memory()
    x = torch.empty(rows, 784, dtype=torch.bfloat16, device="cuda")
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            network(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            x.copy_(source, non_blocking=True)
            result.copy_(network(x), non_blocking=True)
        times = []
        for _ in range(220 if rows > 1000 else 2020):
            start = time.perf_counter()
            graph.replay()
            stream.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[20:])


for batch in (1, 64, 16384):
    print(
        json.dumps(
            {
                "figure": "network_latency_torch",
                "params": {"network": "784-512-512-10", "type": "bf16", "batch": batch},
                "value": round(measure(batch), 2),
                "unit": "us",
                "baseline": None,
                "ratio": None,
                "machine": torch.cuda.get_device_name(),
                "date": time.strftime("%Y-%m-%d"),
                "commit": os.environ.get("SLUICE_COMMIT", "unknown"),
            }
        )
    )
