#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/figures/*.svg, the pictures of docs/pictures.md, from the lines in bench/results.

    draw.py REPOSITORY            compares the pictures with what it would draw, and fails when one differs
    draw.py --write REPOSITORY    writes them
    draw.py --self-test           draws from planted lines, and checks that a changed line changes the picture

Each picture reads the lines of one file, so that both sides of a comparison are of one run.
"""

import json
import pathlib
import statistics
import sys
import tempfile

from plot import Lines, Picture, Rows, Series

FOLDER = pathlib.Path("docs/pictures/figures")
RESULTS = pathlib.Path("bench/results")


class Results:
    """The lines of one file."""

    def __init__(self, root, name):
        self.lines = [json.loads(line) for line in (root / RESULTS / name).read_text().splitlines() if line]
        self.source = f"bench/results/{name}"

    def of(self, figure, **params):
        """The lines of a figure with these parameters; None for one that the line must not have."""
        found = [line for line in self.lines if line["figure"] == figure
                 and all(line["params"].get(key) == value for key, value in params.items())]
        if not found:
            raise LookupError(f"{self.source} has no {figure} with {params}")
        return found

    def one(self, figure, **params):
        found = self.of(figure, **params)
        if len(found) != 1:
            raise LookupError(f"{self.source} has {len(found)} lines of {figure} with {params}")
        return found[0]

    def note(self):
        first = self.lines[0]
        return f"{first['machine']}, {first['date']}, {first['commit']}: {self.source}"


def resident(root):
    results = Results(root, "2026-11-26-h200-resident.jsonl")
    networks = {"64-64-64-10 f16": 1, "64-64-64-10 f32": 1, "784-512-512-10 bf16": 16}
    kinds = [(network, blocks, rows) for network, blocks in networks.items() for rows in (1, 8)]
    rows, ours, theirs = [], [], []
    for network, blocks, batch in kinds:
        for is_busy in (False, True):
            row = f"{network}, {batch} row{'s' if batch > 1 else ''}{', GPU busy' if is_busy else ''}"
            median, late = (results.one("resident", network=network, rows=batch, blocks=blocks, quantile=quantile,
                                        **{"other work": is_busy}) for quantile in ("median", "99 %"))
            rows.append(row)
            ours.append((row, median["value"], late["value"]))
            theirs.append((row, median["baseline"], late["baseline"]))
    panel = Rows("One request, host to host: median, and up to the 99th of 100", "µs", rows,
                 [Series("a network that stays on the GPU", "ours", ours),
                  Series("one launch of a compiled graph", "usual", theirs)], row_height=27)
    return Picture("A network that stays answers sooner than a launch", [panel], results.note())


def resident_kernel(root):
    results = Results(root, "2026-11-26-h200.jsonl")
    graph = "graph by hand"
    sizes = (16, 128, 1024, 4096)

    def best(size, quantile, field="value"):
        lines = results.of("resident_kernel", bytes=size, quantile=quantile, baseline=graph,
                           **{"other work": False, "pause ns": 0})
        return min(line[field] for line in lines)

    echo = results.one("resident_kernel", bytes=16, quantile="median", baseline="echo of one word by hand",
                       **{"other work": False, "pause ns": 0})["baseline"]
    over_size = Lines("Over the size of request and answer", "bytes each way", "µs", [
        Series("a kernel that stays: median", "ours", [(size, best(size, "median")) for size in sizes]),
        Series("its 99th of 100", "ours", [(size, best(size, "99 %")) for size in sizes], True),
        Series("a CUDA graph by hand: median", "hand", [(size, best(size, "median", "baseline")) for size in sizes]),
        Series("an echo of 4 bytes by hand, without a library", "usual", [(size, echo) for size in (16, 4096)], True),
    ])
    ours, theirs, rows = [], [], ("the GPU idle", "the GPU busy")
    for row, is_busy in zip(rows, (False, True)):
        median, late = (results.one("resident_kernel", bytes=16, quantile=quantile, baseline=graph,
                                    **{"other work": is_busy, "pause ns": 0}) for quantile in ("median", "99 %"))
        ours.append((row, median["value"], late["value"]))
        theirs.append((row, median["baseline"], late["baseline"]))
    busy = Rows("16 bytes: median, and up to the 99th of 100", "µs", list(rows), [
        Series("a kernel that stays", "ours", ours), Series("a CUDA graph by hand", "hand", theirs)],
        left=100, width=330, row_height=50)
    return Picture("A kernel of your own that stays, host to host", [over_size, busy], results.note())


def gpu_latency(root):
    results = Results(root, "2026-11-22-h200-best.jsonl")
    baseline = "cuBLASLt in a graph by hand"
    batches = (1, 64, 16384)
    best = {batch: min(results.of("network_latency", batch=batch, baseline=baseline), key=lambda line: line["value"])
            for batch in batches}
    peers = [(batch, min(line["value"] for line in results.of("network_latency_torch", batch=batch)))
             for batch in batches]
    panel = Lines("784-512-512-10 in bf16, host to host", "rows of a request", "µs",
                  [Series("Sluice, a compiled graph", "ours", [(batch, best[batch]["value"]) for batch in batches]),
                   Series("cuBLASLt in a CUDA graph by hand", "hand",
                          [(batch, best[batch]["baseline"]) for batch in batches]),
                   Series("PyTorch with CUDA graphs, its best form", "peer", peers)], width=420)
    return Picture("A network on a GPU, over the batch", [panel], results.note())


def cpu_latency(root):
    results = Results(root, "2026-11-26-cpu-networks-b.jsonl")  # two runs: the mean of both
    panels = []
    for network in ("64-64-64-10", "32-256-256-256-1", "784-512-512-10", "784-2048-2048-10"):
        lines = results.of("network_cpu", network=network, how="direct")
        rows = sorted({line["params"]["rows"] for line in lines})

        def points(value, lines=lines, rows=rows):
            return [(row, statistics.mean(value(line) for line in lines if line["params"]["rows"] == row))
                    for row in rows]

        panels.append(Lines(network, "rows of a request", "µs", [
            Series("Sluice, the direct call", "ours", points(lambda line: line["value"])),
            Series("oneDNN 2.6", "hand", points(lambda line: line["peers"]["onednn"])),
            Series("ONNX Runtime 1.32", "peer", points(lambda line: line["peers"]["onnxruntime"])),
            Series("OpenVINO 2026.4", "peer2", points(lambda line: line["peers"]["openvino"])),
        ], width=190))
    return Picture("Networks on a CPU with two cores, f32, over the batch", panels, results.note())


def launches(root):
    results = Results(root, "2026-11-25-h100.jsonl")

    def ratios(figure, **params):
        lines = sorted(results.of(figure, **params), key=lambda line: line["params"]["n"])
        return [(line["params"]["n"], line["ratio"]) for line in lines]

    kept = "cuLaunchKernel, kept handle"
    eager = Lines("N dependent launches of a tiny kernel, submit and wait", "N", "our time over theirs", [
        Series("operations, over <<<>>>", "ours", ratios("launch_chain", form="operations", baseline=None)),
        Series("operations, over cuLaunchKernel on a kept handle", "hand",
               ratios("launch_chain", form="operations", baseline=kept)),
        Series("commands, over cuLaunchKernel on a kept handle", "usual",
               ratios("launch_chain", form="commands", baseline=kept)),
    ], y_range=(0.8, 1.2), one=1)
    replay = Lines("The same as a compiled graph, launch and wait", "N", "our time over theirs", [
        Series("over a CUDA graph by hand", "hand", ratios("graph_replay")),
        Series("new inputs each time, over the same by hand", "peer", ratios("graph_replay_new_inputs")),
    ], y_range=(0.8, 1.2), one=1)
    return Picture("Launches and replays next to CUDA by hand: below 1 ours is faster", [eager, replay], results.note())


def streaming(root):
    results = Results(root, "2026-11-25-h100.jsonl")

    def rates(form, baseline, field):
        lines = sorted(results.of("pageable_upload", form=form, baseline=baseline), key=lambda line: line["params"]["kib"])
        return [(line["params"]["kib"], line[field]) for line in lines]

    usual, awaited = "cudaMemcpy, pageable", "cudaMemcpyAsync and a wait, pageable"
    uploads = Lines("Upload from pageable memory", "KiB", "GB/s", [
        Series("Sluice, until the data has arrived", "ours", rates("arrived", usual, "value")),
        Series("Sluice, until the source may be changed", "ours", rates("taken", usual, "value"), True),
        Series("cudaMemcpy, until the source may be changed", "usual", rates("taken", usual, "baseline"), True),
        Series("cudaMemcpyAsync and a wait", "hand", rates("arrived", awaited, "baseline")),
    ], y_range=(0, 80), width=400)
    row = "host to device to host, 8 GiB"
    ours = results.one("streaming", baseline="by hand")
    two_way = results.one("streaming", baseline="two-way copy")
    both_ways = Rows("Streaming with a kernel between", "GB/s each way", [row], [
        Series("Sluice", "ours", [(row, ours["value"])]),
        Series("by hand", "hand", [(row, ours["baseline"])]),
        Series("the copies alone", "usual", [(row, two_way["baseline"])]),
    ], x_range=(0, 50), width=260, left=190, is_bar=True, row_height=60)
    return Picture("Copies between host and GPU", [uploads, both_ways], results.note())


def beside_by_hand(root):
    results = Results(root, "2026-11-25-h100.jsonl")
    kept, copying = "cuLaunchKernel, kept handle", "copying and clearing kernels"
    wanted = [
        ("1000 launches as operations", "launch_chain", {"n": 1000, "form": "operations"}, {"baseline": None},
         {"baseline": kept}),
        ("four pipelines, eagerly", "four_pipelines", {"streams": 4, "mode": "latency"}, None, {}),
        ("four pipelines as one graph", "four_pipelines_graph", {"mode": "latency"}, {"baseline": None},
         {"baseline": "copying kernels"}),
        ("async_mlp as one graph, inputs in place", "async_mlp_graph", {"inputs": "in place"}, {"baseline": None},
         {"baseline": copying}),
        ("a graph of 1000 tiny kernels", "graph_replay", {"n": 1000}, None, {}),
        ("a graph of one tiny kernel", "graph_replay", {"n": 1}, None, {}),
        ("1000 kernels with other inputs", "graph_replay_new_inputs", {"n": 1000}, None, {}),
        ("a loop of 1000 rounds", "device_loop", {}, {"baseline": "by hand, asking the host"},
         {"baseline": "by hand, on the device"}),
        ("two halves of a buffer, 16 MiB", "two_halves", {"elements": 4194304}, None, {}),
        ("a network for 1 row, host to host", "network_latency", {"batch": 1}, None,
         {"baseline": "cuBLASLt in a graph by hand"}),
        ("a network for 64 rows", "network_latency", {"batch": 64}, None, {"baseline": "cuBLASLt in a graph by hand"}),
    ]
    usual, best = [], []
    for row, figure, params, usual_params, best_params in wanted:
        if usual_params is not None:
            usual.append((row, results.one(figure, **params, **usual_params)["ratio"]))
        best.append((row, results.one(figure, **params, **best_params)["ratio"]))
    panel = Rows("Our time over theirs: below 1 ours is faster", "ratio", [each[0] for each in wanted],
                 [Series("over CUDA as it is usually written", "usual", usual),
                  Series("over the best by hand that we know", "hand", best)],
                 x_range=(0.2, 1.4), one=1, width=480, left=270, row_height=24)
    return Picture("Next to CUDA by hand, in the same run", [panel], results.note())


def fused(root):
    results = Results(root, "2026-11-22-h200-doors.jsonl")
    layers, copy = "cuBLASLt, layer by layer", "copy of inputs to outputs"

    def over(width, baseline):
        return results.one("fused_mlp", width=width, biased=False, baseline=baseline)

    rows = {64: "width 64", 128: "width 128", 256: "width 256"}
    panel = Rows("A million rows through four hidden layers, f16", "µs", list(rows.values()), [
        Series("one kernel of Sluice", "ours", [(name, over(width, layers)["value"]) for width, name in rows.items()]),
        Series("cuBLASLt, layer by layer", "hand",
               [(name, over(width, layers)["baseline"]) for width, name in rows.items()]),
        Series("copying the inputs to the outputs, the bound by bytes", "usual",
               [(name, over(width, copy)["baseline"]) for width, name in rows.items()]),
    ], x_range=(0, 1500), left=110, width=480, is_bar=True, row_height=44)
    return Picture("A whole perceptron in one kernel", [panel], results.note())


def scaling(root):
    threads = Results(root, "2026-11-26-h200-before-and-after.jsonl")
    threads.lines = [line for line in threads.lines if line["commit"] == "81f1f0f9"]

    def answers_of(figure, **params):
        lines = sorted(threads.of(figure, lanes=8, **params), key=lambda line: line["params"]["threads"])
        return [(line["params"]["threads"], line["value"] / 1e6) for line in lines]

    answers = Lines("Requests to 8 lanes that stay", "host threads", "million a second", [
        Series("64-64-64-10 f16", "ours", answers_of("resident_throughput")),
        Series("a kernel of your own, 16 bytes", "peer", answers_of("resident_kernel_throughput", **{"in flight": 1})),
        Series("the same, 8 in flight for each thread", "peer",
               answers_of("resident_kernel_throughput", **{"in flight": 8}), True),
    ], y_range=(0, 5))
    devices = Results(root, "2026-11-21-h200-e.jsonl")
    rows = ["one H200", "two H200s"]
    pair = devices.one("data_parallel", type="bf16", devices=2)
    bars = Rows("784-512-512-10 in bf16, batches of 4096", "million rows a second", rows, [
        Series("rows from pinned memory and back", "ours",
               [(rows[0], pair["baseline"] / 1e6), (rows[1], pair["value"] / 1e6)])],
        x_range=(0, 80), left=100, width=300, is_bar=True, row_height=50)
    return Picture("More threads, more GPUs", [answers, bars], f"{threads.note()}; {devices.source}")


PICTURES = {
    "resident.svg": resident,
    "resident_kernel.svg": resident_kernel,
    "gpu_latency.svg": gpu_latency,
    "cpu_latency.svg": cpu_latency,
    "launches.svg": launches,
    "streaming.svg": streaming,
    "beside_by_hand.svg": beside_by_hand,
    "fused.svg": fused,
    "scaling.svg": scaling,
}


def problems(root):
    """What is wrong with the pictures that are there."""
    found = []
    for name, draw in PICTURES.items():
        file = root / FOLDER / name
        if not file.is_file():
            found.append(f"{FOLDER / name} is missing")
        elif file.read_text(encoding="utf-8") != draw(root).svg:
            found.append(f"{FOLDER / name} is not what its lines give")
    there = {each.name for each in (root / FOLDER).glob("*")}
    found += [f"{FOLDER / name} is drawn by nothing" for name in sorted(there - set(PICTURES))]
    return found


def write(root):
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (root / FOLDER / name).write_text(draw(root).svg, encoding="utf-8")


def self_test():
    here = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / RESULTS).mkdir(parents=True)
        for each in (here / RESULTS).glob("*.jsonl"):
            (root / RESULTS / each.name).write_text(each.read_text())
        assert len(problems(root)) == len(PICTURES), "missing pictures are not found"
        write(root)
        assert not problems(root), "what was just written differs"
        for name in PICTURES:
            svg = (root / FOLDER / name).read_text(encoding="utf-8")
            assert "prefers-color-scheme:dark" in svg and svg.endswith("</svg>\n"), name
        changed = root / RESULTS / "2026-11-26-h200-resident.jsonl"
        text = changed.read_text()
        assert '"value": 4.539' in text
        changed.write_text(text.replace('"value": 4.539', '"value": 9.539', 1))
        assert problems(root) == [f"{FOLDER / 'resident.svg'} is not what its lines give"], problems(root)
        changed.write_text(text)
        (root / FOLDER / "other.svg").write_text("")
        assert len(problems(root)) == 1, "a picture that nothing draws is not found"
        changed.write_text("\n".join(line for line in text.splitlines() if '"resident"' not in line) + "\n")
        try:
            problems(root)
        except LookupError as missing:
            assert "has no resident with" in str(missing)
        else:
            raise AssertionError("a missing line is not found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 3 and sys.argv[1] == "--write":
        write(pathlib.Path(sys.argv[2]))
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        found = problems(pathlib.Path(sys.argv[1]))
        for each in found:
            print(f"{each}: run `python3 bench/pictures/draw.py --write .`")
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
