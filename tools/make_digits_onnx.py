#!/usr/bin/env python3
"""Writes models/digits.onnx and models/digits_cnn.onnx: the networks of the safetensors files of the same names as
PyTorch's exporter writes an nn.Sequential. The convolutional one takes rows of 64 pixels, as the other does.

The checker of the onnx package must accept them, and its reference implementation must give data/digits_logits.npy and
data/digits_cnn_logits.npy within 1e-4. Needs onnx, numpy and safetensors; run from the root of the repository. The
output is the same, byte for byte.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

LAYERS = ("0", "2", "4")


def make(tensors):
    nodes, value = [], "input"
    for at, layer in enumerate(LAYERS):
        last = at + 1 == len(LAYERS)
        product = "logits" if last else f"/{layer}/Gemm_output_0"
        nodes.append(helper.make_node("Gemm", [value, f"{layer}.weight", f"{layer}.bias"], [product],
                                      name=f"/{layer}/Gemm", transB=1))
        value = product
        if not last:
            relu = f"/{int(layer) + 1}/Relu"
            nodes.append(helper.make_node("Relu", [value], [f"{relu}_output_0"], name=relu))
            value = f"{relu}_output_0"
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(tensors[f"{layer}.{part}"], f"{layer}.{part}")
         for layer in LAYERS for part in ("weight", "bias")])
    return helper.make_model(graph, producer_name="make_digits_onnx", ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])


def make_cnn(tensors):
    value = "/Reshape_output_0"
    nodes = [helper.make_node("Reshape", ["input", "image"], [value], name="/Reshape")]
    for at in (1, 2):
        conv, relu, pool = f"/{at}/Conv", f"/{at}/Relu", f"/{at}/MaxPool"
        nodes.append(helper.make_node("Conv", [value, f"convolution_{at}.weight", f"convolution_{at}.bias"],
                                      [f"{conv}_output_0"], name=conv, dilations=[1, 1], group=1, kernel_shape=[3, 3],
                                      pads=[1, 1, 1, 1], strides=[1, 1]))
        nodes.append(helper.make_node("Relu", [f"{conv}_output_0"], [f"{relu}_output_0"], name=relu))
        nodes.append(helper.make_node("MaxPool", [f"{relu}_output_0"], [f"{pool}_output_0"], name=pool, ceil_mode=0,
                                      dilations=[1, 1], kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[2, 2]))
        value = f"{pool}_output_0"
    nodes.append(helper.make_node("Flatten", [value], ["/Flatten_output_0"], name="/Flatten", axis=1))
    nodes.append(helper.make_node("Gemm", ["/Flatten_output_0", "linear.weight", "linear.bias"], ["logits"],
                                  name="/Gemm", transB=1))
    constants = [numpy_helper.from_array(np.array([-1, 1, 8, 8], np.int64), "image")]
    constants += [numpy_helper.from_array(tensors[name], name) for name in sorted(tensors)]
    graph = helper.make_graph(
        nodes, "digits_cnn",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])], constants)
    return helper.make_model(graph, producer_name="make_digits_onnx", ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])


def write(name, model):
    onnx.checker.check_model(model, full_check=True)
    inputs, expected = np.load("data/digits_inputs.npy"), np.load(f"data/{name}_logits.npy")
    (logits,) = ReferenceEvaluator(model).run(None, {"input": inputs})
    difference = float(np.abs(logits - expected).max())
    assert difference < 1e-4, difference
    path = pathlib.Path(f"models/{name}.onnx")
    path.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{path}: {path.stat().st_size} bytes, logits differ by at most {difference:.1e}")


def main():
    write("digits", make(load_file("models/digits.safetensors")))
    write("digits_cnn", make_cnn(load_file("models/digits_cnn.safetensors")))


if __name__ == "__main__":
    main()
