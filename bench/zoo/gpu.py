#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo on a GPU: 24 networks (gpu_networks.py) by Sluice and by PyTorch in turn, host to host, one graph launch a call.

    gpu.py run BENCH_NETWORK_GPU --to FILE [--types f16,f32] [--rows 1,32] [--seconds N] [--steps] [NAME...]
    gpu.py page FILE...                             the rows, worst first; of two with the same name the later one

All read the same f32 numbers from pinned memory and write f32 numbers to pinned memory; in between they compute in the
type (TF32 is off). PyTorch runs its modules, and Inductor's code for them, in a CUDA graph each; images keep channels
last, and cuDNN's algorithms are chosen by trial. Its graphs are launched from Python and ours from C++: what a graph with
an identity alone takes more there than here (`python_us`) is subtracted from the peers' times.

`run` appends a JSON line for each network, type and number of rows, and leaves those out that FILE has of this commit
(SLUICE_COMMIT); after --seconds none begins. Value is the median of the rounds' medians of ours, baseline that of the
fastest peer. Inductor compiles all first, several at a time. What fails is a row with the reason and the ratio 4.0.
--steps prints our steps to the standard error. Needs PyTorch with CUDA, torchvision, transformers, onnx and numpy.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
EAGER, INDUCTOR = "pytorch eager in a CUDA graph", "torch.compile in a CUDA graph"
REFUSED = 4.0
AGREES = {"f16": 0.01, "bf16": 0.08, "f32": 1e-4}  # of the largest number


def prepare_torch():
    import torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.mha.set_fastpath_enabled(False)


def peer(network, shape, rows, type, compiled):
    import torch
    from torch_graph import TYPES, Graphed
    layout = torch.channels_last if len(shape) == 3 else torch.contiguous_format
    there = network.to("cuda", TYPES[type])
    if len(shape) == 3:
        there = there.to(memory_format=torch.channels_last)
    if compiled:
        torch._dynamo.reset()
        there = torch.compile(there, dynamic=False)
    return Graphed(there, [rows, *shape], TYPES[type], layout)


