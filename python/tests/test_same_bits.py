# SPDX-License-Identifier: Apache-2.0
"""A network gives the same bits however it is asked: called, submitted, and with its outputs left on the device."""

import ctypes
import itertools
import math

import ml_dtypes
import numpy
import pytest
from conftest import NETWORKS, ROOT

import sluice

# Texts are arrays of str where a call returns them, and codes where its outputs stay on the device.
OTHERS = {"unknown.onnx", "texts.onnx"}
FILES = [*sorted((ROOT / "models").glob("*.onnx")), ROOT / "models/digits.safetensors",
         *sorted(each for each in NETWORKS.glob("*.onnx") if each.name not in OTHERS)]
CALLS = 4  # the first calls of a shape go another way than later ones


def numbers(of, lengths, rng):
    """An array for an input; lengths that a run decides are those of their names."""
    shape = tuple(each if isinstance(each, int) else lengths.setdefault(each, lengths["rows"]) for each in of.shape or ())
    if of.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if of.dtype.startswith(("int", "uint")):
        return rng.integers(0, 2, shape).astype(of.dtype)  # they may be indices
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16 if of.dtype == "bfloat16" else of.dtype)


def inputs_of(network, rows, rng):
    lengths = {"rows": rows}
    return [numbers(each, lengths, rng) for each in network.inputs]


def bits_of_tensor(tensor):
    """Of types that NumPy does not have: the data of the capsule, which begins with its address."""
    capsule = tensor.__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    data = ctypes.cast(address(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_void_p))[0]
    assert tensor.dtype == "bfloat16"
    return ctypes.string_at(data, 2 * math.prod(tensor.shape))


def bits(made):
    made = made if isinstance(made, dict) else {"": made}
    found = {}
    for name, each in made.items():
        is_tensor = isinstance(each, sluice.Tensor)
        if is_tensor and each.dtype != "bfloat16":
            each, is_tensor = numpy.from_dlpack(each), False
        found[name] = (str(each.dtype), tuple(each.shape), bits_of_tensor(each) if is_tensor else each.tobytes())
    return found


def answers(network, given):
    """What each way gives, in turn. An error is an answer too: all have to give it."""
    def asked(way):
        try:
            return bits(way())
        except sluice.Error as refused:
            return type(refused)

    for _ in range(CALLS):
        yield "called", asked(lambda: network(*given))
        yield "submitted", asked(lambda: network.submit(*given).result())
    yield "forward", asked(lambda: network.forward(*given))


@pytest.mark.parametrize("workers, rows", list(itertools.product((1, 2), (1, 3, 17))))
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_way_gives_the_same_bits(file, workers, rows):
    network = sluice.Runtime(cuda=False, cpu_workers=workers).load(file)
    given = inputs_of(network, rows, numpy.random.default_rng(rows))
    made = list(answers(network, given))
    for way, answer in made:
        assert answer == made[0][1], f"{way} gives other bits than the first call"


def test_all_networks_of_the_repository_are_compared():
    assert len(FILES) >= 11
