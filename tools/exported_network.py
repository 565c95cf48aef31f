# SPDX-License-Identifier: Apache-2.0
"""How the exporters' scripts (export_pytorch.py, export_sklearn.py, export_keras.py) store a network: a folder with
model.onnx, its inputs and the framework's own outputs as NumPy files, and network.json, which names them.
scripts/exported_networks runs them with the tool."""

import json
import re
import shutil
import sys
import traceback
import zlib

import numpy as np
import onnx

# The largest difference that a network of 32-bit floating point may have from its framework, as a share of the largest
# number in the output, or absolutely where all are smaller than 1. Whole numbers have to be equal.
TOLERANCE = 1e-5


def generator(name):
    """Random numbers that depend on the network's name only."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def opsets(model):
    return {each.domain or "ai.onnx": each.version for each in model.opset_import}


def scale_of(array):
    """What a difference is a share of."""
    return max(1.0, float(np.abs(array).max(initial=0))) if array.dtype.kind == "f" else 1.0


def store(folder, framework, exporter, name, model, inputs, outputs, tolerance=TOLERANCE):
    """`inputs` maps the names to arrays; `outputs` is a list, in the order of the model's outputs."""
    onnx.checker.check_model(model)  # some exporters leave operators that only their framework knows
    at = folder / f"{framework}-{name}"
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    onnx.save(model, at / "model.onnx")
    described = {"network": name, "framework": framework, "exporter": exporter, "opsets": opsets(model),
                 "nodes": len(model.graph.node), "inputs": {}, "outputs": []}
    taken = [each.name for each in model.graph.input]
    for number, key in enumerate(taken):
        np.save(at / f"input_{number}.npy", inputs[key])
        described["inputs"][key] = f"input_{number}.npy"
    if len(outputs) != len(model.graph.output):
        raise ValueError(f"{len(outputs)} outputs of the framework, {len(model.graph.output)} of the exported model")
    for number, (info, array) in enumerate(zip(model.graph.output, outputs)):
        array = np.asarray(array, order="C")
        np.save(at / f"output_{number}.npy", array)
        described["outputs"].append({"name": info.name, "file": f"output_{number}.npy",
                                     "scale": scale_of(array),
                                     "tolerance": tolerance if array.dtype.kind == "f" else 0.0})
    (at / "network.json").write_text(json.dumps(described, indent=1))


def store_failure(folder, framework, exporter, name, why):
    """A network that the exporter itself cannot export is in the table too."""
    at = folder / f"{framework}-{name}"
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    described = {"network": name, "framework": framework, "exporter": exporter, "not_exported": why}
    (at / "network.json").write_text(json.dumps(described, indent=1))


def export_all(folder, framework, exporter, names, export):
    """Calls export(name), which stores the network, for each name that matches a word of the command line."""
    wanted = sys.argv[2:]
    chosen = [name for name in names if not wanted or any(re.fullmatch(word, name) for word in wanted)]
    for name in chosen:
        print(f"{framework}: {name}", flush=True)
        try:
            export(name)
        except Exception as failure:  # of any kind: the exporter's
            traceback.print_exc(limit=-4)
            while failure.__cause__ is not None:
                failure = failure.__cause__
            why = " ".join(str(failure).split())
            store_failure(folder, framework, exporter, name, f"{type(failure).__name__}: {why}")
