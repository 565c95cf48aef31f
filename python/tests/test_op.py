# SPDX-License-Identifier: Apache-2.0
"""Pipelines of ready operations: sluice.op."""

import asyncio

import numpy
import pytest
from conftest import LikePyTorch

import sluice
from sluice import op

rng = numpy.random.default_rng(7)
X = rng.standard_normal((5, 4), dtype=numpy.float32)
W = rng.standard_normal((4, 3), dtype=numpy.float32)
B = rng.standard_normal(3, dtype=numpy.float32)


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch, runtime):
    monkeypatch.setattr(sluice, "default_runtime", lambda: runtime)


def run(operation):
    return op.sync(operation.and_then(op.download))


def near(made, expected):
    expected = numpy.asarray(expected)
    return made.shape == expected.shape and made.dtype == expected.dtype and numpy.allclose(made, expected, atol=1e-5)


def test_a_pipeline_is_lazy_and_knows_its_shape():
    pipeline = op.upload(X).and_then(op.gemm, W, B).and_then(op.relu)
    assert (pipeline.shape, pipeline.dtype) == ((5, 3), "float32")
    assert repr(pipeline) == "<operation Relu: float32 [5, 3]>"
    assert near(run(pipeline), numpy.maximum(X @ W + B, 0))
    assert near(run(pipeline), numpy.maximum(X @ W + B, 0))  # as often as it is asked


@pytest.mark.parametrize(
    "made, expected",
    [
        (lambda x: op.sigmoid(x), 1 / (1 + numpy.exp(-X))),
        (lambda x: op.tanh(x), numpy.tanh(X)),
        (lambda x: op.exp(x), numpy.exp(X)),
        (lambda x: op.log(op.abs(x)), numpy.log(numpy.abs(X))),
        (lambda x: op.sqrt(op.abs(x)), numpy.sqrt(numpy.abs(X))),
        (lambda x: op.leaky_relu(x, 0.5), numpy.where(X > 0, X, X / 2)),
        (lambda x: op.clamp(x, -0.5, 0.5), numpy.clip(X, -0.5, 0.5)),
        (lambda x: -x + 2 * x - x / 4 + (1 - x) ** 2, X - X / 4 + (1 - X) ** 2),
        (lambda x: 1 / (x * x + 1), 1 / (X * X + 1)),
        (lambda x: x @ W, X @ W),
        (lambda x: X.T @ x, X.T @ X),
        (lambda x: op.maximum(x, op.minimum(0.5, x)), X),
        (lambda x: op.linear(x, W.T.copy(), B), X @ W + B),
        (lambda x: op.matvec(x, W.T.copy()), X @ W),
        (lambda x: op.matvec(op.constant(X[0]), W.T.copy(), B), X[0] @ W + B),
        (lambda x: op.sum(x), X.sum(-1)),
        (lambda x: op.sum(x, 0), X.sum(0)),
        (lambda x: op.mean(x, None), X.mean()),
        (lambda x: op.max(x), X.max(-1)),
        (lambda x: op.min(x, axis=0), X.min(0)),
        (lambda x: op.argmax(x), X.argmax(-1)),
        (lambda x: op.argmax(x, None), X.argmax()),
        (lambda x: op.reshape(x, (2, -1)), X.reshape(2, 10)),
        (lambda x: op.transpose(x), X.T),
        (lambda x: op.transpose(op.reshape(x, (5, 2, 2)), (2, 0, 1)), X.reshape(5, 2, 2).transpose(2, 0, 1)),
        (lambda x: op.concatenate([x, x, X], axis=1), numpy.concatenate([X, X, X], 1)),
        (lambda x: op.where(op.node("Greater", x, 0.0), x, 0.0), numpy.maximum(X, 0)),
        (lambda x: op.cast(x, "int64"), X.astype("int64")),
        (lambda x: x + op.ones((5, 1)) + op.zeros((4,)) + op.full((1, 4), 3), X + 4),
        (lambda x: op.node("Softplus", x), numpy.log1p(numpy.exp(X))),
    ],
)
def test_operations(made, expected):
    made = made(op.upload(X))
    assert made.shape == numpy.asarray(expected).shape
    assert near(run(made), expected)


def test_softmax_and_gelu():
    made = run(op.softmax(op.upload(X)))
    assert numpy.allclose(made.sum(-1), 1, atol=1e-6)
    assert numpy.allclose(run(op.gelu(op.upload([0.0, 1.0]))), [0, 0.8413447], atol=1e-3)


