# SPDX-License-Identifier: Apache-2.0
"""Values, inputs by name, types and shapes."""

import os

import numpy
import pytest
from conftest import NETWORKS, ROOT

import sluice


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() < 1e-3


@pytest.mark.parametrize("rows", [1, 7, 450])
def test_digits_are_those_of_the_trainer(digits, pixels, logits, rows):
    made = digits(pixels[:rows])
    assert isinstance(made, numpy.ndarray) and made.dtype == numpy.float32
    assert near(made, logits[:rows])


def test_convolutions(digits_cnn, pixels):
    assert near(digits_cnn(pixels), numpy.load(ROOT / "data/digits_cnn_logits.npy"))


def test_no_rows(digits, pixels):
    assert digits(pixels[:0]).shape == (0, 10)


def test_a_network_describes_itself(digits, tokens, runtime):
    assert digits.inputs == (sluice.Value("input", "float32", ("batch", 64)),)
    assert digits.outputs[0].name == "logits" and digits.outputs[0].shape == ("batch", 10)
    assert [each.name for each in tokens.inputs] == ["tokens", "mask"] and tokens.inputs[0].dtype == "int64"
    assert digits.device == "cpu:0" and repr(digits) == "<sluice.Network on cpu:0: input -> logits>"
    assert runtime.load(NETWORKS / "scalar.onnx").inputs[0].shape == ()


def test_inputs_by_name_and_outputs_as_a_dict(tokens):
    x, mask = numpy.array([[1, 2, 3], [4, 0, 1]]), numpy.ones((2, 3), numpy.float32)
    mask[0, 2] = 0
    for made in [tokens(x, mask), tokens(x, mask=mask), tokens(mask=mask, tokens=x), tokens(**{"tok" + "ens": x}, mask=mask)]:
        assert list(made) == ["scores", "total"]
        assert made["scores"].tolist() == [[10, 20, 0], [40, 0, 10]] and made["total"].tolist() == [30, 50]


def test_scalars(runtime):
    twice = runtime.load(NETWORKS / "scalar.onnx")
    assert twice(numpy.float32(21)).shape == () and twice(numpy.array(21, numpy.float32)) == 42


def test_every_type_of_numpy(types):
    inputs = {}
    for each in types.inputs:
        dtype = "uint16" if each.dtype == "bfloat16" else each.dtype
        inputs[each.name] = numpy.array([0, 1], dtype)
    inputs["in_bfloat16"] = bfloat16([0.5, -2])
    made = types(**inputs)
    for each in types.outputs:
        if each.dtype == "bfloat16":
            continue
        assert made[each.name].dtype == each.dtype
        assert made[each.name].tolist() == [0, 1]
    kept = made["out_bfloat16"]
    assert isinstance(kept, sluice.Tensor) and kept.dtype == "bfloat16" and kept.shape == (2,)
    assert repr(kept) == "<sluice.Tensor bfloat16 (2,) on cpu>"
    with pytest.raises(BufferError, match="__dlpack__"):
        memoryview(kept)


def test_a_tensor_of_bfloat16_is_an_input_of_the_next_call(types):
    inputs = {each.name: numpy.ones(2, each.dtype) for each in types.inputs if each.dtype != "bfloat16"}
    first = types(**inputs, in_bfloat16=bfloat16([0.5, -2]))["out_bfloat16"]
    second = types(**inputs, in_bfloat16=first)["out_bfloat16"]
    assert second.shape == (2,) and bits_of(second) == bits_of(first) == [0x3F00, 0xC000]


def bits_of(tensor):
    """The numbers of a sluice.Tensor of bfloat16, which NumPy has not."""
    import ctypes

    capsule = tensor.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    data = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_void_p))[0]
    return list((ctypes.c_uint16 * 2).from_address(data))


def bfloat16(numbers):
    return numpy.array(numbers, pytest.importorskip("ml_dtypes").bfloat16)


def test_arrays_that_are_not_row_major_are_copied(digits, pixels, logits):
    turned = numpy.asfortranarray(pixels[:20])
    assert not turned.flags.c_contiguous and near(digits(turned), logits[:20])
    assert near(digits(pixels[::-1]), logits[::-1])
    assert near(digits(numpy.repeat(pixels[:4], 2, axis=1)[:, ::2]), logits[:4])


def test_buffers_of_other_libraries(digits, pixels, logits):
    assert near(digits(memoryview(pixels[:3])), logits[:3])
    read_only = pixels[:3].copy()
    read_only.flags.writeable = False
    assert near(digits(read_only), logits[:3])


@pytest.mark.parametrize("rows", [1, 450, 5000])
def test_outputs_belong_to_the_caller(digits, pixels, rows):
    x = numpy.resize(pixels, (rows, 64))
    first, second = digits(x), digits(x)
    assert first.flags.writeable and not numpy.shares_memory(first, second)
    kept = second.copy()
    first[:] = 0
    assert (second == kept).all() and (digits(x) == kept).all()


def test_a_constant_output_belongs_to_the_caller_too(runtime):
    network = runtime.load(NETWORKS / "reshape.onnx")
    x, shape = numpy.arange(6, dtype=numpy.float32), numpy.array([3, 2])
    for _ in range(2):
        made = network(x, shape)
        assert made["same"].tolist() == [7, 8] and made["y"].tolist() == [[0, 1], [2, 3], [4, 5]]
        made["same"][:] = 0


def test_files_and_bytes(runtime, pixels, logits):
    path = ROOT / "models/digits.onnx"
    for network in [sluice.load(path), sluice.load(str(path)), sluice.load(os.fsencode(path), "cpu", streams=1),
                    sluice.loads(path.read_bytes()), runtime.load(path, "cpu:0"),
                    sluice.load(ROOT / "models/digits.safetensors", runtime=runtime, hidden_activation="relu")]:
        assert near(network(pixels[:5]), logits[:5])


@pytest.mark.parametrize("precision", ["f32", "bf16", "f16", "int8"])
def test_a_precision_keeps_the_classes(runtime, pixels, logits, precision):
    path = ROOT / "models/digits.onnx"
    for network in [runtime.load(path, precision=precision), runtime.loads(path.read_bytes(), precision=precision),
                    sluice.load(path, runtime=runtime, precision=precision)]:
        made, said = network(pixels), network.rounding
        assert said.precision == precision and said.how and isinstance(said, sluice.Rounding)
        assert (said.rounded + len(said.kept) > 0) == (precision != "f32")
        assert made.dtype == numpy.float32 and (made.argmax(1) == logits.argmax(1)).mean() > 0.98
        assert (numpy.abs(made - logits).max() > 1e-5) == (said.rounded > 0)


def test_an_unknown_precision_is_refused(runtime):
    with pytest.raises(sluice.InvalidArgumentError, match="precision is 'f8'; possible are f32, bf16, f16 and int8"):
        runtime.load(ROOT / "models/digits.onnx", precision="f8")


def test_devices():
    two = sluice.Runtime(cpu_devices=2, cpu_workers=1, cuda=False)
    assert [each.name for each in two.devices] == ["cpu:0", "cpu:1"]
    assert two.devices[0].kind == "cpu" and two.devices[0].compute_units == 1 and two.devices[0].memory_bytes > 0
    assert "cuda = false" in two.why_no_gpu
    assert two.load(ROOT / "models/digits.onnx", "cpu:1").device == "cpu:1"
    assert sluice.devices() == sluice.default_runtime().devices and sluice.devices()[-1].name == "cpu:0"
    assert sluice.__version__.count(".") == 2
