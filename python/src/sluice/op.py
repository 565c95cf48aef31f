# SPDX-License-Identifier: Apache-2.0
"""Pipelines of ready operations, for prototypes.

    from sluice import op

    pipeline = op.upload(pixels).and_then(op.gemm, w1, b1).and_then(op.relu).and_then(op.gemm, w2, b2)
    logits = op.sync(pipeline.and_then(op.download))             # runs it, on a GPU if there is one

    classify = op.compile(lambda x: op.softmax(op.gemm(x, w, b)), ("rows", 64))
    classify(pixels)                                             # a sluice.Network

An Operation is lazy: it knows its type and shape, and computes nothing until it is waited for. What does not fit is
refused where it is written. Arrays among the arguments are constants; upload() makes an input.
"""

from __future__ import annotations

import builtins
import math
import sys
import typing

from ._sluice import _Builder, _Constant

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._sluice import Network, Run, Runtime, _Array

    _Length: typing.TypeAlias = int | str | None
    _Operand: typing.TypeAlias = "Operation | _Array | float"

__all__ = ["Operation", "Zipped", "abs", "add", "arange", "argmax", "cast", "clamp", "compile", "concatenate", "constant",
           "divide", "download", "exp", "floor_divide", "full", "gelu", "gemm", "input", "leaky_relu", "linear", "log",
           "matmul", "matvec", "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "node", "ones", "power",
           "relu", "remainder", "reshape", "sigmoid", "softmax", "spawn", "sqrt", "subtract", "sum", "sync", "tanh",
           "transpose", "upload", "where", "zeros", "zip"]

_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
          "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool"}
_ONNX_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
               "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}
# The types of numbers with fractions, and the largest number of each.
_FRACTIONS = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
              "float64": sys.float_info.max}
# Constants of at most this many elements are given to the shape inference as numbers: shapes may depend on them.
_FEW = 64


class Operation:
    """A value that is computed when it is waited for. Immutable; may be used any number of times."""

    __slots__ = ("_op", "_inputs", "_attributes", "_array", "_name", "_is_downloaded", "dtype", "shape")
    __array_ufunc__ = None  # NumPy's operators leave the work to those below

    _op: str
    _inputs: tuple[Operation | None, ...]
    _attributes: dict[str, typing.Any]
    _array: typing.Any
    _name: str
    _is_downloaded: bool
    dtype: str | None
    """NumPy's name, "float32"; None when it is known only when the pipeline runs."""
    shape: tuple[_Length, ...] | None
    """A length, the name of one that each run decides, or None for one that depends on others."""

    def __init__(self) -> None:
        raise TypeError("operations are made by the functions of sluice.op")

    def and_then(self, f: Callable[..., Operation | Zipped], /, *args: typing.Any,
                 **named: typing.Any) -> typing.Any:
        """f(self, *args, **named): another operation on this one's value."""
        return _checked(f(self, *args, **named))

    def __add__(self, other: typing.Any) -> Operation:
        return add(self, other)

    def __radd__(self, other: typing.Any) -> Operation:
        return add(other, self)

    def __sub__(self, other: typing.Any) -> Operation:
        return subtract(self, other)

    def __rsub__(self, other: typing.Any) -> Operation:
        return subtract(other, self)

    def __mul__(self, other: typing.Any) -> Operation:
        return multiply(self, other)

    def __rmul__(self, other: typing.Any) -> Operation:
        return multiply(other, self)

    def __truediv__(self, other: typing.Any) -> Operation:
        return divide(self, other)

    def __rtruediv__(self, other: typing.Any) -> Operation:
        return divide(other, self)

    def __floordiv__(self, other: typing.Any) -> Operation:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: typing.Any) -> Operation:
        return floor_divide(other, self)

    def __mod__(self, other: typing.Any) -> Operation:
        return remainder(self, other)

    def __rmod__(self, other: typing.Any) -> Operation:
        return remainder(other, self)

    def __pow__(self, other: typing.Any) -> Operation:
        return power(self, other)

    def __rpow__(self, other: typing.Any) -> Operation:
        return power(other, self)

    # Element by element, as NumPy's. So there is no truth of `a == b`, and bool() raises.
    def __eq__(self, other: typing.Any) -> Operation:  # type: ignore[override]
        return _of_two("Equal", self, other)

    def __ne__(self, other: typing.Any) -> Operation:  # type: ignore[override]
        return node("Not", _of_two("Equal", self, other))

    def __lt__(self, other: typing.Any) -> Operation:
        return _of_two("Less", self, other)

    def __le__(self, other: typing.Any) -> Operation:
        return _of_two("LessOrEqual", self, other)

    def __gt__(self, other: typing.Any) -> Operation:
        return _of_two("Greater", self, other)

    def __ge__(self, other: typing.Any) -> Operation:
        return _of_two("GreaterOrEqual", self, other)

    __hash__ = None  # type: ignore[assignment]  # as of NumPy's arrays: == says nothing about a set's members

    def __bool__(self) -> bool:
        raise TypeError("an operation has no truth: it is computed when it is waited for, and may have many elements. "
                        "op.sync(op.download(x)) gives the array; op.where(condition, a, b) chooses in a pipeline")

    def __matmul__(self, other: typing.Any) -> Operation:
        return matmul(self, other)

    def __rmatmul__(self, other: typing.Any) -> Operation:
        return matmul(other, self)

    def __neg__(self) -> Operation:
        return negative(self)

    def __repr__(self) -> str:
        shape = "?" if self.shape is None else "[" + ", ".join("?" if n is None else str(n) for n in self.shape) + "]"
        return f"<operation {self._op}: {self.dtype or '?'} {shape}>"