def test_new_tensors():
    assert near(run(op.arange(4)), numpy.arange(4, dtype="float32"))
    assert near(run(op.arange(1, 0, -0.25)), numpy.array([1, 0.75, 0.5, 0.25], "float32"))
    assert near(run(op.sum(op.arange(10, dtype="int64"))), numpy.int64(45))
    assert near(run(op.upload([1, 2]) + 3), numpy.array([4, 5]))
    assert near(run(op.upload([1.5])), numpy.array([1.5], "float32"))
    assert near(run(op.upload([1, 2], "float16")), numpy.array([1, 2], "float16"))


def test_arrays_of_other_libraries_are_constants():
    for of in (B, W):
        assert near(run(op.maximum(op.upload(of), LikePyTorch(of + 1))), of + 1)
    hidden = op.sync(op.upload(X) * 2)  # a sluice.Tensor
    assert near(run(op.upload(X) + hidden), X * 3)
    powers = op.sync(op.upload([1, 2]) + 0)
    assert near(run(op.upload([3, 4]) ** powers), numpy.array([3, 16]))
    with pytest.raises(TypeError, match="a negative number has fractions"):
        op.upload([3, 4]) ** op.sync(op.upload([1, -2]) + 0)


@pytest.mark.parametrize("wrap", [lambda array: array, LikePyTorch])
def test_constants_are_copied_when_they_are_made(wrap):
    w, few = W.copy(), numpy.ones(3, "float32")
    pipeline = op.gemm(op.upload(X), wrap(w), op.constant(wrap(few)))
    w[:] = 5
    few[:] = 7
    assert near(run(pipeline), X @ W + 1)
    with pytest.raises(ValueError, match="a constant is on a device"):
        op.constant(on_a_gpu(few))


def on_a_gpu(array):
    made = LikePyTorch(array)
    made.device = (2, 0)
    return made


def test_bfloat16():
    def f32(operation):
        return run(op.cast(operation, "float32"))

    x = op.cast(op.upload(X), "bfloat16")
    rounded = f32(x)
    assert numpy.allclose(rounded, X, rtol=1e-2)
    for made, expected in [(x * 2, rounded * 2), (2 - x, 2 - rounded), (op.clamp(x, -1, 1), rounded.clip(-1, 1)),
                           (x + op.full((4,), 2, "bfloat16"), rounded + 2), (x * op.zeros((5, 1), "bfloat16"), 0 * X),
                           (op.arange(4, dtype="bfloat16"), numpy.arange(4)), (op.constant([2], "bfloat16"), [2])]:
        assert made.dtype == "bfloat16" and numpy.allclose(f32(made), expected, rtol=1e-2)
    assert f32(x > 0).tolist() == (rounded > 0).tolist()
    with pytest.raises(TypeError, match="too large"):
        x * 1e39
    kept = op.sync(x)
    assert isinstance(kept, sluice.Tensor) and kept.dtype == "bfloat16"
    for again in (op.upload(kept), op.constant(kept)):
        assert again.shape == X.shape and numpy.array_equal(f32(again), rounded)


def test_bfloat16_of_no_dimension():
    half = numpy.array(0.5, pytest.importorskip("ml_dtypes").bfloat16)
    for made in (op.upload(half), op.constant(half)):
        assert near(run(op.cast(made, "float32") * 3), numpy.float32(1.5))


def test_zip_gives_each_as_an_argument():
    a, b = op.upload(X), op.upload(X * 2)
    assert near(run(op.zip(a, b).and_then(lambda a, b: a + b)), X * 3)
    both = op.sync(op.zip(a.and_then(op.download), op.download(op.sum(b))))
    assert isinstance(both, tuple) and near(both[0], X) and near(both[1], (X * 2).sum(-1))


def test_what_is_not_downloaded_stays_on_the_device():
    made = op.sync(op.upload(X) * 2)
    assert isinstance(made, sluice.Tensor) and near(numpy.asarray(made), X * 2)
    assert near(run(op.upload(made) + 1), X * 2 + 1)
    with pytest.raises(TypeError, match="download all, or none"):
        op.sync(op.zip(op.upload(X), op.download(op.upload(X))))


def test_spawn_does_not_wait():
    async def both():
        return await asyncio.gather(*(_awaited(op.spawn(op.upload(X) + n)) for n in range(2)))

    async def _awaited(run):
        return await run

    made = asyncio.run(both())
    assert near(made[0], X) and near(made[1], X + 1)


