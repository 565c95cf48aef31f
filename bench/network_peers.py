"""One call of a network on a CPU, by Sluice, ONNX Runtime and OpenVINO in turn, with as many threads as there are cores.

    network_peers.py BENCH_NETWORK_CPU FOLDER [NETWORK...]      only these networks

FOLDER has the light models of the onnx package (scripts/onnx_cases). They compute their weights, all equal, when they
run; here they get random ones, as files of trained networks have them. The multi-layer perceptrons are made here.
Prints a JSON line per network, number of rows and way of ours, as figure network_cpu: the baseline is the fastest peer.
Needs onnx, onnxruntime, openvino and numpy.
"""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

ROUNDS = 5
SECONDS = 0.6  # of each, in a round
CORES = len(os.sched_getaffinity(0))
LIGHT = ("resnet50", "squeezenet", "shufflenet", "densenet121")
PERCEPTRONS = ((64, 64, 64, 10), (32, 256, 256, 256, 1), (784, 512, 512, 10), (784, 2048, 2048, 10))
ROWS = (1, 8, 64, 1024)
IMAGES = (1, 8)


def write_perceptron(path, widths):
    """Dense layers with ReLU between them, as PyTorch exports them."""
    random = np.random.default_rng(7)
    constants, nodes, value = [], [], "input"
    for i, (inside, outside) in enumerate(zip(widths, widths[1:])):
        last = i + 2 == len(widths)
        constants.append(numpy_helper.from_array(
            random.normal(0, 0.05, (outside, inside)).astype(np.float32), f"{i}.weight"))
        constants.append(numpy_helper.from_array(random.normal(0, 0.05, outside).astype(np.float32), f"{i}.bias"))
        made = "output" if last else f"{i}.product"
        nodes.append(helper.make_node("Gemm", [value, f"{i}.weight", f"{i}.bias"], [made], transB=1))
        value = made
        if not last:
            value = f"{i}.rectified"
            nodes.append(helper.make_node("Relu", [made], [value]))
    graph = helper.make_graph(
        nodes, "perceptron", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", widths[0]])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", widths[-1]])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def write_with_weights(light, path, rows):
    """A light model with weights, for images of this many rows."""
    model = onnx.load(light)
    graph, random = model.graph, np.random.default_rng(7)
    known = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    readers = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            readers.setdefault(name, (node.op_type, place))
    kept, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape, reader = known[node.input[0]].tolist(), readers.get(node.output[0], ("", 0))
        if len(shape) > 1:
            numbers = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        elif reader in (("BatchNormalization", 1), ("BatchNormalization", 4), ("Unsqueeze", 0)):
            numbers = random.uniform(0.5, 1.5, shape)  # factors and variances
        else:
            numbers = random.normal(0, 0.1, shape)
        weights.append(numpy_helper.from_array(numbers.astype(np.float32), node.output[0]))
    used = {name for node in kept for name in node.input}
    for each in graph.initializer:
        if each.name not in used:
            continue
        numbers = known[each.name]
        if readers[each.name] == ("Reshape", 1) and numbers[0] == 1:
            numbers = np.concatenate(([rows], numbers[1:])).astype(numbers.dtype)
        weights.append(numpy_helper.from_array(numbers, each.name))
    names = {each.name for each in weights}
    inputs = [each for each in graph.input if each.name in used and each.name not in names]
    for each in (*inputs, *graph.output):
        each.type.tensor_type.shape.dim[0].dim_value = rows
    made = helper.make_graph(kept, graph.name, inputs, graph.output, weights)
    made = helper.make_model(made, opset_imports=model.opset_import)
    made.ir_version = max(model.ir_version, 4)
    onnx.save(made, path)


def median_of(call):
    for _ in range(3):
        call()
    times = []
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def peers_of(path, rows):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {}
    for each in session.get_inputs():
        shape = [one if isinstance(one, int) else rows for one in each.shape]
        numbers = (np.arange(int(np.prod(shape))) % 17 * 0.1).astype(np.float32)
        feed[each.name] = numbers.reshape(shape)
    compiled = openvino.Core().compile_model(
        path, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": CORES,
                      "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    values = list(feed.values())
    return {"onnxruntime": lambda: session.run(None, feed), "openvino": lambda: request.infer(values)}


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "CPU")


def compare(program, name, path, rows):
    peers = peers_of(path, rows)
    times = {}
    for _ in range(ROUNDS):
        ours = json.loads(subprocess.run([program, path, str(rows), str(2 * SECONDS)], check=True,
                                         capture_output=True, text=True).stdout)
        for which, value in ours.items():
            times.setdefault(which, []).append(value)
        for which, call in peers.items():
            times.setdefault(which, []).append(median_of(call))
    medians = {which: statistics.median(values) for which, values in times.items()}
    others = {which: round(medians[which], 2) for which in peers}
    best = min(others.values())
    for how in ("run", "compiled", "direct"):
        print(json.dumps({
            "figure": "network_cpu", "params": {"network": name, "rows": rows, "how": how},
            "value": round(medians[how], 2), "unit": "us", "baseline": best, "ratio": round(medians[how] / best, 3),
            "peers": others, "versions": {"onnxruntime": onnxruntime.__version__, "openvino": openvino.__version__},
            "machine": f"{processor()}, {CORES} cores", "date": datetime.date.today().isoformat(),
            "commit": os.environ.get("SLUICE_COMMIT", "unknown")}), flush=True)


def main():
    program, folder, only = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as made:
        for widths in PERCEPTRONS:
            name = "-".join(map(str, widths))
            if only and name not in only:
                continue
            path = str(pathlib.Path(made) / f"{name}.onnx")
            write_perceptron(path, widths)
            for rows in ROWS:
                compare(program, name, path, rows)
        for name in LIGHT:
            if only and name not in only:
                continue
            for rows in IMAGES:
                path = str(pathlib.Path(made) / f"{name}.onnx")
                write_with_weights(folder / "light" / f"light_{name}" / "model.onnx", path, rows)
                compare(program, name, path, rows)


if __name__ == "__main__":
    main()
