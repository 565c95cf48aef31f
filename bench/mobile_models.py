# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks of mobile and other kinds as ONNX files, weights at random by seed.

    mobile_models.py FOLDER

Writes mobilenet_v3_small.onnx, efficientnet.onnx (the blocks of B0), unet.onnx (3 x 128 x 128) and dilated_1d.onnx, each
with a batch that is named n.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    def __init__(self, name, shape):
        self.name, self.nodes, self.constants, self.random = name, [], [], np.random.default_rng(5)
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])
        self.channels = {"x": shape[0]}

    def constant(self, values):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, inputs, channels=None, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.channels[name] = self.channels[inputs[0]] if channels is None else channels
        return name

    def normal(self, *shape, scale=1.0):
        # (A few thousand numbers again and again: the files become small when they are packed.)
        some = self.random.standard_normal(min(4099, int(np.prod(shape)))) * scale
        return np.resize(some.astype(np.float16).astype(np.float32), shape)

    def conv(self, x, filters, window=1, stride=1, groups=1, bias=False, dilation=1, rank=2, before=None):
        each = self.channels[x] // groups
        reach = (window - 1) * dilation
        first = reach // 2 if before is None else before
        inputs = [x, self.constant(self.normal(filters, each, *[window] * rank, scale=(1.6 / (each * window**rank)) ** 0.5))]
        if bias:
            inputs.append(self.constant(self.normal(filters, scale=0.05)))
        return self.add("Conv", inputs, filters, kernel_shape=[window] * rank, strides=[stride] * rank, group=groups,
                        dilations=[dilation] * rank, pads=[first] * rank + [reach - first] * rank)

    def norm(self, x):
        c = self.channels[x]
        ones = 1 + self.normal(c, scale=0.05)
        return self.add("BatchNormalization", [x, self.constant(ones), self.constant(self.normal(c, scale=0.05)),
                                               self.constant(self.normal(c, scale=0.05)), self.constant(np.abs(ones))])

    def act(self, x, kind):
        if kind == "SiLU":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        return self.add(kind, [x])

    def block(self, x, window, expanded, out, squeezed, kind, gate, inner, stride):
        at, start = x, self.channels[x]
        if expanded != start:
            at = self.act(self.norm(self.conv(at, expanded)), kind)
        at = self.act(self.norm(self.conv(at, expanded, window, stride, expanded)), kind)
        if squeezed:
            s = self.add("GlobalAveragePool", [at])
            s = self.act(self.conv(s, squeezed, bias=True), inner)
            s = self.conv(s, expanded, bias=True)
            s = self.add(gate, [s], alpha=1 / 6, beta=0.5) if gate == "HardSigmoid" else self.add(gate, [s])
            at = self.add("Mul", [at, s])
        at = self.norm(self.conv(at, out))
        return self.add("Add", [at, x]) if stride == 1 and start == out else at

    def gemm(self, x, inputs, outputs):
        return self.add("Gemm", [x, self.constant(self.normal(outputs, inputs, scale=(1.6 / inputs) ** 0.5)),
                                 self.constant(self.normal(outputs, scale=0.05))], outputs, transB=1)

    def save(self, folder, output, rank):
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, [f"d{i}" for i in range(rank)])
        graph = helper.make_graph(self.nodes, self.name, [self.input], [out], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, pathlib.Path(folder) / f"{self.name}.onnx")


def divisible(x):
    made = max(8, int(x + 4) // 8 * 8)
    return made + 8 if made < 0.9 * x else made


def mobilenet(folder):
    w = Writer("mobilenet_v3_small", [3, 224, 224])
    at = w.act(w.norm(w.conv("x", 16, 3, 2)), "HardSwish")
    for window, expanded, out, squeezes, kind, stride in [
        (3, 16, 16, True, "Relu", 2), (3, 72, 24, False, "Relu", 2), (3, 88, 24, False, "Relu", 1),
        (5, 96, 40, True, "HardSwish", 2), (5, 240, 40, True, "HardSwish", 1), (5, 240, 40, True, "HardSwish", 1),
        (5, 120, 48, True, "HardSwish", 1), (5, 144, 48, True, "HardSwish", 1), (5, 288, 96, True, "HardSwish", 2),
        (5, 576, 96, True, "HardSwish", 1), (5, 576, 96, True, "HardSwish", 1)]:
        at = w.block(at, window, expanded, out, divisible(expanded // 4) if squeezes else 0, kind, "HardSigmoid", "Relu",
                     stride)
    at = w.act(w.norm(w.conv(at, 576)), "HardSwish")
    at = w.add("Flatten", [w.add("GlobalAveragePool", [at])])
    at = w.gemm(w.act(w.gemm(at, 576, 1024), "HardSwish"), 1024, 1000)
    w.save(folder, at, 2)


def efficientnet(folder):
    w = Writer("efficientnet", [3, 224, 224])
    at = w.act(w.norm(w.conv("x", 32, 3, 2)), "SiLU")
    for ratio, window, stride, out, count in [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                              (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]:
        for i in range(count):
            start = w.channels[at]
            at = w.block(at, window, start * ratio, out, max(1, start // 4), "SiLU", "Sigmoid", "SiLU", stride if i == 0 else 1)
    at = w.act(w.norm(w.conv(at, 1280)), "SiLU")
    at = w.gemm(w.add("Flatten", [w.add("GlobalAveragePool", [at])]), 1280, 1000)
    w.save(folder, at, 2)


def unet(folder):
    w = Writer("unet", [3, 128, 128])

    def twice(x, channels):
        for _ in range(2):
            x = w.act(w.norm(w.conv(x, channels, 3)), "Relu")
        return x

    kept, at = [], "x"
    for channels in [32, 64, 128]:
        at = twice(at, channels)
        kept.append(at)
        at = w.add("MaxPool", [at], kernel_shape=[2, 2], strides=[2, 2])
    at = twice(at, 256)
    for channels in [128, 64, 32]:
        start = w.channels[at]
        at = w.add("ConvTranspose", [at, w.constant(w.normal(start, channels, 2, 2, scale=(1 / start) ** 0.5)),
                                     w.constant(w.normal(channels, scale=0.05))], channels, kernel_shape=[2, 2], strides=[2, 2])
        at = twice(w.add("Concat", [at, kept.pop()], 2 * channels, axis=1), channels)
    w.save(folder, w.conv(at, 2, bias=True), 4)


def dilated(folder):
    w = Writer("dilated_1d", [1, 4000])
    at = w.conv("x", 64, 3, bias=True, rank=1, before=2)
    for i in range(8):
        a = w.conv(at, 64, 3, bias=True, rank=1, dilation=2**i, before=2 ** (i + 1))
        b = w.conv(at, 64, 3, bias=True, rank=1, dilation=2**i, before=2 ** (i + 1))
        gated = w.add("Mul", [w.add("Tanh", [a]), w.add("Sigmoid", [b])])
        at = w.add("Add", [w.conv(gated, 64, bias=True, rank=1), at])
    w.save(folder, w.conv(w.act(at, "Relu"), 16, bias=True, rank=1), 3)


if __name__ == "__main__":
    for each in (mobilenet, efficientnet, unet, dilated):
        each(sys.argv[1])
