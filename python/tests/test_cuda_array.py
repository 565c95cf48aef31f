# SPDX-License-Identifier: Apache-2.0
"""The CUDA array interface, where there is no GPU: what is refused, and why. test_gpu.py has the rest."""

import numpy
import pytest
from conftest import CudaArray

import sluice


def test_a_network_on_a_cpu_says_where_the_array_is(digits):
    with pytest.raises(ValueError, match="input 'input' is in the memory of a GPU .* and the network is on cpu:0: bring"):
        digits(CudaArray())
    with pytest.raises(ValueError, match="why_no_gpu"):
        digits.submit(CudaArray(strides=None))
    with pytest.raises(ValueError, match="why_no_gpu"):
        digits.forward(CudaArray(strides=(256, 4)))


@pytest.mark.parametrize(
    "entries, kind, text",
    [
        ({"mask": CudaArray()}, ValueError, "has a mask"),
        ({"version": 1}, ValueError, "version 1; 2 and 3"),
        ({"version": 4}, ValueError, "version 4; 2 and 3"),
        ({"version": ...}, TypeError, "no entry 'version'"),
        ({"version": "3"}, TypeError, "'version' is no integer"),
        ({"typestr": "<c8"}, TypeError, "the type '<c8'"),
        ({"typestr": ">f4"}, TypeError, "the type '>f4'"),
        ({"typestr": 4}, TypeError, "'typestr' is no str"),
        ({"typestr": ...}, TypeError, "no entry 'typestr'"),
        ({"shape": [1, 64]}, TypeError, "'shape' is no tuple"),
        ({"shape": (1, 6.4)}, TypeError, "'shape' has an entry that is no integer"),
        ({"shape": (1, -64)}, ValueError, "the length -64"),
        ({"strides": (256, 8)}, ValueError, "not row-major"),
        ({"shape": (2, 64), "strides": (512, 4)}, ValueError, "not row-major"),
        ({"strides": (4,)}, ValueError, "not row-major"),
        ({"data": ...}, TypeError, "no entry 'data'"),
        ({"data": 3}, TypeError, "no pair"),
        ({"data": (None, False)}, TypeError, "no pair"),
        ({"data": (-1, False)}, OverflowError, "negative"),
        ({"stream": 0}, ValueError, "the stream 0, which may mean two"),
        ({"stream": "1"}, TypeError, "'stream' is neither None nor an integer"),
        ({"stream": -1}, OverflowError, "negative"),
    ],
)
def test_what_is_refused_by_name(digits, entries, kind, text):
    with pytest.raises(kind, match=text):
        digits(CudaArray(**entries))


def test_what_says_nothing_is_no_stride(digits):
    # Strides of one row, and of no rows: they are right, so the device is what is refused.
    for entries in [{"strides": (7, 4)}, {"shape": (0, 64), "strides": (3, 3)}, {"version": 2, "stream": ...}]:
        with pytest.raises(ValueError, match="the network is on cpu:0"):
            digits(CudaArray(**entries))


def test_an_object_whose_interface_fails(digits):
    class Broken:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("it requires a gradient")

    class NoDict:
        __cuda_array_interface__ = 3

    with pytest.raises(RuntimeError, match="gradient"):
        digits(Broken())
    with pytest.raises(TypeError, match="is no dict"):
        digits(NoDict())
    with pytest.raises(TypeError, match="__dlpack__ or __cuda_array_interface__, and is given float"):
        digits(3.0)


def test_forward_on_a_cpu_gives_host_memory(digits, types, pixels, logits):
    made = digits.forward(pixels)
    assert isinstance(made, sluice.Tensor) and (made.shape, made.dtype, made.device) == ((450, 10), "float32", "cpu")
    assert repr(made) == "<sluice.Tensor float32 (450, 10) on cpu>"
    array = numpy.asarray(made)
    assert numpy.shares_memory(array, numpy.from_dlpack(made)) and numpy.abs(array - logits).max() < 1e-3
    assert not hasattr(made, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="a stream is given"):
        made.__dlpack__(stream=1)
    with pytest.raises(sluice.ShapeError, match="is given 3"):
        digits.forward(pixels[:, :3])
    with pytest.raises(TypeError, match="missing"):
        types.forward()


def test_tensors_are_inputs(runtime, tokens):
    scores = tokens.forward(tokens=numpy.array([[1, 2, 3]]), mask=numpy.ones((1, 3), numpy.float32))
    assert sorted(scores) == ["scores", "total"]
    again = tokens(tokens=numpy.array([[1, 2, 3]]), mask=scores["scores"])  # row-major memory of the host
    assert again["scores"].shape == (1, 3)
