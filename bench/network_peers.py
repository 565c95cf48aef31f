"""One call of a network on a CPU, by Sluice, ONNX Runtime and OpenVINO in turn, with as many threads as there are cores.

    network_peers.py BENCH_NETWORK_CPU FOLDER [--precision bf16] [NETWORK...]      only these networks
    network_peers.py --write FOLDER                                               the perceptrons, as files

FOLDER has the light models of the onnx package (scripts/onnx_cases). They compute their weights, all equal, when they
run; here they get random ones, as files of trained networks have them. The multi-layer perceptrons are made here, unless
FOLDER has them. Prints a JSON line per network, number of rows and way of ours, as figure network_cpu or
network_cpu_bf16: the baseline is the fastest peer. In bf16 these are the perceptrons, and the peer is OpenVINO.
Needs openvino and numpy; in f32 onnxruntime too; and onnx, except for perceptrons that FOLDER has.
"""

import argparse
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

ROUNDS = 5
SECONDS = 0.6  # of each, in a round
CORES = len(os.sched_getaffinity(0))
PERCEPTRONS = ((64, 64, 64, 10), (32, 256, 256, 256, 1), (784, 512, 512, 10), (784, 2048, 2048, 10))
ROWS = (1, 8, 64, 1024)
IMAGES = (1, 8)


def write_perceptron(path, widths):
    """Dense layers with ReLU between them, as PyTorch exports them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

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


def peers_of(path, rows, precision):
    """The calls by name, and the versions."""
    import openvino

    compiled = openvino.Core().compile_model(
        path, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": CORES,
                      "INFERENCE_PRECISION_HINT": precision})
    feed = {}
    for each in compiled.inputs:
        shape = [rows if one.is_dynamic else one.get_length() for one in each.get_partial_shape()]
        numbers = (np.arange(int(np.prod(shape))) % 17 * 0.1).astype(np.float32)
        feed[each.get_any_name()] = numbers.reshape(shape)
    request = compiled.create_infer_request()
    values = list(feed.values())
    calls, versions = {"openvino": lambda: request.infer(values)}, {"openvino": openvino.__version__}
    if precision == "f32":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = CORES
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        calls = {"onnxruntime": lambda: session.run(None, feed), **calls}
        versions = {"onnxruntime": onnxruntime.__version__, **versions}
    return calls, versions


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "CPU")


def compare(program, name, path, rows, precision):
    peers, versions = peers_of(path, rows, precision)
    times, multiplies = {}, ""
    for _ in range(ROUNDS):
        ours = json.loads(subprocess.run([program, path, str(rows), str(2 * SECONDS), precision], check=True,
                                         capture_output=True, text=True).stdout)
        multiplies = ours.pop("how")
        for which, value in ours.items():
            times.setdefault(which, []).append(value)
        for which, call in peers.items():
            times.setdefault(which, []).append(median_of(call))
    medians = {which: statistics.median(values) for which, values in times.items()}
    others = {which: round(medians[which], 2) for which in peers}
    best = min(others.values())
    for how in ("run", "compiled", "direct"):
        print(json.dumps({
            "figure": "network_cpu" if precision == "f32" else f"network_cpu_{precision}",
            "params": {"network": name, "rows": rows, "how": how,
                       **({} if precision == "f32" else {"multiplies": multiplies})},
            "value": round(medians[how], 2), "unit": "us", "baseline": best, "ratio": round(medians[how] / best, 3),
            "peers": others, "versions": versions,
            "machine": f"{processor()}, {CORES} cores", "date": datetime.date.today().isoformat(),
            "commit": os.environ.get("SLUICE_COMMIT", "unknown")}), flush=True)


def name_of(widths):
    return "-".join(map(str, widths))


def main():
    arguments = argparse.ArgumentParser(description="Networks on a CPU by Sluice and by its peers.")
    arguments.add_argument("--write", metavar="FOLDER", type=pathlib.Path)
    arguments.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    arguments.add_argument("program", nargs="?")
    arguments.add_argument("folder", nargs="?", type=pathlib.Path)
    arguments.add_argument("networks", nargs="*")
    given = arguments.parse_intermixed_args()
    if given.write:
        for widths in PERCEPTRONS:
            write_perceptron(str(given.write / f"{name_of(widths)}.onnx"), widths)
        return
    if given.folder is None:
        arguments.error("BENCH_NETWORK_CPU and FOLDER are missing")
    with tempfile.TemporaryDirectory() as made:
        for widths in PERCEPTRONS:
            name = name_of(widths)
            if given.networks and name not in given.networks:
                continue
            path = given.folder / f"{name}.onnx"
            if not path.exists():
                path = pathlib.Path(made) / f"{name}.onnx"
                write_perceptron(str(path), widths)
            for rows in ROWS:
                compare(given.program, name, str(path), rows, given.precision)
        perceptrons = {name_of(widths) for widths in PERCEPTRONS}
        if given.networks and perceptrons.issuperset(given.networks):
            return
        if given.precision != "f32" and not given.networks:
            return  # the light models have figures in f32 only
        from light_models import LIGHT, write_with_weights
        for name in LIGHT:
            if given.networks and name not in given.networks:
                continue
            for rows in IMAGES:
                path = str(pathlib.Path(made) / f"{name}.onnx")
                write_with_weights(given.folder / "light" / f"light_{name}" / "model.onnx", path, rows)
                compare(given.program, name, path, rows, given.precision)


if __name__ == "__main__":
    main()
