#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports small networks of PyTorch (pytorch_networks), with their own outputs for random inputs.

    python3 tools/export_pytorch.py FOLDER [NAME...]

Each is exported by torch.export (FOLDER/pytorch-NAME), and by the older exporter, which traces, for opset 17
(FOLDER/pytorch_traced-NAME) and for opset 11 (FOLDER/pytorch_traced_11-NAME). Needs torch, onnx and onnxscript.
"""

import io
import logging
import pathlib
import sys
import warnings
import zlib

import onnx
import torch

from exported_network import TOLERANCE, export_all, generator, store
from pytorch_networks import NETWORKS

# The network is exported with some lengths of its dimensions, and run with others.
EXPORTED = {"batch": 2, "time": 6, "height": 8, "width": 12, "rays": 4, "samples": 5, "source": 5, "queries": 3,
            "edge": 20}
RUN = {"batch": 5, "time": 9, "height": 12, "width": 16, "rays": 3, "samples": 7, "source": 8, "queries": 4, "edge": 33}
TOLERANCES = {"half_precision": 2e-3}  # sums of 16-bit floating point, in another order
# Of the traced ones. Some operators are newer than the opset that most files have.
OPSETS = {"pytorch_traced": 17, "pytorch_traced_11": 11}
NEWER_OPSETS = {"spatial_transformer": 20}
# When they are traced, lengths that the layers compute with become constants.
FIXED_WHEN_TRACED = {"transformer_encoder", "transformer_decoder"}


def export_graph(module, inputs, names, dims):
    shapes = tuple({i: torch.export.Dim.DYNAMIC for i, each in enumerate(which) if isinstance(each, str)}
                   for which in dims)
    # The module takes any number of inputs: one tuple for them.
    program = torch.onnx.export(module, inputs, dynamo=True, input_names=names, verbose=False,
                                dynamic_shapes=(shapes,) if takes_any_number(module) else shapes)
    return program.model_proto


def takes_any_number(module):
    return type(module).__name__ == "Calls"


def export_trace(module, inputs, names, dims, opset):
    axes = {name: {i: each for i, each in enumerate(which) if isinstance(each, str)}
            for name, which in zip(names, dims)}
    file = io.BytesIO()
    torch.onnx.export(module, inputs, file, dynamo=False, input_names=names, dynamic_axes=axes,
                      opset_version=opset)
    return onnx.load_from_string(file.getvalue())


def flat(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs.numpy()]
    return [each for part in outputs for each in flat(part)]


def export(folder, framework, exporter, name):
    torch.manual_seed(zlib.crc32(name.encode()))
    module, takes = NETWORKS[name]()
    random = generator(name)
    as_if_trained(module)
    module.eval()
    names, dims = [each.name for each in takes], [each.dims for each in takes]
    example = tuple(torch.from_numpy(each.array(random, EXPORTED)) for each in takes)
    is_fixed = framework in OPSETS and name in FIXED_WHEN_TRACED
    arrays = [each.array(random, EXPORTED if is_fixed else RUN) for each in takes]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = flat(module(*[torch.from_numpy(each) for each in arrays]))
        if framework == "pytorch":
            model = export_graph(module, example, names, dims)
        else:
            opset = NEWER_OPSETS.get(name, 0) if framework == "pytorch_traced" else 0
            model = export_trace(module, example, names, dims, opset or OPSETS[framework])
    store(folder, framework, exporter, name, model, dict(zip(names, arrays)), expected, TOLERANCES.get(name, TOLERANCE))


def as_if_trained(module):
    """Numbers that are all 0 or all 1 in a new module, such as those of normalizations, get values that matter."""
    for each in [*module.parameters(), *module.buffers()]:
        if each.is_floating_point() and bool((each == 0).all()):
            torch.nn.init.normal_(each, 0, 0.3)
        elif each.is_floating_point() and bool((each == 1).all()):
            torch.nn.init.uniform_(each, 0.5, 1.5)


def main():
    torch.set_num_threads(1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # else it says that torchvision is not there
    torch.backends.mha.set_fastpath_enabled(False)  # the traced exporter does not know its operators
    folder = pathlib.Path(sys.argv[1])
    version = torch.__version__.split("+")[0]
    for framework in ("pytorch", *OPSETS):
        exporter = f"torch {version}" + (", traced" if framework in OPSETS else "")
        export_all(folder, framework, exporter, NETWORKS, lambda name: export(folder, framework, exporter, name))


main()
