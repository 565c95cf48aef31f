# SPDX-License-Identifier: Apache-2.0
"""PyTorch captures CUDA graphs in a loop, and pipelines of Sluice run next to it in the same process.

    beside_torch.py LIBRARY [SECONDS]

Exit code 0: both were right. 77: there is no PyTorch with a GPU here; ctest reports that as skipped. Else: what failed.
"""
import ctypes
import sys
import time


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def network(torch, weights, x):
    for each in weights:
        x = torch.relu(x @ each)
    return x.sum(dim=1)


def capture_and_replay(torch, weights, count):
    """Captures a small network in CUDA's default mode and replays it with new inputs; returns the largest error."""
    x = torch.zeros(64, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = network(torch, weights, x)
    x.copy_(torch.full((64, 256), float(count % 7), device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    right = network(torch, weights, x)
    return ((total - right).abs().max() / right.abs().max().clamp(min=1e-6)).item()


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    try:
        import torch
    except ImportError:
        skip("PyTorch is not installed")
    if not torch.cuda.is_available():
        skip("PyTorch finds no GPU")
    library = ctypes.CDLL(sys.argv[1])
    library.sluice_beside_begin.restype = ctypes.c_char_p
    library.sluice_beside_end.restype = ctypes.c_long
    weights = [torch.rand(256, 256, device="cuda") / 256 for _ in range(4)]
    network(torch, weights, torch.zeros(64, 256, device="cuda"))  # makes handles, which a capture does not allow
    capture_and_replay(torch, weights, 1)
    why = library.sluice_beside_begin()
    if why is not None:
        sys.exit(f"Sluice: {why.decode()}")
    end = time.monotonic() + seconds
    captures, worst, failure = 0, 0.0, None
    while time.monotonic() < end and failure is None:
        try:
            worst = max(worst, capture_and_replay(torch, weights, captures))
            captures += 1
        except RuntimeError as error:
            failure = str(error)
    text = ctypes.c_char_p()
    good = library.sluice_beside_end(ctypes.byref(text))
    print(f"{captures} captures of PyTorch, the largest relative error {worst:.2g}; {good} right results of Sluice")
    if failure is not None:
        sys.exit(f"PyTorch: {failure}")
    if good <= 0:
        sys.exit(f"Sluice: {text.value.decode()}")
    if captures == 0 or not worst < 1e-3:
        sys.exit("PyTorch: wrong results")


if __name__ == "__main__":
    main()