def compile_first(wanted):
    """Fills Inductor's cache, several networks at a time."""
    waiting, running = list(wanted), []
    while waiting or running:
        while waiting and len(running) < max(1, (os.cpu_count() or 2) // 2):
            words = [str(each) for each in waiting.pop(0)]
            running.append(subprocess.Popen([sys.executable, __file__, "compile", *words], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL))
        time.sleep(0.1)
        running = [each for each in running if each.poll() is None]


def in_turn(ours, peers, options):
    times = {"ours": [], **{each: [] for each in peers}}
    for _ in range(options.rounds):
        times["ours"].append(ours.median(options.calls))
        for each, graph in peers.items():
            times[each].append(graph.median(options.calls))
    return {each: statistics.median(all_) for each, all_ in times.items()}


def price_of_python(options, folder):
    """How much longer a graph takes that copies 64 numbers in and out, launched from Python and not from C++."""
    import onnx
    import torch
    from onnx import TensorProto, helper
    from torch_graph import Graphed, Ours
    path = str(folder / "identity.onnx")
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    ours = Ours(options.program, path, "f32", "1")
    found = in_turn(ours, {"pytorch": Graphed(lambda x: x, [1, 64], torch.float32)}, options)
    ours.close()
    return max(0.0, found["pytorch"] - found["ours"])


def measure(options, name, path, type, rows, python_us, folder):
    import torch
    from gpu_networks import made
    from torch_graph import Ours, difference
    row = {"figure": "gpu_zoo", "params": {"network": name, "type": type, "rows": rows}, "unit": "us"}
    try:
        ours = Ours(options.program, path, type, str(rows))
    except RuntimeError as failure:
        return {**row, "state": "refused", "ratio": REFUSED, "why": str(failure)}
    if options.steps:
        print(f"=== {name} {type} {rows}", ours.steps(), sep="\n", file=sys.stderr, flush=True)
    network, shape = made(name)
    peers, failures = {}, {}
    for each in (EAGER, INDUCTOR):
        try:
            peers[each] = peer(network, shape, rows, type, each == INDUCTOR)
        except Exception as failure:  # noqa: BLE001: of any kind, and it is in the row
            failures[each] = str(failure).splitlines()[0]
    found = in_turn(ours, peers, options)
    value = found.pop("ours")
    medians = {each: round(all_ - python_us, 1) for each, all_ in found.items()}
    best = min(medians.values())
    error = difference(peers[EAGER].result.numpy(), ours.output(folder))
    ours.close()
    agrees = error <= AGREES[type]
    del peers
    torch.cuda.empty_cache()
    return {**row, "state": "agrees" if agrees else "wrong", "value": round(value, 1), "baseline": best,
            "ratio": round(value / best, 2) if agrees else REFUSED, "peers": medians, **({"failed": failures} if failures else {}),
            "python_us": round(python_us, 1), "largest_difference": error}


def run(options):
    import torch
    from gpu_networks import NETWORKS, export
    prepare_torch()
    end = time.monotonic() + options.seconds
    commit = os.environ.get("SLUICE_COMMIT", "unknown")
    to = pathlib.Path(options.to)
    there = {tuple(row["params"].values()) for row in read([to] if to.exists() else []) if row["commit"] == commit}
    wanted = [(name, type, rows) for type in options.types.split(",") for rows in map(int, options.rows.split(","))
              for name in options.names or NETWORKS if (name, type, rows) not in there]
    begin = time.monotonic()
    compile_first(wanted)
    print(f"Inductor has compiled for {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as made_for:
        folder = pathlib.Path(made_for)
        python_us = price_of_python(options, folder)
        for name, type, rows in wanted:
            if time.monotonic() > end:
                break
            path = folder / f"{name}.onnx"
            try:
                if not path.exists():
                    export(name, str(path))
            except Exception as failure:  # noqa: BLE001: of PyTorch's exporter
                print(f"{name} is not exported: {failure}", file=sys.stderr, flush=True)
                continue
            row = measure(options, name, str(path), type, rows, python_us, folder)
            row |= {"versions": {"pytorch": f"{torch.__version__}, TF32 off"}, "date": time.strftime("%Y-%m-%d"),
                    "machine": f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores", "commit": commit}
            with to.open("a") as file:
                file.write(json.dumps(row) + "\n")


def read(files):
    return [json.loads(line) for each in files for line in each.read_text().splitlines()]


def page(options):
    newest = {tuple(row["params"].values()): row for row in read(map(pathlib.Path, options.names))}
    for (name, type, rows), row in sorted(newest.items(), key=lambda each: -each[1]["ratio"]):
        cells = [f"{row[each]:,.0f} µs" if each in row else "" for each in ("value", "baseline")]
        fastest = min(row["peers"], key=row["peers"].get) if "peers" in row else ""
        print("|", " | ".join([name, type, str(rows), row["state"], *cells, "Inductor" if fastest == INDUCTOR else "eager",
                               f"{row['ratio']:.2f}"]), "|")
    for type, rows in sorted({each[1:] for each in newest}):
        ratios = [row["ratio"] for each, row in newest.items() if each[1:] == (type, rows)]
        print(f"{type}, {rows} rows: {len(ratios)} networks, geometric mean {statistics.geometric_mean(ratios):.2f}, "
              f"{sum(each > 1 for each in ratios)} above 1.0")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "page", "compile"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--to", default="gpu-zoo.jsonl")
    parser.add_argument("--types", default="f16,f32")
    parser.add_argument("--rows", default="1,32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--steps", action="store_true")
    options = parser.parse_intermixed_args()
    if options.what == "page":
        return page(options)
    if options.what == "run":
        options.program, *options.names = options.names
        return run(options)
    from gpu_networks import made
    prepare_torch()
    network, shape = made(options.names[0])
    peer(network, shape, int(options.names[2]), options.names[1], True)


if __name__ == "__main__":
    main()
