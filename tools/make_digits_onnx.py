#!/usr/bin/env python3
"""Writes models/digits.onnx: the network of models/digits.safetensors as PyTorch's exporter writes an nn.Sequential.

The checker of the onnx package must accept it, and its reference implementation must give data/digits_logits.npy within
1e-4. Needs onnx, numpy and safetensors; run from the root of the repository. The output is the same, byte for byte.
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


def main():
    model = make(load_file("models/digits.safetensors"))
    onnx.checker.check_model(model, full_check=True)
    inputs, expected = np.load("data/digits_inputs.npy"), np.load("data/digits_logits.npy")
    (logits,) = ReferenceEvaluator(model).run(None, {"input": inputs})
    difference = float(np.abs(logits - expected).max())
    assert difference < 1e-4, difference
    path = pathlib.Path("models/digits.onnx")
    path.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{path}: {path.stat().st_size} bytes, logits differ by at most {difference:.1e}")


if __name__ == "__main__":
    main()
