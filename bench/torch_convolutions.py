# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks on a GPU, by Sluice and by PyTorch's CUDA graphs in turn: the light models of the onnx package.

    torch_convolutions.py BENCH_NETWORK_GPU FOLDER [--networks resnet50,...] [--batches 1,32] [--types f16,bf16]
                          [--forms modules,folded,fused] [--pieces 8,24] [--rounds N] [--calls N] [--steps]

FOLDER has the light models (scripts/onnx_cases); they get weights at random (light_models.py). Both read the same f32
numbers from pinned memory and write f32 numbers to pinned memory; in between they compute in the type. PyTorch keeps
channels last and chooses cuDNN's algorithms by trial. Its forms:
    modules     each node as PyTorch's modules compute it; BatchNorm2d with its factors is one
    folded      batch normalizations are a part of the convolutions before them, where only they read these
    fused       the same, and ReLUs and additions inside cuDNN's convolutions, where PyTorch has a function for that
Prints a JSON line for each network, batch, type and form: value is the median of the rounds' medians of ours, baseline
that of PyTorch. A batch of as many images as the pieces have is measured in pieces too: one is computed while the next
one is copied. --steps prints how ours carries out the convolutions, to the standard error.
Needs PyTorch with CUDA, onnx and numpy.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import light_models
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch_graph import TYPES, Graphed, Ours, difference


class Node:
    def __init__(self, op, inputs, output, **attributes):
        self.op, self.inputs, self.output, self.attributes = op, list(inputs), output, attributes

    def get(self, name, otherwise):
        return self.attributes.get(name, otherwise)


