"""Perceptrons on a CPU with their batches side by side, by Sluice and its peers in turn, in f32.

    network_throughput.py BENCH_NETWORK_THROUGHPUT BENCH_ONEDNN_PERCEPTRON [--rounds N] [NETWORK...]

Each peer has a process for each core, with one thread, on that core; their rates are added up. OpenVINO runs with its
own streams too (PERFORMANCE_HINT THROUGHPUT), and counts with the faster of the two. Sluice is one process: threads that
call the network at once, and its engine. Prints a JSON line per network, rows of a batch and way of ours, as figure
network_cpu_throughput: rows a second; the baseline is the fastest peer, and more is better.

The peers but oneDNN are called from Python, which costs them some microseconds a call. Needs what network_peers.py needs.
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


def openvino_call(path, numbers):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return lambda: request.infer([numbers])


def onnxruntime_call(path, numbers):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"input": numbers})


def pytorch_call(path, numbers):
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
    import torch_perceptron

    torch_perceptron.set_threads(1)
    return torch_perceptron.fastest(layers_of(path), numbers)[0]


CALLS = {"onnxruntime": onnxruntime_call, "openvino": openvino_call, "pytorch": pytorch_call}


def serve(peer, path, rows, cpu, pipe):
    """A process of a peer: each message is a time to begin at; answers with rows a second."""
    os.sched_setaffinity(0, {cpu})
    numbers = numbers_of([rows, int(layers_of(path)[0][0].shape[0])])
    call = CALLS[peer](path, numbers)
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

    def __init__(self, peer, path, rows):
        context = multiprocessing.get_context("spawn")
        self.all = []
        for cpu in CPUS:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(peer, path, rows, cpu, theirs), daemon=True)
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


def by_streams(path, rows):
    """OpenVINO with requests of its own choice in flight. Gives a function that measures."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {
        "PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": CORES, "INFERENCE_PRECISION_HINT": "f32"})
    queue = openvino.AsyncInferQueue(compiled)
    numbers = numbers_of([rows, int(compiled.inputs[0].get_partial_shape()[1].get_length())])

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


def compare(ours, onednn, name, path, rows, widths, rounds, folder):
    processes = {peer: Processes(peer, path, rows) for peer in CALLS}
    ways = {peer: each.measure for peer, each in processes.items()}
    ways["openvino streams"] = by_streams(path, rows)
    ways["onednn"] = by_onednn(onednn, path, rows, folder)
    rates = {}
    for _ in range(rounds):
        said = json.loads(subprocess.run([ours, path, str(rows), str(SECONDS), *map(str, widths)], check=True,
                                         capture_output=True, text=True).stdout)
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
            "figure": "network_cpu_throughput", "params": {"network": name, "rows": rows, "how": how},
            "value": medians[how], "unit": "rows/s", "baseline": best, "ratio": round(medians[how] / best, 3),
            "peers": peers, "machine": f"{processor()}, {CORES} cores", "date": datetime.date.today().isoformat(),
            "commit": os.environ.get("SLUICE_COMMIT", "unknown")}), flush=True)


def main():
    arguments = argparse.ArgumentParser(description="Rows a second of perceptrons on a CPU, by Sluice and its peers.")
    arguments.add_argument("ours", metavar="BENCH_NETWORK_THROUGHPUT")
    arguments.add_argument("onednn", metavar="BENCH_ONEDNN_PERCEPTRON")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("networks", nargs="*")
    given = arguments.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as made:
        for widths in PERCEPTRONS:
            name = name_of(widths)
            if given.networks and name not in given.networks:
                continue
            path = str(pathlib.Path(made) / f"{name}.onnx")
            write_perceptron(path, widths)
            for rows in ROWS:
                compare(given.ours, given.onednn, name, path, rows, widths, given.rounds, pathlib.Path(made))


if __name__ == "__main__":
    main()
