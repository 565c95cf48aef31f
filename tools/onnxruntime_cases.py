#!/usr/bin/env python3
"""Writes networks of operators of com.microsoft, with inputs and what ONNX Runtime makes of them.

    tools/onnxruntime_cases.py FOLDER [--seed N] [--rounds N]

Each file has its inputs as constants "given:NAME" and the outputs as "expected:NAME". tests/nn/onnxruntime_cases holds
those of seed 1 and one round; the program onnxruntime_cases_tests reads a folder. Needs onnx, onnxruntime and numpy.
"""

import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


class Case:
    """A network that is written while its numbers are drawn."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []

    def length(self, low=1, high=7):
        return int(self.rng.integers(low, high + 1))

    def real(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def integer(self, kind, *shape):
        bounds = np.iinfo(kind)
        return self.rng.integers(bounds.min, bounds.max + 1, shape).astype(kind)

    def give(self, name, values):
        self.inputs[name] = np.asarray(values)
        return name

    def hold(self, name, values):
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op, inputs, outputs, domain=MICROSOFT, **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))

    def scale(self, name, low=0.01, high=0.05):
        return self.hold(name, np.float32(self.rng.uniform(low, high)))

    def quantized(self, name, kind, *shape):
        """A value with its scale and zero point."""
        zero = self.rng.integers(100, 150) if kind == np.uint8 else self.rng.integers(-20, 20)
        given = self.give(name, self.integer(kind, *shape))
        return [given, self.scale(name + "_scale"), self.hold(name + "_zero", kind(zero))]

    def target(self, kind, low=0.02, high=0.08):
        zero = 120 if kind == np.uint8 else 3
        return [self.scale("y_scale", low, high), self.hold("y_zero", kind(zero))]

    def model(self, extra=()):
        kinds = helper.np_dtype_to_tensor_dtype
        inputs = [helper.make_tensor_value_info(n, kinds(v.dtype), v.shape) for n, v in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(n, kind, None) for n, kind in self.outputs]
        graph = helper.make_graph(self.nodes, "case", inputs, outputs, self.constants + list(extra))
        sets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)


def of_kind(kind):
    return TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8


def elementwise(op):
    def write(case):
        kind = case.rng.choice([np.uint8, np.int8])
        shape = [case.length() for _ in range(case.length(1, 4))]
        other = [n if case.rng.random() < 0.7 else 1 for n in shape]
        a, b = case.quantized("a", kind, *shape), case.quantized("b", kind, *other)
        case.node(op, [*a, *b, *case.target(kind)], ["y"])
        case.outputs = [("y", of_kind(kind))]

    return write


def unary(op, kinds=(np.uint8, np.int8), rank=4, target=(0.02, 0.08), **attributes):
    def write(case):
        kind = case.rng.choice(kinds)
        x = case.quantized("x", kind, *[case.length(2, 6) for _ in range(rank)])
        case.node(op, [*x, *case.target(kind, *target)], ["y"], **attributes)
        case.outputs = [("y", of_kind(kind))]

    return write


def concat(case):
    shape = [case.length() for _ in range(3)]
    inputs = case.target(np.uint8)
    for i in range(case.length(2, 3)):
        inputs += case.quantized(f"x{i}", np.uint8, shape[0], case.length(), shape[2])
    case.node("QLinearConcat", inputs, ["y"], axis=1)
    case.outputs = [("y", TensorProto.UINT8)]


def quantized_gemm(case):
    rows, inner, columns = case.length(1, 9), case.length(1, 40), case.length(1, 20)
    transposed = int(case.rng.integers(0, 2))
    a = case.quantized("a", np.uint8, rows, inner)
    per_column = case.rng.random() < 0.5
    shape = [columns, inner] if transposed else [inner, columns]
    b = [case.hold("b", case.integer(np.int8, *shape))]
    count = [columns] if per_column else []
    b += [case.hold("b_scale", case.rng.uniform(0.002, 0.01, count).astype(np.float32)),
          case.hold("b_zero", np.zeros(count, np.int8))]
    c = case.hold("c", case.rng.integers(-2000, 2000, columns).astype(np.int32)) if case.rng.random() < 0.7 else ""
    is_real = case.rng.random() < 0.3
    target = [] if is_real else case.target(np.uint8, 0.1, 0.3)
    case.node("QGemm", [*a, *b, c, *target], ["y"], transB=transposed)
    case.outputs = [("y", TensorProto.FLOAT if is_real else TensorProto.UINT8)]


def dynamic_matmul(case):
    inner, columns = case.length(1, 40), case.length(1, 20)
    x = case.give("x", case.real(case.length(1, 3), case.length(1, 9), inner))
    is_signed = case.rng.random() < 0.5
    count = [columns] if case.rng.random() < 0.5 else [1]
    w = case.hold("w", case.integer(np.int8, inner, columns) if is_signed
                  else case.rng.integers(10, 240, (inner, columns)).astype(np.uint8))
    zero = np.zeros(count, np.int8) if is_signed else np.full(count, 127, np.uint8)
    inputs = [x, w, case.hold("w_scale", case.rng.uniform(0.002, 0.01, count).astype(np.float32)),
              case.hold("w_zero", zero)]
    if case.rng.random() < 0.6:
        inputs.append(case.hold("bias", case.real(columns)))
    case.node("DynamicQuantizeMatMul", inputs, ["y"])
    case.outputs = [("y", TensorProto.FLOAT)]


def integers_to_float(case):
    inner, columns = case.length(1, 40), case.length(1, 20)
    a = case.quantized("a", np.uint8, case.length(1, 9), inner)
    inputs = [a[0], case.hold("w", case.integer(np.int8, inner, columns)), a[1],
              case.hold("w_scale", np.float32(0.004)), a[2], case.hold("w_zero", np.int8(0))]
    if case.rng.random() < 0.6:
        inputs.append(case.hold("bias", case.real(columns)))
    case.node("MatMulIntegerToFloat", inputs, ["y"])
    case.outputs = [("y", TensorProto.FLOAT)]


def dynamic_lstm(case):
    steps, rows, inputs, hidden = case.length(1, 5), case.length(1, 4), case.length(2, 9), case.length(2, 8)
    directions = case.length(1, 2)
    columns = 4 * hidden
    count = [directions, columns] if case.rng.random() < 0.5 else [directions]
    names = [case.give("x", case.real(steps, rows, inputs)),
             case.hold("w", case.integer(np.int8, directions, inputs, columns)),
             case.hold("r", case.integer(np.int8, directions, hidden, columns)),
             case.hold("b", case.real(directions, 2 * columns)), "", "", "", ""]
    for each in ("w", "r"):
        names += [case.hold(each + "_scale", case.rng.uniform(0.002, 0.004, count).astype(np.float32)),
                  case.hold(each + "_zero", np.zeros(count, np.int8))]
    case.node("DynamicQuantizeLSTM", names, ["y", "h", "c"], hidden_size=hidden,
              direction="bidirectional" if directions == 2 else "forward")
    case.outputs = [(n, TensorProto.FLOAT) for n in ("y", "h", "c")]


def lstm_states(case):
    """Backwards, from given states, with peepholes and unsigned weights whose columns have scales of their own."""
    steps, rows, inputs, hidden = 9, 3, 21, 18
    columns = 4 * hidden
    names = [case.give("x", case.real(steps, rows, inputs)),
             case.hold("w", case.integer(np.uint8, 1, inputs, columns)),
             case.hold("r", case.integer(np.uint8, 1, hidden, columns)), case.hold("b", case.real(1, 2 * columns)), "",
             case.give("h0", case.real(1, rows, hidden)), case.give("c0", case.real(1, rows, hidden)),
             case.hold("p", case.real(1, 3 * hidden))]
    for each in ("w", "r"):
        names += [case.hold(each + "_scale", case.rng.uniform(0.001, 0.002, [1, columns]).astype(np.float32)),
                  case.hold(each + "_zero", np.full([1, columns], 128, np.uint8))]
    case.node("DynamicQuantizeLSTM", names, ["y", "h", "c"], hidden_size=hidden, direction="reverse", clip=2.0)
    case.outputs = [(n, TensorProto.FLOAT) for n in ("y", "h", "c")]


def lstm_lengths(case):
    """Both ways, sequences of several lengths, weights whose zero point takes some out of signed bytes."""
    steps, rows, inputs, hidden = 8, 6, 13, 20
    columns = 4 * hidden
    names = [case.give("x", case.real(steps, rows, inputs)),
             case.hold("w", case.integer(np.int8, 2, inputs, columns)),
             case.hold("r", case.integer(np.int8, 2, hidden, columns)), "",
             case.give("lengths", np.array([8, 0, 3, 7, 1, 8], np.int32)), "", "", ""]
    for each in ("w", "r"):
        names += [case.hold(each + "_scale", np.array([0.002, 0.0015], np.float32)),
                  case.hold(each + "_zero", np.array([3, 3], np.int8))]
    case.node("DynamicQuantizeLSTM", names, ["y", "h", "c"], hidden_size=hidden, direction="bidirectional")
    case.outputs = [(n, TensorProto.FLOAT) for n in ("y", "h", "c")]


def activation(op, bias=None, **attributes):
    def write(case):
        shape = [case.length(1, 3), case.length(1, 9), case.length(1, 40)]
        inputs = [case.give("x", case.real(*shape) * 3)]
        if bias == "always" or (bias == "sometimes" and case.rng.random() < 0.5):
            inputs.append(case.hold("bias", case.real(shape[-1])))
        case.node(op, inputs, ["y"], **attributes)
        case.outputs = [("y", TensorProto.FLOAT)]

    return write


def fused_matmul(case):
    batch, rows, inner, columns = case.length(1, 3), case.length(), case.length(), case.length()
    left, right = int(case.rng.integers(0, 2)), int(case.rng.integers(0, 2))
    a = case.real(batch, inner, rows) if left else case.real(batch, rows, inner)
    shape = [columns, inner] if right else [inner, columns]
    if case.rng.random() < 0.5:
        b = case.hold("b", case.real(*shape))
    else:
        b = case.give("b", case.real(batch, *shape))
    case.node("FusedMatMul", [case.give("a", a), b], ["y"], transA=left, transB=right,
              alpha=float(case.rng.choice([1.0, 0.25])))
    case.outputs = [("y", TensorProto.FLOAT)]


def fused_gemm(case):
    rows, inner, columns = case.length(), case.length(), case.length()
    name = str(case.rng.choice(["Relu", "LeakyRelu", "Sigmoid", "Tanh"]))
    attributes = {"activation_alpha": 0.3} if name == "LeakyRelu" else {}
    case.node("FusedGemm", [case.give("a", case.real(rows, inner)), case.hold("b", case.real(columns, inner)),
                            case.hold("c", case.real(columns))], ["y"], transB=1, activation=name, **attributes)
    case.outputs = [("y", TensorProto.FLOAT)]


def fused_conv(case):
    channels, filters, size = case.length(), case.length(), case.length(3, 8)
    inputs = [case.give("x", case.real(1, channels, size, size)), case.hold("w", case.real(filters, channels, 3, 3)),
              case.hold("b", case.real(filters))]
    name = str(case.rng.choice(["Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid"]))
    numbers = {"LeakyRelu": [0.2], "Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.4]}.get(name)
    if name == "Relu" and case.rng.random() < 0.7:
        inputs.append(case.give("z", case.real(1, filters, size, size)))
    attributes = {"activation_params": numbers} if numbers else {}
    case.node("FusedConv", inputs, ["y"], activation=name, pads=[1, 1, 1, 1], kernel_shape=[3, 3], **attributes)
    case.outputs = [("y", TensorProto.FLOAT)]


def skip_norm(op):
    def write(case):
        shape = [case.length(1, 3), case.length(1, 9), 4 * case.length(1, 9)]
        inputs = [case.give("x", case.real(*shape)), case.give("skip", case.real(*shape)),
                  case.hold("gamma", case.real(shape[-1]))]
        if op == "SkipLayerNormalization":
            inputs.append(case.hold("beta", case.real(shape[-1])))
        if case.rng.random() < 0.5:
            inputs.append(case.hold("bias", case.real(shape[-1])))
        outputs = ["y"] + (["", "", "sum"] if case.rng.random() < 0.5 else [])
        case.node(op, inputs, outputs, epsilon=1e-5)
        case.outputs = [(n, TensorProto.FLOAT) for n in outputs if n]

    return write


def simplified_norm(case):
    shape = [case.length(1, 3), case.length(1, 9), 4 * case.length(1, 9)]
    case.node("SimplifiedLayerNormalization", [case.give("x", case.real(*shape)), case.hold("g", case.real(shape[-1]))],
              ["y"], domain="", epsilon=1e-5, axis=-1)
    case.outputs = [("y", TensorProto.FLOAT)]


def embeddings(case):
    rows, length, width = case.length(1, 3), case.length(1, 9), 4 * case.length(1, 6)
    has_segments = case.rng.random() < 0.5
    ids = case.give("ids", case.rng.integers(0, 20, (rows, length)).astype(np.int32))
    segments = case.give("segments", case.rng.integers(0, 2, (rows, length)).astype(np.int32)) if has_segments else ""
    names = [ids, segments, case.hold("words", case.real(20, width)), case.hold("positions", case.real(12, width)),
             case.hold("kinds", case.real(2, width)) if has_segments else "", case.hold("gamma", case.real(width)),
             case.hold("beta", case.real(width))]
    case.node("EmbedLayerNormalization", names, ["y", ""], epsilon=1e-5)
    case.outputs = [("y", TensorProto.FLOAT)]


CASES = {
    "bias_gelu": activation("BiasGelu", "always"),
    "dynamic_lstm": dynamic_lstm,
    "dynamic_matmul": dynamic_matmul,
    "embeddings": embeddings,
    "fast_gelu": activation("FastGelu", "sometimes"),
    "fused_conv": fused_conv,
    "fused_gemm": fused_gemm,
    "fused_matmul": fused_matmul,
    "gelu": activation("Gelu"),
    "matmul_to_float": integers_to_float,
    "qgemm": quantized_gemm,
    "qlinear_add": elementwise("QLinearAdd"),
    "qlinear_average_pool": unary("QLinearAveragePool", kernel_shape=[2, 2], strides=[1, 1]),
    "qlinear_concat": concat,
    "qlinear_global_average_pool": unary("QLinearGlobalAveragePool"),
    "qlinear_leaky_relu": unary("QLinearLeakyRelu", alpha=0.2),
    "qlinear_mul": elementwise("QLinearMul"),
    "qlinear_sigmoid": unary("QLinearSigmoid", target=(0.003, 0.005)),
    "qlinear_softmax": unary("QLinearSoftmax", rank=2, target=(0.003, 0.005), axis=-1, opset=13),
    "quick_gelu": activation("QuickGelu", alpha=1.5),
    "simplified_norm": simplified_norm,
    "skip_norm": skip_norm("SkipLayerNormalization"),
    "skip_simplified_norm": skip_norm("SkipSimplifiedLayerNormalization"),
    "dynamic_lstm_lengths": lstm_lengths,
    "dynamic_lstm_states": lstm_states,
}


def write(folder, name, number, rng):
    case = Case(rng)
    CASES[name](case)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # several threads quantize the states of DynamicQuantizeLSTM each for themselves
    session = onnxruntime.InferenceSession(case.model().SerializeToString(), options)
    expected = session.run(None, case.inputs)
    extra = [numpy_helper.from_array(v, "given:" + n) for n, v in case.inputs.items()]
    extra += [numpy_helper.from_array(np.asarray(v), "expected:" + o[0]) for v, o in zip(expected, case.outputs)]
    onnx.save(case.model(extra), folder / f"{name}_{number}.onnx")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=1)
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(given.seed)
    for number in range(given.rounds):
        for name in CASES:
            write(given.folder, name, number, rng)


if __name__ == "__main__":
    main()