class Zipped:
    """Several operations as one. Made by zip()."""

    __slots__ = ("operations",)

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self.operations = operations

    def and_then(self, f: Callable[..., Operation | Zipped], /, *args: typing.Any,
                 **named: typing.Any) -> typing.Any:
        """f(first, second, ..., *args, **named)"""
        return _checked(f(*self.operations, *args, **named))


# --- values that are there -------------------------------------------------------------------------------------

def upload(data: typing.Any, dtype: typing.Any = None) -> Operation:
    """The data of an array. It is read when the pipeline is waited for.

    data: an array of NumPy, PyTorch, CuPy ... on the host or on the GPU; or numbers, of which those with a fraction
        become float32.
    """
    array = _array_of(data, dtype)
    return _make("upload", array=array, dtype=_dtype_of(array), shape=tuple(array.shape))


def constant(data: typing.Any, dtype: typing.Any = None) -> Operation:
    """Numbers that belong to the pipeline, in the host's memory: weights. They are copied when it is made."""
    return _of_type(dtype, lambda known: _array_of(data, known))


def input(shape: Sequence[int | str], dtype: str = "float32") -> Operation:  # noqa: A001
    """An argument of a function for compile(). A length with a name is any; those of one name are equal."""
    return _make("input", dtype=str(dtype), shape=tuple(shape))


def full(shape: Sequence[int], value: float, dtype: typing.Any = "float32") -> Operation:
    """A tensor in which each element is the value."""
    numpy = _numpy()
    return _of_type(dtype, lambda known: numpy.full(tuple(shape), value, known))


def zeros(shape: Sequence[int], dtype: typing.Any = "float32") -> Operation:
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: typing.Any = "float32") -> Operation:
    return full(shape, 1, dtype)


def arange(first: float, last: float | None = None, step: float = 1, dtype: typing.Any = "float32") -> Operation:
    """first, first + step, ...; last is not among them. With one number: from 0 up to it."""
    numpy = _numpy()
    numbers = numpy.arange(*((0, first) if last is None else (first, last)), step)
    return _of_type(dtype, lambda known: numbers.astype(known))