class Network:
    """An ONNX file as a list of nodes, which the forms make shorter."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self.input = next(each.name for each in graph.input if each.name not in self.constants)
        self.output = graph.output[0].name
        self.nodes = []
        for each in graph.node:
            attributes = {one.name: helper.get_attribute_value(one) for one in each.attribute}
            node = Node(each.op_type, each.input, each.output[0], **attributes)
            if node.op == "Unsqueeze" and node.inputs[0] in self.constants:
                made = self.constants[node.inputs[0]]
                for axis in node.attributes["axes"]:
                    made = np.expand_dims(made, axis)
                self.constants[node.output] = made
            else:
                self.nodes.append(node)
        self.join_factors()
        self.join_shuffles()

    def only_reader(self, name):
        readers = [each for each in self.nodes if name in each.inputs]
        return readers[0] if len(readers) == 1 and name != self.output else None

    def join(self, node, into):
        into.output = node.output
        self.nodes.remove(node)

    def join_factors(self):
        """BatchNormalization, then Mul and Add by channel: one normalization."""
        for node in [each for each in self.nodes if each.op == "BatchNormalization"]:
            factor, addend = (self.constants[name].astype(np.float64) for name in node.inputs[1:3])
            while (reader := self.only_reader(node.output)) is not None and reader.op in ("Mul", "Add"):
                other = [name for name in reader.inputs if name != node.output]
                if len(other) != 1 or other[0] not in self.constants or self.constants[other[0]].size != factor.size:
                    break
                by = self.constants[other[0]].astype(np.float64).reshape(-1)
                factor, addend = (factor * by, addend * by) if reader.op == "Mul" else (factor, addend + by)
                self.join(reader, node)
            node.inputs[1:3] = [node.output + ".factor", node.output + ".addend"]
            self.constants[node.inputs[1]], self.constants[node.inputs[2]] = factor, addend

    def join_shuffles(self):
        """Reshape, Transpose, Reshape of groups of channels."""
        for first in [each for each in self.nodes if each.op == "Reshape"]:
            second = self.only_reader(first.output)
            third = self.only_reader(second.output) if second is not None else None
            if third is None or second.op != "Transpose" or third.op != "Reshape":
                continue
            if list(second.attributes["perm"]) != [0, 2, 1, 3, 4]:
                continue
            first.op, first.attributes["groups"] = "Shuffle", int(self.constants[first.inputs[1]][1])
            first.inputs = first.inputs[:1]
            self.join(second, first)
            self.join(third, first)

    def fold_normalizations(self):
        for node in [each for each in self.nodes if each.op == "Conv"]:
            reader = self.only_reader(node.output)
            if reader is None or reader.op != "BatchNormalization":
                continue
            factor, addend, mean, variance = (self.constants[name].astype(np.float64) for name in reader.inputs[1:5])
            scale = factor / np.sqrt(variance + reader.get("epsilon", 1e-5))
            weight = self.constants[node.inputs[1]].astype(np.float64)
            bias = self.constants[node.inputs[2]].astype(np.float64) if len(node.inputs) > 2 else 0
            names = [node.output + ".weight", node.output + ".bias"]
            self.constants[names[0]] = weight * scale.reshape(-1, 1, 1, 1)
            self.constants[names[1]] = (bias - mean) * scale + addend
            node.inputs[1:] = names
            self.join(reader, node)

    def fuse_convolutions(self):
        """ReLU, or an addition and ReLU, after a convolution: a convolution of cuDNN with both."""
        for node in [each for each in self.nodes if each.op == "Conv" and each.get("group", 1) == 1]:
            if len(node.inputs) < 3:
                continue
            reader = self.only_reader(node.output)
            if reader is not None and reader.op == "Relu":
                node.op = "ConvRelu"
                self.join(reader, node)
                continue
            if reader is None or reader.op not in ("Sum", "Add") or len(reader.inputs) != 2:
                continue
            after = self.only_reader(reader.output)
            other = [name for name in reader.inputs if name != node.output]
            if after is None or after.op != "Relu" or len(other) != 1 or other[0] in self.constants:
                continue
            made_before = [each.output for each in self.nodes[: self.nodes.index(node)]] + [self.input]
            if other[0] not in made_before:
                continue
            node.op = "ConvAddRelu"
            node.inputs.append(other[0])
            self.join(reader, node)
            self.join(after, node)

    def function(self, form, type):
        if form in ("folded", "fused"):
            self.fold_normalizations()
        if form == "fused":
            self.fuse_convolutions()
        steps = [(self.step(each, type), [i for i in each.inputs if i not in self.constants], each.output)
                 for each in self.nodes]
        last = {}
        for at, (_, inputs, _) in enumerate(steps):
            for name in inputs:
                last[name] = at

        def forward(x):
            values = {self.input: x}
            for at, (run, inputs, output) in enumerate(steps):
                values[output] = run(*(values[name] for name in inputs))
                for name in inputs:
                    if last[name] == at and name in values:
                        del values[name]
            return values[self.output]

        return forward

    def tensor(self, name, type):
        made = torch.from_numpy(np.array(self.constants[name], dtype=np.float32)).to("cuda", type)
        return made.contiguous(memory_format=torch.channels_last) if made.dim() == 4 else made

    def step(self, node, type):
        constant = [self.tensor(name, type) for name in node.inputs
                    if name in self.constants and self.constants[name].dtype.kind == "f"]
        pads = list(node.get("pads", [0, 0, 0, 0]))
        assert pads[:2] == pads[2:] or node.op not in ("Conv", "ConvRelu", "ConvAddRelu", "MaxPool", "AveragePool")
        pads, strides = pads[:2], list(node.get("strides", [1, 1]))
        dilations, groups = list(node.get("dilations", [1, 1])), node.get("group", 1)
        window, op = list(node.get("kernel_shape", [])), node.op
        if op == "Conv":
            weight, bias = constant[0], constant[1] if len(constant) > 1 else None
            return lambda x: F.conv2d(x, weight, bias, strides, pads, dilations, groups)
        if op == "ConvRelu":
            weight, bias = constant
            return lambda x: torch.cudnn_convolution_relu(x, weight, bias, strides, pads, dilations, groups)
        if op == "ConvAddRelu":
            weight, bias = constant
            return lambda x, z: torch.cudnn_convolution_add_relu(
                x, weight, z, 1.0, bias, strides, pads, dilations, groups)
        if op == "BatchNormalization":
            factor, addend, mean, variance = constant
            epsilon = node.get("epsilon", 1e-5)
            return lambda x: F.batch_norm(x, mean, variance, factor, addend, False, 0.0, epsilon)
        if op == "Relu":
            in_place = self.only_reader(node.inputs[0]) is node
            return lambda x: F.relu(x, inplace=in_place)
        if op == "MaxPool":
            return lambda x: F.max_pool2d(x, window, strides, pads)
        if op == "AveragePool":
            counts = bool(node.get("count_include_pad", 0))
            return lambda x: F.avg_pool2d(x, window, strides, pads, count_include_pad=counts)
        if op == "GlobalAveragePool":
            return lambda x: F.adaptive_avg_pool2d(x, 1)
        if op == "Concat":
            return lambda *x: torch.cat(x, 1)
        if op in ("Sum", "Add") and not constant:
            return torch.add
        if op == "Shuffle":
            parts = node.attributes["groups"]

            def shuffle(x):
                n, c, h, w = x.shape
                turned = x.permute(0, 2, 3, 1).reshape(n, h, w, parts, c // parts).transpose(3, 4)
                return turned.reshape(n, h, w, c).permute(0, 3, 1, 2)

            return shuffle
        if op == "Reshape":
            shape = [int(each) for each in self.constants[node.inputs[1]]]
            return lambda x: x.reshape([of or x.shape[i] for i, of in enumerate(shape)])
        if op == "Gemm":
            weight = constant[0] if node.get("transB", 0) else constant[0].t().contiguous()
            bias = constant[1]
            return lambda x: F.linear(x, weight, bias)
        if op == "Softmax":
            return lambda x: F.softmax(x.float(), 1)
        if op == "Dropout":
            return lambda x: x
        raise NotImplementedError(op)


def measure(program, path, name, batch, type, asked, folder):
    ours = Ours(program, path, type, str(batch))
    pieces = asked.pieces if batch == sum(int(each) for each in asked.pieces.split(",")) else None
    in_pieces = Ours(program, path, type, pieces) if pieces else None
    if asked.steps:
        print(ours.steps(), file=sys.stderr, flush=True)
    for form in asked.forms.split(","):
        try:
            theirs = Graphed(Network(path).function(form, TYPES[type]), [batch, 3, 224, 224], TYPES[type],
                             torch.channels_last)
        except Exception as failure:  # a function that this version of PyTorch does not have
            print(f"{name} {batch} {type} {form}: {failure}", file=sys.stderr, flush=True)
            continue
        times = [(ours.median(asked.calls), in_pieces.median(asked.calls) if in_pieces else None,
                  theirs.median(asked.calls)) for _ in range(asked.rounds)]
        baseline = statistics.median(each[2] for each in times)
        for which, made, by in ((ours, None, 0), (in_pieces, pieces, 1)):
            if which is None:
                continue
            value = statistics.median(each[by] for each in times)
            expected, got = theirs.result.numpy(), which.output(folder)
            params = {"network": name, "type": type, "batch": batch, "baseline": f"PyTorch, CUDA graph, {form}",
                      "difference": float(f"{difference(expected, got):.3g}")}
            if made:
                params["pieces"] = [int(each) for each in made.split(",")]
            print(json.dumps({
                "figure": "network_convolutions", "params": params,
                "value": round(value, 1), "unit": "us", "baseline": round(baseline, 1),
                "ratio": round(value / baseline, 3), "machine": torch.cuda.get_device_name(),
                "date": time.strftime("%Y-%m-%d"), "commit": os.environ.get("SLUICE_COMMIT", "unknown"),
                "versions": {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}}), flush=True)
        del theirs
    ours.close()
    if in_pieces:
        in_pieces.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--networks", default=",".join(light_models.LIGHT))
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--types", default="f16")
    parser.add_argument("--forms", default="modules,folded,fused")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--pieces", default="8,24")
    parser.add_argument("--steps", action="store_true")
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    with tempfile.TemporaryDirectory() as made:
        for name in asked.networks.split(","):
            path = str(pathlib.Path(made) / f"{name}.onnx")
            light_models.write_with_weights(asked.folder / f"light_{name}" / "model.onnx", path, None, gain=1)
            for type in asked.types.split(","):
                for batch in (int(each) for each in asked.batches.split(",")):
                    measure(asked.program, path, name, batch, type, asked, made)
            os.remove(path)


if __name__ == "__main__":
    main()
