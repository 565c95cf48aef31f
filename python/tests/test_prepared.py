# SPDX-License-Identifier: Apache-2.0
"""Prepared networks, arrays for outputs, and a choice of outputs."""

import gc
import threading
import weakref

import numpy
import pytest

import sluice
from conftest import NETWORKS


def test_a_prepared_network_gives_the_same_bits(digits, pixels):
    fast = digits.prepare(input=(8, 64))
    x, y = fast.inputs["input"], fast.outputs["logits"]
    assert x.shape == (8, 64) and x.dtype == numpy.float32 and not x.any()
    assert y.shape == (8, 10) and not y.any() and not y.flags.writeable
    for first in range(0, 80, 8):
        rows = pixels[first : first + 8]
        x[:] = rows
        made = fast.run()
        assert made is y
        assert made.tobytes() == digits(rows).tobytes()
        assert numpy.array_equal(x, rows)
    assert fast.memory_bytes >= x.nbytes + y.nbytes
    assert repr(fast) == "<sluice.Prepared on cpu:0: input (8, 64) -> logits (8, 10)>"


def test_several_outputs_are_a_dict(tokens):
    fast = tokens.prepare((1, 3), mask=(1, 3))
    assert set(fast.inputs) == {"tokens", "mask"}
    fast.inputs["tokens"][:] = [[1, 2, 3]]
    fast.inputs["mask"][:] = 1
    made = fast.run()
    expected = tokens(numpy.array([[1, 2, 3]]), numpy.ones((1, 3), numpy.float32))
    assert set(made) == set(expected) == set(fast.outputs)
    for name, each in expected.items():
        assert made[name].tobytes() == each.tobytes()
    fast.inputs["tokens"][:] = 5
    with pytest.raises(sluice.IndexInDataError, match="index 5"):
        fast.run()


def test_arrays_live_as_long_as_they_are_used(digits, pixels):
    fast = digits.prepare(input=(1, 64))
    gone = weakref.ref(fast)
    x, y = fast.inputs["input"], fast.outputs["logits"]
    x[:] = pixels[:1]
    fast.run()
    kept = y.copy()
    del fast
    gc.collect()
    assert gone() is None
    x[:] = 7
    assert numpy.array_equal(y, kept)


def test_wrong_shapes_are_refused(digits):
    with pytest.raises(sluice.InvalidArgumentError, match="no input 'x'; is 'input' meant") as caught:
        digits.prepare(x=(8, 64))
    assert "sluice_" not in str(caught.value)
    with pytest.raises(sluice.ShapeError, match="whole shape of input 'input'"):
        digits.prepare()
    with pytest.raises(sluice.ShapeError, match="dimension 1 is 64, and is given 65"):
        digits.prepare((8, 65))
    with pytest.raises(sluice.InvalidArgumentError, match="length -1"):
        digits.prepare((-1, 64))
    with pytest.raises(sluice.InvalidArgumentError, match="given twice"):
        digits.prepare((8, 64), input=(8, 64))
    with pytest.raises(TypeError, match="a tuple of lengths, such as .* is given ndarray"):
        digits.prepare(numpy.zeros((8, 64), numpy.float32))
    with pytest.raises(TypeError, match="1 inputs, and is given 2 shapes"):
        digits.prepare((8, 64), (8, 64))
    with pytest.raises(TypeError):
        digits.prepare((8, "rows"))


