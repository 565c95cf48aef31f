"""Perceptrons on a CPU with their batches side by side, by Sluice and its peers in turn.

    network_throughput.py BENCH_NETWORK_THROUGHPUT --onednn BENCH_ONEDNN_PERCEPTRON [--rounds N] [NETWORK...]
    network_throughput.py BENCH_NETWORK_THROUGHPUT --precision bf16 [--folder FOLDER] [--rounds N] [NETWORK...]

Each peer has a process for each core, with one thread, on that core; their rates are added up. OpenVINO runs with its
own streams too (PERFORMANCE_HINT THROUGHPUT), and counts with the faster of the two. Sluice is one process: threads that
call the network at once, and in f32 its engine. Prints a JSON line per network, rows of a batch and way of ours, as figure
network_cpu_throughput or network_cpu_throughput_bf16: rows a second; the baseline is the fastest peer, and more is better.

In bf16 the peer is OpenVINO. FOLDER has the files of network_peers.py --write; without it they are made here. The peers but
oneDNN are called from Python, which costs them some microseconds a call. Needs what network_peers.py needs.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from network_peers import CORES, PERCEPTRONS, ROWS, layers_of, name_of, numbers_of, processor, write_perceptron

SECONDS = 0.6  # of each, in a round
CPUS = sorted(os.sched_getaffinity(0))


def openvino_call(path, numbers, precision):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": precision})
    request = compiled.create_infer_request()
    return lambda: request.infer([numbers])


def onnxruntime_call(path, numbers, _):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"input": numbers})


def pytorch_call(path, numbers, _):
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
    import torch_perceptron

    torch_perceptron.set_threads(1)
    return torch_perceptron.fastest(layers_of(path), numbers)[0]


CALLS = {"onnxruntime": onnxruntime_call, "openvino": openvino_call, "pytorch": pytorch_call}


def serve(peer, path, rows, width, precision, cpu, pipe):
    """A process of a peer: each message is a time to begin at; answers with rows a second."""
    os.sched_setaffinity(0, {cpu})
    call = CALLS[peer](path, numbers_of([rows, width]), precision)
    for _ in range(20):
        call()
    pipe.send("ready")
    while (begin := pipe.recv()) is not None:
        while time.monotonic() < begin:
            pass
        calls, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < SECONDS or calls < 3:
            call()
            calls += 1
        pipe.send(calls * rows / passed)


class Processes:
    """One for each core."""

    def __init__(self, peer, path, rows, width, precision):
        context = multiprocessing.get_context("spawn")
        self.all = []
        for cpu in CPUS:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(peer, path, rows, width, precision, cpu, theirs),
                                      daemon=True)
            process.start()
            self.all.append((process, ours))
        for _, pipe in self.all:
            assert pipe.recv() == "ready"

    def measure(self):
        begin = time.monotonic() + 0.02
        for _, pipe in self.all:
            pipe.send(begin)
        return sum(pipe.recv() for _, pipe in self.all)

    def end(self):
        for process, pipe in self.all:
            pipe.send(None)
            process.join()


def by_streams(path, rows, width, precision):
    """OpenVINO with requests of its own choice in flight. Gives a function that measures."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {
        "PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": CORES, "INFERENCE_PRECISION_HINT": precision})
    queue = openvino.AsyncInferQueue(compiled)
    numbers = numbers_of([rows, width])

    def measure():
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS or calls < 2 * len(queue):
            queue.start_async([numbers])
            calls += 1
        queue.wait_all()
        return calls * rows / (time.perf_counter() - start)

    measure()
    return measure


def by_onednn(program, path, rows, folder):
    """Two processes of one thread, each with a core. Gives a function that measures."""
    layers = layers_of(path)
    weights = folder / "numbers"
    weights.write_bytes(b"".join(np.ascontiguousarray(each).tobytes() for layer in layers for each in layer))
    widths = [str(layers[0][0].shape[0]), *(str(biases.shape[0]) for _, biases in layers)]

    def measure():
        all_of = [subprocess.Popen(["taskset", "-c", str(cpu), program, str(weights), str(rows), str(SECONDS), "1",
                                    str(folder / f"outputs{cpu}"), *widths], stdout=subprocess.PIPE, text=True)
                  for cpu in CPUS]
        said = [json.loads(each.communicate()[0]) for each in all_of]
        return sum(rows * 1e6 / each["mean"] for each in said)

    return measure


def compare(given, path, rows, widths, folder):
    f32 = given.precision == "f32"
    processes = {peer: Processes(peer, path, rows, widths[0], given.precision)
                 for peer in (CALLS if f32 else ("openvino",))}
    ways = {peer: each.measure for peer, each in processes.items()}
    ways["openvino streams"] = by_streams(path, rows, widths[0], given.precision)
    if f32:
        ways["onednn"] = by_onednn(given.onednn, path, rows, folder)
    rates = {}
    for _ in range(given.rounds):
        said = json.loads(subprocess.run([given.ours, path, str(rows), str(SECONDS), given.precision, *map(str, widths)],
                                         check=True, capture_output=True, text=True).stdout)
        multiplies = {} if f32 else {"multiplies": said.pop("how")}
        for which, rate in said.items():
            rates.setdefault(which, []).append(rate)
        for which, measure in ways.items():
            rates.setdefault(which, []).append(measure())
    for each in processes.values():
        each.end()
    medians = {which: round(statistics.median(values)) for which, values in rates.items()}
    peers = {which: medians[which] for which in ways}
    best = max(peers.values())
    for how in said:
        print(json.dumps({
            "figure": "network_cpu_throughput" if f32 else f"network_cpu_throughput_{given.precision}",
            "params": {"network": name_of(widths), "rows": rows, "how": how, **multiplies},
            "value": medians[how], "unit": "rows/s", "baseline": best, "ratio": round(medians[how] / best, 3),
            "peers": peers, "machine": f"{processor()}, {CORES} cores", "date": datetime.date.today().isoformat(),
            "commit": os.environ.get("SLUICE_COMMIT", "unknown")}), flush=True)


def main():
    arguments = argparse.ArgumentParser(description="Rows a second of perceptrons on a CPU, by Sluice and its peers.")
    arguments.add_argument("ours", metavar="BENCH_NETWORK_THROUGHPUT")
    arguments.add_argument("--onednn", metavar="BENCH_ONEDNN_PERCEPTRON")
    arguments.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    arguments.add_argument("--folder", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("networks", nargs="*")
    given = arguments.parse_intermixed_args()
    if given.precision == "f32" and given.onednn is None:
        arguments.error("in f32 plain oneDNN is a peer: --onednn is missing")
    with tempfile.TemporaryDirectory() as made:
        for widths in PERCEPTRONS:
            name = name_of(widths)
            if given.networks and name not in given.networks:
                continue
            path = str((given.folder or pathlib.Path(made)) / f"{name}.onnx")
            if not given.folder:
                write_perceptron(path, widths)
            for rows in ROWS:
                compare(given, path, rows, widths, pathlib.Path(made))


if __name__ == "__main__":
    main()