def test_compile_makes_a_network():
    calls = []

    def classify(x, shift):
        calls.append(x)
        return op.softmax(op.gemm(x, W, B) + shift)

    net = op.compile(classify, ("rows", 4), op.input((3,), "float32"), device="cpu")
    assert isinstance(net, sluice.Network) and [each.name for each in net.inputs] == ["x", "shift"]
    assert net.inputs[0].shape == ("rows", 4) and net.outputs[0].name == "output"
    for rows in [1, 5, 1, 5, 5]:
        made = net(X[:rows], shift=numpy.zeros(3, "float32"))
        e = numpy.exp(X[:rows] @ W + B)
        assert near(made, e / e.sum(-1, keepdims=True))
    assert len(calls) == 1
    assert net.profile(X, B, runs=1).rows
    two = op.compile(lambda x: op.zip(x + 1, op.sum(x)), ("rows", 4))
    assert sorted(two(X)) == ["output0", "output1"]
    assert near(op.compile(op.relu, ("n",))(X[0]), numpy.maximum(X[0], 0))


def test_inputs_have_the_names_of_a_methods_arguments():
    class Layer:
        def __call__(self, x, shift=0):
            return x * 2 + shift

        @classmethod
        def of_class(cls, y):
            return y + 1

    net = op.compile(Layer().__call__, ("rows", 4), (4,))
    assert [each.name for each in net.inputs] == ["x", "shift"] and near(net(X, X[0]), X * 2 + X[0])
    assert op.compile(Layer.of_class, (4,)).inputs[0].name == "y"


def test_lengths_with_names_are_followed():
    x = op.input(("rows", 4))
    assert op.gemm(x, W).shape == ("rows", 3)
    both = op.concatenate([x, x])
    assert both.shape == (None, 4) and op.relu(both).shape == (None, 4)
    net = op.compile(lambda x: op.relu(op.concatenate([x, x])), ("rows", 4))
    assert near(net(X), numpy.maximum(numpy.concatenate([X, X]), 0))


def test_long_pipelines():
    made = op.upload(X)
    for _ in range(1500):
        made = made + 1
    assert near(run(made), X + 1500) or numpy.allclose(run(made), X + 1500, atol=1e-3)


def test_what_does_not_fit_is_refused_where_it_is_written():
    x = op.upload(X)
    for wrong, kind, text in [
        (lambda: op.gemm(x, X), sluice.ShapeError, "Gemm"),
        (lambda: op.reshape(x, (7, -1)), sluice.ShapeError, "Reshape"),
        (lambda: op.node("Rellu", x), sluice.UnsupportedError, "Relu"),
        (lambda: op.node("Relu", x, slope=3), ValueError, "slope"),
        (lambda: op.node("LeakyRelu", x, alpha=[object()]), TypeError, "'alpha' is an int, a float"),
        (lambda: op.cast(x, "complex64"), TypeError, "complex64"),
        (lambda: op.upload(X.astype("complex64")), TypeError, "complex64"),
        (lambda: op.constant(X.astype("complex64")), TypeError, "complex64"),
        (lambda: op.gemm(x, LikePyTorch(W.T.copy().T)), ValueError, "make it contiguous"),
        (lambda: op.relu(op.download(x)), TypeError, "download is the last"),
        (lambda: op.relu(op.zip(x, x)), TypeError, "given a zip"),
        (lambda: x.and_then(lambda x: 3), TypeError, "gave int"),
        (lambda: op.sync(X), TypeError, "given ndarray"),
        (lambda: op.sync(op.input((3,))), TypeError, "has no value here"),
        (lambda: op.compile(op.relu, op.upload(X)), TypeError, "a shape or op.input"),
        (lambda: op.compile(op.relu, (2.5,)), TypeError, "a length of a shape is an int"),
        (lambda: op.compile(op.relu, (-1,)), ValueError, "at least 0"),
        (lambda: op.sync(x, "cuda:9"), sluice.DeviceNotFoundError, "cpu:0"),
        (lambda: op.zip(), TypeError, "at least one"),
        (lambda: op.Operation(), TypeError, "made by the functions"),
    ]:
        with pytest.raises(kind, match=text):
            wrong()


I = numpy.array([-7, -6, -1, 0, 1, 5, 7], numpy.int64)
F = numpy.array([-7.5, -6, -0.25, 0, 1, 5.5, 7], numpy.float32)
U = numpy.array([0, 1, 200, 255], numpy.uint8)


