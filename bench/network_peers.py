"""One call of a network on a CPU, by Sluice and its peers in turn, with as many threads as there are cores.

    network_peers.py BENCH_NETWORK_CPU FOLDER [--onednn BENCH_ONEDNN_PERCEPTRON] [--precision bf16] [NETWORK...]
    network_peers.py --write FOLDER                                               the perceptrons, as files

FOLDER has the light models of the onnx package (scripts/onnx_cases). They compute their weights, all equal, when they
run; here they get random ones, as files of trained networks have them. The multi-layer perceptrons are made here, unless
FOLDER has them. NETWORK: only these. Prints a JSON line per network, number of rows and way of ours, as figure
network_cpu or network_cpu_bf16: the baseline is the fastest peer.

The peers are ONNX Runtime and OpenVINO; for perceptrons in f32 PyTorch and plain oneDNN too, whose outputs must be those of
OpenVINO. In bf16 the networks are the perceptrons, and the peer is OpenVINO. Needs openvino and numpy; in f32
onnxruntime, torch and onnx too.
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


def layers_of(path):
    """Weights [inputs, outputs] and biases of each layer of a perceptron."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    known = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    return [(known[node.input[1]].T, known[node.input[2]]) for node in graph.node if node.op_type == "Gemm"]


class PlainOneDnn:
    """The program of plain oneDNN: a process for each measurement, as for Sluice."""

    def __init__(self, program, layers, rows, folder):
        self.outputs = folder / "onednn.outputs"
        weights = folder / "onednn.numbers"
        weights.write_bytes(b"".join(np.ascontiguousarray(each).tobytes() for layer in layers for each in layer))
        widths = [layers[0][0].shape[0], *(biases.shape[0] for _, biases in layers)]
        self.command = [program, str(weights), str(rows), str(SECONDS), str(CORES), str(self.outputs),
                        *map(str, widths)]
        self.version = ""
        self.threads = set()

    def measure(self):
        said = json.loads(subprocess.run(self.command, check=True, capture_output=True, text=True).stdout)
        self.version = said["version"]
        self.threads.add(said["threads"])
        return said["onednn"]


def perceptron_peers(path, rows, onednn, folder, calls, versions):
    """Adds PyTorch to the calls, and gives the program of oneDNN. Compares their outputs with OpenVINO's."""
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
    import torch_perceptron

    torch_perceptron.set_threads(CORES)
    layers = layers_of(path)
    numbers = numbers_of([rows, layers[0][0].shape[0]])
    calls["pytorch"], way = torch_perceptron.fastest(layers, numbers)
    versions["pytorch"] = f"{torch.__version__}, {way}"
    plain = PlainOneDnn(onednn, layers, rows, folder)
    plain.measure()
    versions["onednn"] = plain.version
    expected = np.asarray(next(iter(calls["openvino"]().values())))
    for name, got in (("pytorch", calls["pytorch"]()),
                      ("onednn", np.fromfile(plain.outputs, np.float32).reshape(expected.shape))):
        if not np.allclose(got, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max()):
            raise SystemExit(f"network_peers: {name} computes something else than OpenVINO for {path}")
    return plain


def numbers_of(shape):
    """The same as bench_network_cpu and bench_onednn_perceptron have."""
    return (np.arange(int(np.prod(shape))) % 17 * 0.1).astype(np.float32).reshape(shape)


def peers_of(path, rows, precision):
    """The calls by name, and the versions."""
    import openvino

    compiled = openvino.Core().compile_model(
        path, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": CORES,
                      "INFERENCE_PRECISION_HINT": precision})
    feed = {}
    for each in compiled.inputs:
        shape = [rows if one.is_dynamic else one.get_length() for one in each.get_partial_shape()]
        feed[each.get_any_name()] = numbers_of(shape)
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


def compare(program, name, path, rows, precision, onednn=None):
    """With PyTorch and plain oneDNN where its program is given."""
    peers, versions = peers_of(path, rows, precision)
    with tempfile.TemporaryDirectory() as folder:
        plain = perceptron_peers(path, rows, onednn, pathlib.Path(folder), peers, versions) if onednn else None
        measure(program, name, path, rows, precision, peers, plain, versions)


def measure(program, name, path, rows, precision, peers, plain, versions):
    times, multiplies = {}, ""
    for _ in range(ROUNDS):
        ours = json.loads(subprocess.run([program, path, str(rows), str(2 * SECONDS), precision], check=True,
                                         capture_output=True, text=True).stdout)
        multiplies = ours.pop("how")
        for which, value in ours.items():
            if value is not None:  # null: it cannot be prepared
                times.setdefault(which, []).append(value)
        for which, call in peers.items():
            times.setdefault(which, []).append(median_of(call))
        if plain:
            times.setdefault("onednn", []).append(plain.measure())
    if plain:
        versions["onednn"] += f", {' or '.join(map(str, sorted(plain.threads)))} threads"
    medians = {which: statistics.median(values) for which, values in times.items()}
    others = {which: round(medians[which], 2) for which in versions}
    best = min(others.values())
    for how in ("run", "compiled", "direct", "prepared"):
        if how not in medians:
            continue
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
    arguments.add_argument("--onednn", metavar="BENCH_ONEDNN_PERCEPTRON")
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
                compare(given.program, name, str(path), rows, given.precision,
                        given.onednn if given.precision == "f32" else None)
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