# --- operations ------------------------------------------------------------------------------------------------

def node(name: str, *inputs: _Operand | None, **attributes: typing.Any) -> Operation:
    """Any operator of ONNX with one output: node("Softplus", x), node("LayerNormalization", x, scale, axis=-1)."""
    like = next((each for each in inputs if isinstance(each, Operation)), None)
    given = tuple(None if each is None else _operand(each, like) for each in inputs)
    used = {key: value for key, value in attributes.items() if value is not None}
    dtype, shape = _infer(name, given, used)
    return _make(name, inputs=given, attributes=used, dtype=dtype, shape=shape)


def relu(x: _Operand) -> Operation:
    return node("Relu", x)


def leaky_relu(x: _Operand, slope: float = 0.01) -> Operation:
    return node("LeakyRelu", x, alpha=float(slope))


def sigmoid(x: _Operand) -> Operation:
    return node("Sigmoid", x)


def tanh(x: _Operand) -> Operation:
    return node("Tanh", x)


def gelu(x: _Operand) -> Operation:
    return node("Gelu", x)


def exp(x: _Operand) -> Operation:
    return node("Exp", x)


def log(x: _Operand) -> Operation:
    return node("Log", x)


def sqrt(x: _Operand) -> Operation:
    return node("Sqrt", x)


def abs(x: _Operand) -> Operation:  # noqa: A001
    return node("Abs", x)


def negative(x: _Operand) -> Operation:
    return node("Neg", x)


def clamp(x: _Operand, low: float, high: float) -> Operation:
    return node("Clip", x, low, high)


def add(a: _Operand, b: _Operand) -> Operation:
    return _of_two("Add", a, b)


def subtract(a: _Operand, b: _Operand) -> Operation:
    return _of_two("Sub", a, b)


def multiply(a: _Operand, b: _Operand) -> Operation:
    return _of_two("Mul", a, b)


def divide(a: _Operand, b: _Operand) -> Operation:
    first, second = _pair(a, b)
    if not _has_fractions(first) and not _has_fractions(second):
        raise TypeError(f"/ of {first.dtype} and {second.dtype} has fractions, which integers cannot hold: // gives whole "
                        'numbers, and op.cast(x, "float32") makes them floats')
    return node("Div", first, second)


def floor_divide(a: _Operand, b: _Operand) -> Operation:
    """The largest whole number that is not above a / b, in the operands' type, as NumPy's."""
    first, second = _pair(a, b)
    if not _has_fractions(first):
        # Div cuts off. The two remainders differ where a / b is negative and no whole number.
        is_cut = node("Equal", node("Mod", first, second), node("Mod", first, second, fmod=1))
        return subtract(node("Div", first, second), cast(node("Not", is_cut), str(first.dtype)))
    quotient = node("Div", first, second)
    # Of a number that is a multiple of b, so that it is not rounded up to the next whole number: 1 // 0.1 is 9.
    exact = node("Round", node("Div", subtract(first, remainder(first, second)), second))
    return where(second == 0, quotient, exact)


def remainder(a: _Operand, b: _Operand) -> Operation:
    """a - a // b * b: 0, or of the sign of b, as NumPy's and Python's."""
    first, second = _pair(a, b)
    if not _has_fractions(first):
        return node("Mod", first, second)
    left = node("Mod", first, second, fmod=1)  # of the sign of a
    has_other_sign = node("And", left != 0, node("Xor", left < 0, second < 0))
    return where(has_other_sign, add(left, second), left)


def power(a: _Operand, b: _Operand) -> Operation:
    first, second = _pair(a, b)
    has_fractions = _has_fractions(second)
    is_negative = not has_fractions and second._op == "constant" and bool((_numpy().asarray(second._array) < 0).any())
    if not _has_fractions(first) and (has_fractions or is_negative):
        exponent = "a negative number" if is_negative else second.dtype
        raise TypeError(f"{first.dtype} ** {exponent} has fractions, which integers cannot hold: op.cast(x, "
                        '"float32") makes them floats')
    return node("Pow", first, second)