def test_numbers_that_decide_may_be_fixed(runtime):
    net = runtime.load(NETWORKS / "reshape.onnx")
    with pytest.raises(sluice.UnsupportedError, match="input 'shape' decide about shapes"):
        net.prepare(x=(6,), shape=(2,))
    for rows in (2, 3):
        fast = net.prepare(x=(6,), shape=numpy.array([rows, 6 // rows]))
        assert set(fast.inputs) == {"x"} and "shape" not in repr(fast)
        fast.inputs["x"][:] = range(6)
        assert numpy.array_equal(fast.run()["y"], numpy.arange(6, dtype=numpy.float32).reshape(rows, -1))
    with pytest.raises(sluice.InvalidArgumentError, match="input 'x' is not fixed"):
        net.prepare(x=numpy.zeros(6, numpy.float32), shape=numpy.array([2, 3]))
    with pytest.raises(sluice.InvalidArgumentError, match="fixed to numbers of i32"):
        net.prepare(x=(6,), shape=numpy.array([2, 3], numpy.int32))
    with pytest.raises(TypeError, match="a tuple of lengths, such as .* is given str"):
        net.prepare(x=(6,), shape="2, 3")


def test_threads_have_their_own(digits, pixels):
    failures = []

    def work(first):
        fast = digits.prepare((4, 64))
        rows = pixels[first : first + 4]
        expected = digits(rows).tobytes()
        for _ in range(200):
            fast.inputs["input"][:] = rows
            if fast.run().tobytes() != expected:
                failures.append(first)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 4, 8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_out_is_written(digits, pixels, logits):
    y = numpy.full((450, 10), -1, numpy.float32)
    assert digits(pixels, out=y) is y
    assert y.tobytes() == digits(pixels).tobytes()
    part = numpy.zeros((3, 10), numpy.float32)
    for _ in range(4):
        digits(input=pixels[:3], out=[part])
        assert part.tobytes() == digits(pixels[:3]).tobytes()


def test_out_of_several_outputs(tokens):
    given = (numpy.array([[1, 2, 3]]), numpy.ones((1, 3), numpy.float32))
    expected = tokens(*given)
    room = {name: numpy.empty_like(each) for name, each in expected.items()}
    assert tokens(*given, out=room) is room
    for name, each in expected.items():
        assert room[name].tobytes() == each.tobytes()
    first = next(iter(room))
    with pytest.raises(TypeError, match="out has no array for the output"):
        tokens(*given, out={first: room[first]})
    with pytest.raises(ValueError, match="and none named 'other'"):
        tokens(*given, out={**room, "other": room[first]})


def test_wrong_out_is_refused_and_nothing_is_written(digits, pixels):
    x, y = pixels[:2], numpy.full((2, 10), 7, numpy.float32)
    with pytest.raises(sluice.ShapeError, match=r"is f32 \[2, 10\], and is given room for f32 \[3, 10\]"):
        digits(x, out=numpy.zeros((3, 10), numpy.float32))
    with pytest.raises(sluice.ShapeError, match="room for f64"):
        digits(x, out=numpy.zeros((2, 10)))
    with pytest.raises(TypeError, match="out for the output 'logits' is a NumPy array"):
        digits(x, out="logits")
    with pytest.raises(TypeError, match="out has 0 arrays"):
        digits(x, out=[])
    with pytest.raises(TypeError, match="out has more arrays"):
        digits(x, out=[y, y])
    with pytest.raises((ValueError, BufferError)):
        digits(x, out=numpy.zeros((2, 20), numpy.float32)[:, ::2])
    y.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        digits(x, out=y)
    assert (y == 7).all()


def test_types_that_numpy_does_not_have_are_refused(types):
    with pytest.raises(ValueError, match="is bfloat16, which NumPy does not have"):
        types.prepare(**{each.name: (2,) for each in types.inputs})


def test_outputs_are_chosen(tokens):
    given = (numpy.array([[1, 2, 3]]), numpy.ones((1, 3), numpy.float32))
    every = tokens(*given)
    assert numpy.array_equal(tokens(*given, outputs="total"), every["total"])
    some = tokens(*given, outputs=["scores"])
    assert list(some) == ["scores"] and numpy.array_equal(some["scores"], every["scores"])
    with pytest.raises(ValueError, match="the outputs .*, and none named 'sum'"):
        tokens(*given, outputs="sum")
    with pytest.raises(TypeError, match="not both"):
        tokens(*given, outputs="total", out=[every["total"]])
