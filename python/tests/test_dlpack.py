# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, by DLPack."""

import numpy
import pytest
from conftest import OnlyDLPack

import sluice


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() < 1e-3


@pytest.mark.parametrize("knows_versions", [True, False])
@pytest.mark.parametrize("rows", [1, 450])
def test_objects_with_dlpack_are_inputs(digits, pixels, logits, rows, knows_versions):
    x = OnlyDLPack(pixels[:rows], knows_versions)
    assert near(digits(x), logits[:rows]) and x.given == 1
    assert near(digits(OnlyDLPack(pixels[5:9])), logits[5:9])  # with an offset


def test_outputs_have_dlpack(digits, pixels, logits):
    made = digits(pixels)
    taken = numpy.from_dlpack(made)
    assert numpy.shares_memory(taken, made) and near(taken, logits)


def test_a_tensor_is_given_without_a_copy(runtime, types):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    inputs = {each.name: numpy.ones(2, "uint16" if each.dtype == "bfloat16" else each.dtype) for each in types.inputs}
    inputs["in_bfloat16"] = numpy.ones(2, ml_dtypes.bfloat16)
    tensor = types(**inputs)["out_bfloat16"]
    assert tensor.__dlpack_device__() == (1, 0)
    for options in [{}, {"max_version": (0, 8)}, {"max_version": (1, 0)}, {"dl_device": (1, 0)}, {"copy": False}]:
        capsule = tensor.__dlpack__(**options)
        name = '"dltensor_versioned"' if options.get("max_version") == (1, 0) else '"dltensor"'
        assert name in repr(capsule)
    del tensor  # a capsule keeps the memory
    del capsule


def test_what_a_tensor_cannot_give(types):
    inputs = {each.name: numpy.ones(1, "uint16" if each.dtype == "bfloat16" else each.dtype) for each in types.inputs}
    inputs["in_bfloat16"] = numpy.ones(1, pytest.importorskip("ml_dtypes").bfloat16)
    tensor = types(**inputs)["out_bfloat16"]
    for options, text in [({"stream": 3}, "stream"), ({"dl_device": (2, 0)}, "device"), ({"copy": True}, "copy")]:
        with pytest.raises(BufferError, match=text):
            tensor.__dlpack__(**options)


def test_what_is_refused(digits, pixels):
    for wrong, kind, text in [(OnlyDLPack(pixels.T[:, :1].T[:, ::2]), ValueError, "contiguous"),
                              (OnlyDLPack(pixels, device=(2, 3)), ValueError, "is on cuda:3, and the network is on cpu:0"),
                              (OnlyDLPack(pixels, device=(8, 0)), ValueError, "type 8"),
                              (OnlyDLPack(pixels.astype(numpy.complex64)), TypeError, "DLPack's type 5")]:
        with pytest.raises(kind, match=text):
            digits(wrong)


def test_an_object_whose_dlpack_fails(digits):
    class Broken:
        def __dlpack__(self, **_):
            raise BufferError("it requires a gradient")

        def __dlpack_device__(self):
            return (1, 0)

    class NoCapsule(Broken):
        def __dlpack__(self, **_):
            return 3

    with pytest.raises(BufferError, match="gradient"):
        digits(Broken())
    with pytest.raises(TypeError, match="no capsule"):
        digits(NoCapsule())


def test_pytorch(digits, types, pixels, logits):
    torch = pytest.importorskip("torch")
    made = torch.from_dlpack(digits(torch.from_numpy(pixels)))
    assert near(made.numpy(), logits)
    inputs = {each.name: torch.ones(2, dtype=getattr(torch, each.dtype)) for each in types.inputs}
    kept = torch.from_dlpack(types(**inputs)["out_bfloat16"])
    assert kept.dtype == torch.bfloat16 and kept.tolist() == [1, 1]
