# SPDX-License-Identifier: Apache-2.0
"""Transformers, perceptrons and recurrent networks on a GPU, by Sluice and by PyTorch's CUDA graphs in turn.

    torch_transformers.py BENCH_NETWORK_GPU [--networks encoder4x512,...] [--batches 1,32] [--types f16,f32]
                          [--exporters traced,exported] [--rounds N] [--calls N] [--compile] [--steps] [--keep FOLDER]

Both read the same f32 numbers from pinned memory and write f32 numbers to pinned memory; in between they compute in the
type (TF32 is off). PyTorch runs its modules in one CUDA graph, recurrent ones by cuDNN; with --compile also Inductor's
code. Exporters: `traced` is torch.onnx.export of old, at operator set 17; `exported` the one that comes after
torch.export. Weights are random, by a seed.
Prints a JSON line for each network, batch, type and exporter: value is the median of the rounds' medians of ours,
baseline that of the fastest peer. --steps prints our steps to the standard error; --keep leaves the ONNX files in a folder.
Needs PyTorch with CUDA, timm, onnx, onnxscript and numpy.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from torch import nn
from torch_graph import TYPES, Graphed, Ours, difference


def encoder():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), [128, 512]


def vit_tiny():
    import timm
    return timm.create_model("vit_tiny_patch16_224"), [3, 224, 224]


def perceptron(*widths, activation=nn.ReLU, norm=False):
    layers = []
    for into, out in zip(widths, widths[1:-1]):
        layers += [nn.Linear(into, out), *([nn.LayerNorm(out)] if norm else []), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1])), [widths[0]]


class Recurrent(nn.Module):
    """All outputs of the last layer."""

    def __init__(self, kind, inputs, hidden, layers, both_ways):
        super().__init__()
        self.inside = kind(inputs, hidden, layers, batch_first=True, bidirectional=both_ways)

    def forward(self, x):
        return self.inside(x)[0]


def recurrent(kind, inputs, hidden, layers, steps, both_ways=False):
    return Recurrent(kind, inputs, hidden, layers, both_ways), [steps, inputs]


NETWORKS = {
    "encoder4x512": encoder,
    "vit_tiny_224": vit_tiny,
    "mlp_norm_gelu": lambda: perceptron(128, 256, 256, 16, activation=nn.GELU, norm=True),
    "mlp_784": lambda: perceptron(784, 512, 512, 10),
    "policy": lambda: perceptron(48, 256, 256, 12, activation=nn.Tanh, norm=True),
    "deep_narrow": lambda: perceptron(200, *[192] * 8, 4, activation=nn.ReLU),
    "gru128": lambda: recurrent(nn.GRU, 128, 128, 1, 50),
    "lstm2x128": lambda: recurrent(nn.LSTM, 128, 128, 2, 100),
    "bilstm96": lambda: recurrent(nn.LSTM, 40, 96, 1, 60, both_ways=True),
    "gru2x256": lambda: recurrent(nn.GRU, 80, 256, 2, 30),
    "lstm512": lambda: recurrent(nn.LSTM, 64, 512, 1, 20),
    "rnn64": lambda: recurrent(nn.RNN, 16, 64, 1, 100),
}


EAGER = "pytorch eager in a CUDA graph"


def made(name):
    torch.manual_seed(7)
    network, shape = NETWORKS[name]()
    return network.eval(), shape


def export(name, exporter, path):
    network, shape = made(name)
    x = torch.zeros([2, *shape])
    with torch.no_grad():
        if exporter == "traced":
            torch.onnx.export(network, (x,), path, dynamo=False, opset_version=17, input_names=["x"],
                              output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
        else:
            torch.onnx.export(network, (x,), path, dynamo=True, external_data=False, input_names=["x"],
                              output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch")},))


def measure(asked, name, exporter, path, type, batch, folder):
    network, shape = made(name)
    ours = Ours(asked.program, path, type, str(batch))
    network = network.to("cuda", TYPES[type])
    peers = {EAGER: Graphed(network, [batch, *shape], TYPES[type])}
    if asked.compile:
        torch._dynamo.reset()
        peers["torch.compile in a CUDA graph"] = Graphed(torch.compile(network, dynamic=False), [batch, *shape],
                                                         TYPES[type])
    if asked.steps:
        print(ours.steps(), file=sys.stderr, flush=True)
    times = {"ours": [], **{each: [] for each in peers}}
    for _ in range(asked.rounds):
        times["ours"].append(ours.median(asked.calls))
        for each, peer in peers.items():
            times[each].append(peer.median(asked.calls))
    medians = {each: round(statistics.median(all_), 1) for each, all_ in times.items()}
    value = medians.pop("ours")
    baseline = min(medians.values())
    expected, got = peers[EAGER].result.numpy(), ours.output(folder)
    print(json.dumps({
        "figure": "network_gpu_families",
        "params": {"network": name, "type": type, "rows": batch, "exporter": exporter},
        "value": value, "unit": "us", "baseline": baseline, "ratio": round(value / baseline, 2), "peers": medians,
        "versions": {"pytorch": f"{torch.__version__}, TF32 off"}, "largest_difference": difference(expected, got),
        "machine": f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores", "date": time.strftime("%Y-%m-%d"),
        "commit": os.environ.get("SLUICE_COMMIT", "unknown")}), flush=True)
    ours.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--types", default="f16,f32")
    parser.add_argument("--exporters", default="traced,exported")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.mha.set_fastpath_enabled(False)
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.networks.split(","):
            for exporter in asked.exporters.split(","):
                path = str((asked.keep or pathlib.Path(folder)) / f"{name}_{exporter}.onnx")
                try:
                    if not os.path.exists(path):
                        export(name, exporter, path)
                    for type in asked.types.split(","):
                        for batch in (int(each) for each in asked.batches.split(",")):
                            measure(asked, name, exporter, path, type, batch, folder)
                except Exception as failure:
                    print(f"{name}, {exporter}: {failure}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
