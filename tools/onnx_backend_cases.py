#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the test cases of the onnx package (onnx.backend.test) as files: KIND/CASE/model.onnx, its tolerances, and its
inputs and expected outputs as test_data_set_N/{input,output}_N.pb.

    python3 tools/onnx_backend_cases.py FOLDER

The tests of the room nn read the folder. Needs the packages onnx and numpy. The "light" models are real networks whose
weights are constants: the package has the files.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def write(path, message):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(message.SerializeToString())


def message_of(value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, onnx.TensorProto):
        return value
    if kind == "tensor_type":
        return numpy_helper.from_array(value, info.name)
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_dict(value, info.name)


def write_node_cases(folder):
    # They are made by code, with random numbers of a fixed seed.
    for case in collect_testcases(None):
        at = folder / "node" / case.name
        write(at / "model.onnx", case.model)
        (at / "data.json").write_text(json.dumps({"atol": case.atol, "rtol": case.rtol}))
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = at / f"test_data_set_{number}"
            for i, value in enumerate(inputs):
                write(data / f"input_{i}.pb", message_of(value, case.model.graph.input[i]))
            for i, value in enumerate(outputs):
                write(data / f"output_{i}.pb", message_of(value, case.model.graph.output[i]))


# The package has each as a model and its output, for an input that counts up to 1.
def write_light_models(data, folder):
    for path in sorted((data / "light").glob("*.onnx")):
        at = folder / "light" / path.stem
        write(at / "model.onnx", onnx.load(path))
        graph = onnx.load(path).graph
        constants = {each.name for each in graph.initializer}
        (info,) = [each for each in graph.input if each.name not in constants]
        shape = [each.dim_value or 1 for each in info.type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        numbers = (np.arange(count).reshape(shape) / count).astype(np.float32)
        write(at / "test_data_set_0" / "input_0.pb", numpy_helper.from_array(numbers, info.name))
        shutil.copy(path.with_name(path.stem + "_output_0.pb"), at / "test_data_set_0" / "output_0.pb")


def main():
    folder = pathlib.Path(sys.argv[1])
    made = folder / f"onnx-{onnx.__version__}"
    if made.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    write_node_cases(folder)
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    write_light_models(data, folder)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        shutil.copytree(data / kind, folder / kind)
    made.touch()


main()