@pytest.mark.parametrize("f", [
    lambda x: x + 2, lambda x: 2 - x, lambda x: x * 3, lambda x: x // 3, lambda x: x // -3, lambda x: x % 3,
    lambda x: x % -3, lambda x: x ** 2, lambda x: 2 ** (x * x // 8), lambda x: 7 // (x * 0 + 2),
    lambda x: -7 % (x * 0 + 4), lambda x: x > 1, lambda x: x >= 1, lambda x: 1 > x, lambda x: x <= 1, lambda x: x < 1,
    lambda x: x == 1, lambda x: x != 1, lambda x: 1 == x, lambda x: x + 2.0, lambda x: x + True,
], ids=range(21))
@pytest.mark.parametrize("values", [I, F, I.astype("int32")], ids=["int64", "float32", "int32"])
def test_operators_with_numbers_are_those_of_numpy(f, values):
    made = run(f(op.upload(values)))
    expected = f(values)
    assert numpy.allclose(made, expected, atol=1e-6)
    assert made.dtype == (values.dtype if expected.dtype != bool else bool)  # never another type


def test_floats_divide_downwards_as_those_of_numpy():
    a, b = numpy.meshgrid(numpy.array([1, -1, 0.3, 6, -7.5, 0], "float32"), numpy.array([0.1, -0.1, 3, -2.5], "float32"))
    assert numpy.array_equal(run(op.upload(a) // b), a // b)
    assert numpy.allclose(run(op.upload(a) % b), a % b, atol=1e-6)
    with numpy.errstate(all="ignore"):
        zero = numpy.zeros(3, "float32")
        assert numpy.array_equal(run(op.upload(numpy.array([1, -1, 0], "float32")) // zero),
                                 numpy.array([1, -1, 0], "float32") / zero, equal_nan=True)


@pytest.mark.parametrize("f, of", [
    (lambda x: x + 1.5, I), (lambda x: 1.5 + x, I), (lambda x: x - 0.5, I), (lambda x: 0.5 - x, I), (lambda x: x * 0.5, I),
    (lambda x: x / 2, I), (lambda x: 2 / x, I), (lambda x: x / x, I), (lambda x: x // 0.5, I), (lambda x: x % 1.5, I),
    (lambda x: 1.5 % x, I), (lambda x: x ** 0.5, I), (lambda x: x ** -1, I), (lambda x: 0.5 ** x, I),
    (lambda x: x ** numpy.array([0.5], "float32"), I), (lambda x: x > 1.5, I), (lambda x: x == 1.5, I),
    (lambda x: x != 0.5, I), (lambda x: x < float("inf"), I), (lambda x: x + float("nan"), I),
    (lambda x: op.maximum(x, 0.5), I), (lambda x: op.clamp(x, 0.5, 3), I), (lambda x: op.where(x > 1, x, 0.5), I),
    (lambda x: op.mean(x), I), (lambda x: x + 300, U), (lambda x: x - -1, U), (lambda x: x + 2**40, I.astype("int32")),
    (lambda x: x + 1e300, F), (lambda x: (x > 1) == 2, F),
], ids=range(29))
def test_numbers_that_a_type_cannot_hold_are_refused(f, of):
    with pytest.raises(TypeError, match="cast"):
        f(op.upload(of))


@pytest.mark.parametrize("f", [
    lambda: op.input((2**70,)), lambda: op.node("LeakyRelu", op.upload(X), alpha=2**70),
    lambda: op.softmax(op.upload(X), axis=2**70), lambda: op.transpose(op.upload(X), (0, -2**70)),
], ids=range(4))
def test_integers_beyond_64_bits_are_refused(f):
    with pytest.raises(OverflowError):
        op.relu(f())


def test_in_place_operators_are_the_same():
    x = op.upload(I)
    x += 2
    x *= 3
    assert numpy.array_equal(run(x), (I + 2) * 3)
    with pytest.raises(TypeError, match="cast"):
        x += 1.5
    with pytest.raises(TypeError, match="cast"):
        x /= 2


def test_an_operation_has_no_truth():
    x, y = op.upload(X), op.upload(X)
    assert run(x == y).all() and not run(x != y).any()
    for asks in (lambda: bool(x), lambda: bool(x == y), lambda: x in [y], lambda: 1 if x else 0, lambda: not x):
        with pytest.raises(TypeError, match="an operation has no truth"):
            asks()
    with pytest.raises(TypeError, match="unhashable"):
        {x}


def test_numbers_near_0_are_flushed_on_request():
    near_0 = numpy.array([1e-40, 2], "float32")
    kept, flushed = sluice.Runtime(cuda=False), sluice.Runtime(cuda=False, flush_denormals=True)
    pipeline = op.download(op.upload(near_0) * 0.5)
    assert op.sync(pipeline, runtime=kept)[0] == near_0[0] / 2
    assert op.sync(pipeline, runtime=flushed).tolist() == [0, 1]
    assert near_0[0] / 2 != 0  # this thread computes as before
