#!/usr/bin/env python3
"""Writes tests/c/networks/*.onnx: small networks with which the C interface and the Python package are tested.

    python3 tools/make_small_networks.py        needs onnx (PyPI)
"""

import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/c/networks"
TYPES = ["FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64",
         "UINT64", "BOOL"]


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def write(name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 17)]
    if any(each.domain == "ai.onnx.ml" for each in nodes):
        opsets.append(helper.make_opsetid("ai.onnx.ml", 3))
    model = helper.make_model(graph, opset_imports=opsets, producer_name="sluice-tests")
    model.ir_version = 8
    onnx.checker.check_model(model)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def main():
    # weights[tokens] * mask, and its sum for each row. A token is below 5.
    weights = numpy_helper.from_array(numpy.array([0, 10, 20, 30, 40], numpy.float32), "weights")
    axes = numpy_helper.from_array(numpy.array([1], numpy.int64), "axes")
    write("tokens",
          [helper.make_node("Gather", ["weights", "tokens"], ["found"]),
           helper.make_node("Mul", ["found", "mask"], ["scores"]),
           helper.make_node("ReduceSum", ["scores", "axes"], ["total"], keepdims=0)],
          [value("tokens", TensorProto.INT64, ["batch", "length"]), value("mask", TensorProto.FLOAT, ["batch", "length"])],
          [value("scores", TensorProto.FLOAT, ["batch", "length"]), value("total", TensorProto.FLOAT, ["batch"])],
          [weights, axes])

    # Each type, unchanged.
    numbers = [(name.lower(), getattr(TensorProto, name)) for name in TYPES]
    write("types", [helper.make_node("Identity", [f"in_{name}"], [f"out_{name}"]) for name, _ in numbers],
          [value(f"in_{name}", kind, ["n"]) for name, kind in numbers],
          [value(f"out_{name}", kind, ["n"]) for name, kind in numbers])

    # The output's shape is an input, which has to be in host memory; and an output that is a constant.
    table = numpy_helper.from_array(numpy.array([7, 8], numpy.float32), "table")
    write("reshape",
          [helper.make_node("Reshape", ["x", "shape"], ["y"]), helper.make_node("Identity", ["table"], ["same"])],
          [value("x", TensorProto.FLOAT, ["n"]), value("shape", TensorProto.INT64, [2])],
          [value("y", TensorProto.FLOAT, ["rows", "columns"]), value("same", TensorProto.FLOAT, [2])], [table])

    # A mean that forgets: state_out = (state_in + x) / 2, and y = 2 * state_out + weights[place].
    half = numpy_helper.from_array(numpy.array(0.5, numpy.float32), "half")
    write("memory",
          [helper.make_node("Add", ["state_in", "x"], ["sum"]), helper.make_node("Mul", ["sum", "half"], ["state_out"]),
           helper.make_node("Add", ["state_out", "state_out"], ["twice"]),
           helper.make_node("Gather", ["weights", "place"], ["found"]),
           helper.make_node("Add", ["twice", "found"], ["y"])],
          [value("x", TensorProto.FLOAT, ["n"]), value("place", TensorProto.INT64, ["n"]),
           value("state_in", TensorProto.FLOAT, ["n"])],
          [value("y", TensorProto.FLOAT, ["n"]), value("state_out", TensorProto.FLOAT, ["n"])], [half, weights])

    # The indices are computed on the device, so that only the run finds one that is out of range.
    write("later",
          [helper.make_node("Add", ["x", "x"], ["places"]), helper.make_node("Gather", ["weights", "places"], ["y"])],
          [value("x", TensorProto.INT64, ["n"])], [value("y", TensorProto.FLOAT, ["n"])], [weights])

    # Colours as numbers and as their names in German.
    colours = ["red", "green", "blue"]
    write("texts",
          [helper.make_node("LabelEncoder", ["colour"], ["number"], domain="ai.onnx.ml", keys_strings=colours,
                            values_int64s=[1, 2, 3], default_int64=0),
           helper.make_node("LabelEncoder", ["number"], ["farbe"], domain="ai.onnx.ml", keys_int64s=[1, 2, 3],
                            values_strings=["rot", "gr\u00fcn", "blau"], default_string="?")],
          [value("colour", TensorProto.STRING, ["batch", 2])],
          [value("number", TensorProto.INT64, ["batch", 2]), value("farbe", TensorProto.STRING, ["batch", 2])])

    # One number in, one out: no dimensions.
    write("scalar", [helper.make_node("Add", ["x", "x"], ["twice"])], [value("x", TensorProto.FLOAT, [])],
          [value("twice", TensorProto.FLOAT, [])])

    # An operator that Sluice does not have.
    graph = helper.make_graph([helper.make_node("Mystery", ["x"], ["y"], domain="nowhere", name="first")], "unknown",
                              [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)],
                              producer_name="sluice-tests")
    model.ir_version = 8
    (FOLDER / "unknown.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