def maximum(a: _Operand, b: _Operand) -> Operation:
    return _of_two("Max", a, b)


def minimum(a: _Operand, b: _Operand) -> Operation:
    return _of_two("Min", a, b)


def where(condition: _Operand, a: _Operand, b: _Operand) -> Operation:
    """a where the condition is true, else b."""
    first, second = _pair(a, b)
    return node("Where", _operand(condition, None), first, second)


def cast(x: _Operand, dtype: str) -> Operation:
    if dtype not in _ONNX_TYPES:
        raise TypeError(f"there is no type '{dtype}' of elements in networks; there are {', '.join(_ONNX_TYPES)}")
    return node("Cast", x, to=_ONNX_TYPES[dtype])


def matmul(a: _Operand, b: _Operand) -> Operation:
    return _of_two("MatMul", a, b)


def gemm(x: _Operand, b: _Operand, bias: _Operand | None = None) -> Operation:
    """x [rows, inner] * b [inner, columns] + bias [columns]"""
    return node("Gemm", x, b, bias)


def linear(x: _Operand, weight: _Operand, bias: _Operand | None = None) -> Operation:
    """The same with the weight [columns, inner], as PyTorch has it."""
    return node("Gemm", x, weight, bias, transB=1)


def matvec(x: _Operand, weight: _Operand, bias: _Operand | None = None) -> Operation:
    """A layer for a vector: weight [out, in] * x [in] + bias [out]. For x [rows, in] it is linear()."""
    of = _operand(x, None)
    if of.shape is not None and len(of.shape) == 2:
        return linear(of, weight, bias)
    made = node("MatMul", weight, of)
    return made if bias is None else add(made, bias)


def softmax(x: _Operand, axis: int = -1) -> Operation:
    return node("Softmax", x, axis=axis)


def sum(x: _Operand, axis: int | None = -1) -> Operation:  # noqa: A001
    """Over the last dimension, which the output lacks, or another one; None: over all elements."""
    return _reduced("ReduceSum", x, axis)


def mean(x: _Operand, axis: int | None = -1) -> Operation:
    of = _operand(x, None)
    if not _has_fractions(of):
        raise TypeError(f'the mean of {of.dtype} has a fraction, which integers cannot hold: op.cast(x, "float32") makes '
                        "them floats")
    return _reduced("ReduceMean", of, axis)


def max(x: _Operand, axis: int | None = -1) -> Operation:  # noqa: A001
    return _reduced("ReduceMax", x, axis)


def min(x: _Operand, axis: int | None = -1) -> Operation:  # noqa: A001
    return _reduced("ReduceMin", x, axis)


def argmax(x: _Operand, axis: int | None = -1) -> Operation:
    """The place of the largest element, int64."""
    if axis is None:
        return node("ArgMax", reshape(x, (-1,)), axis=0, keepdims=0)
    return node("ArgMax", x, axis=axis, keepdims=0)


def reshape(x: _Operand, shape: Sequence[int]) -> Operation:
    """-1 stands for the length that is left, 0 for the one that x has there."""
    return node("Reshape", x, _numpy().array(shape, "int64"))


def transpose(x: _Operand, axes: Sequence[int] | None = None) -> Operation:
    """Without axes the dimensions are reversed."""
    return node("Transpose", x, perm=None if axes is None else [int(each) for each in axes])


def concatenate(operations: Sequence[_Operand], axis: int = 0) -> Operation:
    return node("Concat", *operations, axis=axis)


def zip(*operations: _Operand) -> Zipped:  # noqa: A001
    """Several operations as one: zip(a, b).and_then(f) calls f(a, b); sync(zip(a, b)) gives a tuple."""
    if not operations:
        raise TypeError("zip takes at least one operation")
    return Zipped(tuple(_operand(each, None, may_be_downloaded=True) for each in operations))


