# SPDX-License-Identifier: Apache-2.0
"""What is refused: the exception's type, and the library's text."""

import numpy
import pytest
from conftest import NETWORKS, ROOT

import sluice


def test_shapes_and_types(digits, pixels):
    for wrong, text in [(pixels[:, :3], "dimension 1 is 64, and is given 3"), (pixels[0], "has 2 dimensions"),
                        (pixels.astype(numpy.float64), "is f32, and is given f64")]:
        with pytest.raises(sluice.ShapeError, match=text) as caught:
            digits(wrong)
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, sluice.Error)
        assert "digits.onnx" in str(caught.value) and type(caught.value).__module__ == "sluice"
        with pytest.raises(sluice.ShapeError, match=text):
            digits.submit(wrong)


def test_arguments(digits, tokens, pixels):
    mask = numpy.ones((1, 1), numpy.float32)
    for call, text in [(lambda: digits(), "'input' is missing"), (lambda: digits(pixels, pixels), "is given 2"),
                       (lambda: digits(pixels, input=pixels), "'input' is given twice"),
                       (lambda: digits(x=pixels), "none named 'x'"), (lambda: tokens(mask), "tokens, mask, and 'mask'"),
                       (lambda: tokens(mask=mask), "'tokens' is missing"), (lambda: digits([[1.0]]), "given list"),
                       (lambda: digits(None), "given NoneType"), (lambda: digits("text"), "given str"),
                       (lambda: digits(pixels.astype(">f4")), "format '>f'"),
                       (lambda: digits(pixels.astype(numpy.complex64)), "format 'Zf'"),
                       (lambda: digits(numpy.array(["a"])), "format '1w'")]:
        with pytest.raises(TypeError, match=text):
            call()


def test_objects_without_memory_to_show(digits):
    with pytest.raises((TypeError, ValueError)):
        digits(numpy.array([object()]))


def test_files(runtime, tmp_path):
    with pytest.raises(sluice.FileAccessError, match="No such file or directory: 'nowhere.onnx'") as caught:
        runtime.load("nowhere.onnx")
    assert isinstance(caught.value, OSError)
    with pytest.raises(sluice.FileError, match="README.md"):
        sluice.load(ROOT / "README.md", runtime=runtime)
    with pytest.raises(sluice.UnsupportedError, match="Mystery"):
        runtime.load(NETWORKS / "unknown.onnx")
    with pytest.raises(sluice.FileError, match="rubbish"):
        runtime.loads(b"\xff\xff", name="rubbish")
    with pytest.raises(sluice.InvalidArgumentError, match="'swish'; possible are"):
        runtime.load(ROOT / "models/digits.safetensors", hidden_activation="swish")
    for wrong in [None, 3, "a\0b"]:
        with pytest.raises((TypeError, ValueError)):
            runtime.load(wrong)
    with pytest.raises(TypeError):
        runtime.loads("text")


def test_devices(runtime):
    with pytest.raises(sluice.DeviceNotFoundError, match="no device 'cpu:9'; there are: cpu:0") as caught:
        runtime.load(ROOT / "models/digits.onnx", "cpu:9")
    assert isinstance(caught.value, LookupError)


def test_an_index_in_the_data(tokens):
    mask = numpy.ones((1, 20_000), numpy.float32)
    for length in [1, 20_000]:  # copied; used where it is
        wrong = numpy.full((1, length), 5)
        with pytest.raises(sluice.IndexInDataError, match="index 5") as caught:
            tokens(wrong, mask[:, :length])
        assert isinstance(caught.value, IndexError)


def test_memory(pixels):
    small = sluice.Runtime(cpu_workers=1, cpu_memory_bytes=1 << 17, cuda=False)
    network = small.load(ROOT / "models/digits_cnn.onnx")
    with pytest.raises(sluice.OutOfMemoryError, match="cpu:0") as caught:
        network(pixels)
    assert isinstance(caught.value, MemoryError)
    assert network(pixels[:1]).shape == (1, 10)  # and nothing is broken


def test_classes_cannot_be_made_empty():
    for each in [sluice.Network, sluice.Run, sluice.Tensor]:
        with pytest.raises(TypeError):
            each()
    with pytest.raises(TypeError):
        sluice.Runtime(1)
