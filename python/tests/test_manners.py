# SPDX-License-Identifier: Apache-2.0
"""What Python's own modules ask of objects: copy, pickle, weakref, inspect, help."""

import copy
import errno
import inspect
import pickle
import weakref

import numpy
import pytest

import sluice
from conftest import NETWORKS, ROOT


def test_a_copy_is_the_network_itself(digits):
    assert copy.copy(digits) is digits and copy.deepcopy([digits])[0] is digits


def test_a_pickle_loads_the_network_again(digits, pixels, monkeypatch):
    again = pickle.loads(pickle.dumps(digits))
    assert again is not digits and again(pixels).tobytes() == digits(pixels).tobytes()
    data = (ROOT / "models/digits.onnx").read_bytes()
    of_bytes = pickle.loads(pickle.dumps(sluice.loads(data, "cpu", name="mine")))
    assert of_bytes(pixels).tobytes() == digits(pixels).tobytes()
    monkeypatch.chdir(ROOT / "models")
    relative = pickle.dumps(sluice.load("digits.onnx", "cpu", precision="bf16"))
    monkeypatch.chdir("/")
    assert pickle.loads(relative).rounding.precision == "bf16"


def test_a_network_of_nodes_has_no_pickle(runtime):
    from sluice import op

    net = op.compile(op.relu, ("rows", 2), runtime=runtime)
    with pytest.raises(TypeError, match="written node by node"):
        pickle.dumps(net)


def test_objects_have_weak_references(runtime, digits, pixels):
    run = digits.submit(pixels)
    for each in (runtime, digits, digits.prepare((1, 64)), run):
        assert weakref.ref(each)() is each
    run.result()


def test_a_network_has_a_signature(digits, tokens):
    assert str(inspect.signature(digits)) == "(input, *, out=None, outputs=None)"
    assert str(inspect.signature(tokens)) == "(tokens, mask, *, out=None, outputs=None)"
    bound = inspect.signature(tokens).bind(1, mask=2)
    assert bound.arguments == {"tokens": 1, "mask": 2}


def test_everything_has_a_docstring():
    for kind in (sluice.Network, sluice.Prepared, sluice.Run, sluice.Runtime, sluice.Tensor):
        assert kind.__doc__
        for name, member in vars(kind).items():
            if name.startswith("_") or isinstance(member, type):
                continue
            assert member.__doc__ and len(member.__doc__.strip()) > 20, f"{kind.__name__}.{name}"


def test_objects_say_what_they_are(runtime, digits, pixels):
    assert repr(runtime) == "<sluice.Runtime: cpu:0>"
    run = digits.submit(pixels)
    run.result()
    assert repr(run) == "<sluice.Run on cpu:0: over>"


def test_a_missing_file_is_one_of_pythons(runtime):
    for path in ("nowhere.onnx", b"nowhere.safetensors", NETWORKS / "nowhere.onnx"):
        with pytest.raises(FileNotFoundError) as caught:
            runtime.load(path)
        assert isinstance(caught.value, sluice.MissingFileError) and isinstance(caught.value, sluice.FileAccessError)
        assert caught.value.errno == errno.ENOENT and "nowhere" in caught.value.filename
    with pytest.raises(sluice.FileAccessError) as caught:
        runtime.load(ROOT / "README.md/digits.onnx")
    assert not isinstance(caught.value, FileNotFoundError)


def test_texts_name_no_function_of_c(runtime, digits, pixels):
    for wrong in (lambda: digits(pixels.astype(numpy.float64)), lambda: digits.prepare((1, 2, 3)),
                  lambda: runtime.load(ROOT / "models/digits.onnx", hidden_activation="relu"),
                  lambda: runtime.load(ROOT / "models/digits.onnx", precision="f8"),
                  lambda: runtime.load(ROOT / "models/digits.onnx", streams=10**6)):
        with pytest.raises(sluice.Error) as caught:
            wrong()
        assert "sluice_" not in str(caught.value)
