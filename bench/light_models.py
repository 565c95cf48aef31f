"""The light models of the onnx package (scripts/onnx_cases) with weights. They compute their weights, all equal, when they
run; here are the same networks with weights at random.

Needs onnx and numpy.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

LIGHT = ("resnet50", "squeezenet", "shufflenet", "densenet121")


def write_with_weights(light, path, rows, gain=2):
    """A light model with weights, for this many images, or for any number if `rows` is None. A convolution of independent
    numbers multiplies their variance by `gain`: with 2, numbers of the deeper networks become too large for f16."""
    model = onnx.load(light)
    graph, random = model.graph, np.random.default_rng(7)
    known = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    readers = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            readers.setdefault(name, (node.op_type, place))
    kept, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape, reader = known[node.input[0]].tolist(), readers.get(node.output[0], ("", 0))
        if len(shape) > 1:
            numbers = random.normal(0, np.sqrt(gain / np.prod(shape[1:])), shape)
        elif reader in (("BatchNormalization", 1), ("BatchNormalization", 4), ("Unsqueeze", 0)):
            numbers = random.uniform(0.5, 1.5, shape)  # factors and variances
        else:
            numbers = random.normal(0, 0.1, shape)
        weights.append(numpy_helper.from_array(numbers.astype(np.float32), node.output[0]))
    used = {name for node in kept for name in node.input}
    for each in graph.initializer:
        if each.name not in used:
            continue
        numbers = known[each.name]
        if readers[each.name] == ("Reshape", 1) and numbers[0] == 1:
            # 0: as many as the input has
            numbers = np.concatenate(([rows or 0], numbers[1:])).astype(numbers.dtype)
        weights.append(numpy_helper.from_array(numbers, each.name))
    names = {each.name for each in weights}
    inputs = [each for each in graph.input if each.name in used and each.name not in names]
    for each in (*inputs, *graph.output):
        first = each.type.tensor_type.shape.dim[0]
        if rows is None:
            first.dim_param = "images"
        else:
            first.dim_value = rows
    made = helper.make_graph(kept, graph.name, inputs, graph.output, weights)
    made = helper.make_model(made, opset_imports=model.opset_import)
    made.ir_version = max(model.ir_version, 4)
    onnx.save(made, path)
