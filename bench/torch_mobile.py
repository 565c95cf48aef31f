# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks on a GPU by Sluice and by PyTorch's CUDA graphs in turn: the files of mobile_models.py.

    torch_mobile.py BENCH_NETWORK_GPU FOLDER [--networks unet,...] [--batches 1,32] [--types f16,f32] [--compile] [--steps]

Both read the same f32 numbers from pinned memory and write f32 numbers to pinned memory; in between they compute in the
type (f32 without TF32). PyTorch keeps channels last and chooses cuDNN's algorithms by trial; each node is what PyTorch's
modules compute. --compile measures Inductor's code in a graph too. Prints a JSON line for each network, type and batch.
--steps prints how ours carries out the convolutions, to the standard error. Needs PyTorch with CUDA, onnx and numpy.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch_graph import TYPES, Graphed, Ours, difference


class Network:
    def __init__(self, path, dtype):
        graph = onnx.load(path).graph
        self.output, self.dtype = graph.output[0].name, dtype
        self.nodes = [(n.op_type, list(n.input), n.output[0],
                       {a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in graph.node]
        self.weights = {}
        for each in graph.initializer:
            made = torch.from_numpy(numpy_helper.to_array(each).copy()).cuda()
            made = made.to(dtype) if made.dtype == torch.float32 else made
            self.weights[each.name] = made.to(memory_format=torch.channels_last) if made.dim() == 4 else made

    def __call__(self, x):
        v = dict(self.weights)
        v["x"] = x
        for op, inputs, output, a in self.nodes:
            i = [v[name] for name in inputs]
            if op == "Conv":
                pads, rank = a["pads"], len(a["kernel_shape"])
                x = i[0]
                if pads[:rank] != pads[rank:]:
                    x = F.pad(x, (pads[0], pads[1]))
                    pads = [0] * 2 * rank
                f = F.conv2d if rank == 2 else F.conv1d
                made = f(x, i[1], i[2] if len(i) > 2 else None, a["strides"], pads[:rank], a["dilations"], a["group"])
            elif op == "ConvTranspose":
                made = F.conv_transpose2d(i[0], i[1], i[2], a["strides"])
            elif op == "BatchNormalization":
                made = F.batch_norm(i[0], i[3], i[4], i[1], i[2], False, 0.0, 1e-5)
            elif op == "GlobalAveragePool":
                made = F.adaptive_avg_pool2d(i[0], 1)
            elif op == "MaxPool":
                made = F.max_pool2d(i[0], a["kernel_shape"], a["strides"])
            elif op == "Gemm":
                made = F.linear(i[0], i[1], i[2])
            elif op == "Concat":
                made = torch.cat(i, 1)
            elif op == "Flatten":
                made = torch.flatten(i[0], 1)
            elif op == "Mul":
                made = i[0] * i[1]
            elif op == "Add":
                made = i[0] + i[1]
            else:
                made = {"Relu": F.relu, "HardSwish": F.hardswish, "HardSigmoid": F.hardsigmoid, "Sigmoid": torch.sigmoid,
                        "Tanh": torch.tanh}[op](i[0])
            v[output] = made
        return v[self.output]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--networks", default="mobilenet_v3_small,unet,efficientnet,dilated_1d")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--types", default="f16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name in options.networks.split(","):
        path = os.path.join(options.folder, name + ".onnx")
        dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
        for type_name in options.types.split(","):
            for rows in map(int, options.batches.split(",")):
                shape = [rows, *[each.dim_value for each in dims[1:]]]
                ours = Ours(options.program, path, type_name, str(rows))
                network = Network(path, TYPES[type_name])
                layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
                peers = {"pytorch eager in a CUDA graph": Graphed(network, shape, TYPES[type_name], layout)}
                if options.compile:
                    torch._dynamo.reset()
                    peers["torch.compile in a CUDA graph"] = Graphed(torch.compile(network.__call__, dynamic=False),
                                                                     shape, TYPES[type_name], layout)
                times = {each: [] for each in ["ours", *peers]}
                for _ in range(3):
                    times["ours"].append(ours.median(60))
                    for each, peer in peers.items():
                        times[each].append(peer.median(60))
                with tempfile.TemporaryDirectory() as folder:
                    got, expected = ours.output(folder), peers["pytorch eager in a CUDA graph"].result.numpy()
                medians = {each: round(statistics.median(all_), 1) for each, all_ in times.items()}
                value, best = medians.pop("ours"), min(v for k, v in medians.items() if k != "ours")
                print(json.dumps({"figure": "network_gpu_families", "params": {"network": name, "type": type_name, "rows": rows},
                                  "value": value, "unit": "us", "baseline": best, "ratio": round(value / best, 2),
                                  "peers": medians, "versions": {"pytorch": torch.__version__ + ", TF32 off"},
                                  "largest_difference": difference(expected, got),
                                  "machine": torch.cuda.get_device_name() + f", {os.cpu_count()} cores",
                                  "date": time.strftime("%Y-%m-%d"), "commit": options.commit}), flush=True)
                if options.steps:
                    print(f"=== {name} {type_name} {rows}", ours.steps(), sep="\n", file=sys.stderr, flush=True)
                ours.close()
                del peers, network
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