def download(x: _Operand) -> Operation:
    """The value as a NumPy array. The last of a pipeline: what is not downloaded stays on the device."""
    of = _operand(x, None)
    return _make(of._op, inputs=of._inputs, attributes=of._attributes, array=of._array, name=of._name, dtype=of.dtype,
                 shape=of.shape, is_downloaded=True)


# --- running ---------------------------------------------------------------------------------------------------

def sync(operation: Operation | Zipped, device: str = "auto", *, runtime: Runtime | None = None) -> typing.Any:
    """Runs the pipeline on the device and waits for it.

    Gives NumPy arrays of what is downloaded, or else objects of sluice.Tensor, in the memory of the device; a tuple for
    what is zipped. Each call makes the pipeline ready again: compile() does that once.
    """
    outputs = _outputs_of(operation)
    downloaded = {each._is_downloaded for each in outputs}
    if len(downloaded) == 2:
        raise TypeError("some operations of the zip are downloaded, and some are not: download all, or none")
    written = _Written(outputs)
    net = written.network(device, runtime, 1, "f32")
    made = (net if True in downloaded else net.forward)(*written.arrays)
    if isinstance(operation, Zipped):
        return tuple(made.values()) if isinstance(made, dict) else (made,)
    return made


def spawn(operation: Operation, device: str = "auto", *, runtime: Runtime | None = None) -> Run:
    """Submits the pipeline and does not wait: `await op.spawn(...)`, or .result(). The value is a NumPy array."""
    written = _Written((_operand(operation, None, may_be_downloaded=True),))
    return written.network(device, runtime, 1, "f32").submit(*written.arrays)


