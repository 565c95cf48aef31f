# SPDX-License-Identifier: Apache-2.0
"""The buffer protocol as C code asks for it."""

import ctypes

import numpy
import pytest

SIMPLE, WRITABLE, STRIDES, F_CONTIGUOUS, C_CONTIGUOUS = 0, 0x1, 0x18, 0x58, 0x38


class View(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("rest", ctypes.c_char * 256)]


def ask(owner, flags):
    """The bytes that the owner shows. After a refusal the view names no owner."""
    view = View(obj=id(None))
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(owner), ctypes.byref(view), flags)
    except BufferError:
        assert view.obj is None
        raise
    shown = view.len
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return shown


def test_memory_is_row_major(digits, pixels):
    tensor = digits.forward(pixels[:3])
    for flags in (SIMPLE, STRIDES, C_CONTIGUOUS, WRITABLE):
        assert ask(tensor, flags) == 120
    with pytest.raises(BufferError, match="column-major"):
        ask(tensor, F_CONTIGUOUS)


def test_one_dimension_is_both(types):
    inputs = {each.name: numpy.ones(2, each.dtype) for each in types.inputs if each.dtype != "bfloat16"}
    inputs["in_bfloat16"] = numpy.ones(2, pytest.importorskip("ml_dtypes").bfloat16)
    made = types.forward(**inputs)
    assert ask(made["out_float"], F_CONTIGUOUS) == 8
    with pytest.raises(BufferError, match="bfloat16"):
        ask(made["out_bfloat16"], SIMPLE)


def test_memory_that_is_read_only(digits):
    prepared = digits.prepare((1, 64))
    owner = prepared.outputs["logits"]
    while isinstance(owner, (numpy.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, numpy.ndarray) else owner.obj
    assert ask(owner, SIMPLE) == 40
    with pytest.raises(BufferError, match="read-only"):
        ask(owner, WRITABLE)