def compile(f: Callable[..., Operation | Zipped], /, *inputs: Operation | Sequence[int | str], device: str = "auto",  # noqa: A001
            runtime: Runtime | None = None, streams: int = 0, precision: str = "f32") -> Network:
    """Calls f once with inputs, and makes what it returns ready to run, as a sluice.Network.

    inputs: a shape for each argument, ("rows", 64), of float32; or input(shape, dtype). They have the names that f gives
        them. The network is compiled for each combination of lengths that it meets, as a graph, and replays it.
    device, streams, precision: as of sluice.load.
    """
    code = getattr(f, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if getattr(f, "__self__", None) is not None:  # a bound method: its first argument is given
        names = names[1:]
    arguments = []
    for place, each in enumerate(inputs):
        of = each if isinstance(each, Operation) else input(each)
        if of._op != "input":
            raise TypeError(f"compile takes a shape or op.input() for each argument, and is given {each!r}")
        name = names[place] if place < len(names) else f"x{place}"
        arguments.append(_make("input", name=name, dtype=of.dtype, shape=of.shape))
    return _Written(_outputs_of(f(*arguments)), arguments).network(device, runtime, streams, precision)


# --- how it works ----------------------------------------------------------------------------------------------

class _Written:
    """Operations as a network: each upload and each argument is an input of it."""

    def __init__(self, outputs: Sequence[Operation], arguments: Sequence[Operation] = (),
                 is_trial: bool = False) -> None:
        self.arrays: list[typing.Any] = []
        self._is_trial = is_trial  # nothing runs: arguments may come from anywhere
        self._builder = _Builder("pipeline")
        self._places: dict[int, int] = {}
        self._kept = (outputs, arguments)  # ids are of living objects
        for each in arguments:
            self.place(each)
        for number, each in enumerate(outputs):
            self._builder.output("output" if len(outputs) == 1 else f"output{number}", self.place(each))

    def place(self, last: Operation) -> int:
        waiting = [last]  # no recursion: pipelines may be long
        while waiting:
            of = waiting[-1]
            missing = [each for each in of._inputs if each is not None and id(each) not in self._places]
            if missing and id(of) not in self._places:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(of) not in self._places:
                self._places[id(of)] = self._add(of)
        return self._places[id(last)]

    def _add(self, of: Operation) -> int:
        if of._op == "constant":
            return self._builder.constant(of._array)
        if of._op in ("upload", "input"):
            if of._op == "input" and not of._name and not self._is_trial:
                raise TypeError("op.input() is an argument of a function for compile(): it has no value here")
            name = of._name or f"{of._op}{len(self._places)}"
            if of._op == "upload":
                self.arrays.append(of._array)
            return self._builder.input(name, typing.cast("tuple[int | str, ...]", of.shape), str(of.dtype))
        places = [None if each is None else self._places[id(each)] for each in of._inputs]
        return self._builder.node(of._op, places, of._attributes)

    def describe(self, of: Operation) -> str:
        return self._builder.describe(self.place(of))

    def network(self, device: str, runtime: Runtime | None, streams: int, precision: str) -> Network:
        from . import default_runtime

        return self._builder.make(default_runtime() if runtime is None else runtime, device, streams, precision)


def _make(op: str, *, inputs: tuple[Operation | None, ...] = (), attributes: dict[str, typing.Any] | None = None,
          array: typing.Any = None, name: str = "", dtype: str | None, shape: tuple[_Length, ...] | None,
          is_downloaded: bool = False) -> Operation:
    made = object.__new__(Operation)
    made._op, made._inputs, made._attributes = op, inputs, attributes or {}
    made._array, made._name, made._is_downloaded = array, name, is_downloaded
    made.dtype, made.shape = dtype, shape
    return made


def _infer(name: str, inputs: tuple[Operation | None, ...],
           attributes: dict[str, typing.Any]) -> tuple[str | None, tuple[_Length, ...] | None]:
    """The type and shape of a node's output, by the checks of the C++ library, which raise what is wrong."""
    made = _make(name, inputs=inputs, attributes=attributes, dtype=None, shape=None)
    if builtins.all(each is None or _is_known(each) for each in inputs):
        alone: dict[int, Operation] = {}
        for place, each in enumerate(inputs):
            if each is not None and not _is_few_numbers(each):
                alone.setdefault(id(each), _make("input", name=f"x{place}", dtype=each.dtype, shape=each.shape))
        made._inputs = tuple(None if each is None else alone.get(id(each), each) for each in inputs)
    text = _Written((), is_trial=True).describe(made)  # of all operations before, where a length depends on others
    kind, _, lengths = text.partition(" ")
    if not lengths.startswith("["):
        return _NAMES.get(kind), None
    listed = [each.strip() for each in lengths[1:-1].split(",")] if lengths != "[]" else []
    shape = tuple(int(each) if each.isdigit() else None if each == "?" else each for each in listed)
    return _NAMES[kind], shape


def _is_known(of: Operation) -> bool:
    return of.dtype is not None and of.shape is not None and None not in of.shape


def _is_few_numbers(of: Operation) -> bool:
    # Of arrays of other libraries the shape says it: PyTorch's have a method named size.
    return of._op == "constant" and math.prod(typing.cast("tuple[int, ...]", of.shape)) <= _FEW


def _checked(made: typing.Any) -> Operation | Zipped:
    if isinstance(made, (Operation, Zipped)):
        return made
    raise TypeError(f"and_then: the function gives an operation, and gave {type(made).__name__}")


def _outputs_of(operation: typing.Any) -> tuple[Operation, ...]:
    if isinstance(operation, Zipped):
        return operation.operations
    if isinstance(operation, Operation):
        return (operation,)
    raise TypeError(f"a pipeline is an operation of sluice.op, or a zip of them, and is given {type(operation).__name__}")


def _operand(of: typing.Any, like: Operation | None, may_be_downloaded: bool = False) -> Operation:
    """An operation; of an array, a constant; of a number, a constant of the type of `like`."""
    if isinstance(of, Operation):
        if of._is_downloaded and not may_be_downloaded:
            raise TypeError("a value that is downloaded is no input of an operation: download is the last")
        return of
    if isinstance(of, Zipped):
        raise TypeError("an operation takes one value, and is given a zip: zip(...).and_then(f) calls f with each")
    if isinstance(of, (bool, int, float)):
        return constant(of) if like is None or like.dtype is None else _number(of, like.dtype)
    return constant(of)


def _number(of: float, dtype: str) -> Operation:
    """A constant of this type. A number that the type cannot hold is refused: types are never converted."""
    def refuse(why: str) -> typing.NoReturn:
        raise TypeError(f"{of!r} next to {dtype}: {why}. A number next to an operation has the operation's type: "
                        "op.cast(x, dtype) gives the operation another one")

    numpy = _numpy()
    if dtype == "bool":
        if of not in (0, 1):
            refuse("only True and False are bool")
    elif dtype in _FRACTIONS:
        if math.isfinite(of) and builtins.abs(of) > _FRACTIONS[dtype]:
            refuse("it is too large for the type")
    else:
        if of != of or of in (math.inf, -math.inf) or of != int(of):
            refuse("integers have no fractions, infinities and NaN")
        limits = numpy.iinfo(dtype)
        if not limits.min <= of <= limits.max:
            refuse(f"the type has numbers from {limits.min} to {limits.max}")
        of = int(of)
    return _of_type(dtype, lambda known: numpy.asarray(of, known))


def _of_type(dtype: typing.Any, make: Callable[[typing.Any], typing.Any]) -> Operation:
    """A constant with a copy of the array that make(type) gives. NumPy has no bfloat16: that is cast from float32."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return cast(_of_type("float32", make), dtype)
    array = make(dtype)
    kind = _dtype_of(array)
    return _make("constant", array=_Constant(array), dtype=kind, shape=tuple(array.shape))


def _has_fractions(of: Operation) -> bool:
    return of.dtype is None or of.dtype in _FRACTIONS


def _pair(a: _Operand, b: _Operand) -> tuple[Operation, Operation]:
    """Two operands: a number has the type of the other one."""
    number_types = (bool, int, float)
    if isinstance(a, number_types) and not isinstance(b, number_types):
        second = _operand(b, None)
        return _operand(a, second), second
    first = _operand(a, None)
    return first, _operand(b, first)


def _of_two(name: str, a: _Operand, b: _Operand) -> Operation:
    first, second = _pair(a, b)
    return node(name, first, second)


def _reduced(name: str, x: _Operand, axis: int | None) -> Operation:
    return node(name, x, None if axis is None else _numpy().array([axis], "int64"), keepdims=0)


def _numpy() -> typing.Any:
    import numpy

    return numpy


def _array_of(data: typing.Any, dtype: typing.Any) -> typing.Any:
    numpy = _numpy()
    is_array = isinstance(data, numpy.ndarray) or hasattr(data, "__dlpack__") or hasattr(data, "__cuda_array_interface__")
    if not is_array:
        array = numpy.asarray(data, dtype)
        return array.astype("float32") if dtype is None and array.dtype == "float64" else array
    if dtype is None:
        return data
    if not isinstance(data, numpy.ndarray):
        raise TypeError("dtype is for arrays of NumPy and for numbers: convert the array first")
    return data.astype(dtype, copy=False)


def _dtype_of(array: typing.Any) -> str:
    dtype = getattr(array, "dtype", None)
    if dtype is None:  # an object with the CUDA array interface alone
        dtype = _numpy().dtype(array.__cuda_array_interface__["typestr"])
    name = str(dtype).rpartition(".")[2]  # PyTorch's is "torch.float32"
    if name not in _ONNX_TYPES:
        raise TypeError(f"there is no type '{name}' of elements in networks; there are {', '.join(_ONNX_TYPES)}")
    return name
