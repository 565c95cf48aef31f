# SPDX-License-Identifier: Apache-2.0
"""The code in docs/python_pipelines.md."""

import numpy
import pytest
from conftest import ROOT

import sluice
from sluice import op

rng = numpy.random.default_rng(1)
w1, b1 = rng.standard_normal((64, 32), dtype=numpy.float32) / 8, numpy.zeros(32, numpy.float32)
w2, b2 = rng.standard_normal((32, 10), dtype=numpy.float32) / 8, numpy.ones(10, numpy.float32)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_pipeline(pixels, capsys):
    pipeline = op.upload(pixels).and_then(op.gemm, w1, b1).and_then(op.relu).and_then(op.gemm, w2, b2)
    print(pipeline)  # <operation Gemm: float32 [450, 10]>

    logits = op.sync(pipeline.and_then(op.download))  # runs it: a NumPy array

    assert capsys.readouterr().out == "<operation Gemm: float32 [450, 10]>\n"
    assert numpy.allclose(logits, numpy.maximum(pixels @ w1 + b1, 0) @ w2 + b2, atol=1e-3)


def test_errors(pixels, capsys):
    try:
        op.upload(pixels).and_then(op.gemm, w2)
    except sluice.ShapeError as wrong:
        print(wrong)

    assert "Gemm" in capsys.readouterr().out


def test_operators(pixels):
    x = op.upload(pixels)
    centred = x - op.reshape(op.mean(x), (-1, 1))
    variance = op.sync(op.mean(centred * centred).and_then(op.download))

    assert numpy.allclose(variance, pixels.var(-1), rtol=1e-3, atol=1e-3)


def test_zip(pixels):
    difference = op.zip(op.upload(pixels), op.upload(pixels[::-1].copy())).and_then(op.subtract)
    smallest, largest = op.sync(op.zip(op.download(op.min(difference)), op.download(op.max(difference))))

    assert numpy.array_equal(smallest, (pixels - pixels[::-1]).min(-1))
    assert numpy.array_equal(largest, (pixels - pixels[::-1]).max(-1))


def test_what_stays_on_the_device(pixels):
    hidden = op.sync(op.upload(pixels).and_then(op.gemm, w1, b1))  # a sluice.Tensor
    positive = op.sync(op.upload(hidden).and_then(op.relu).and_then(op.download))

    assert isinstance(hidden, sluice.Tensor)
    assert numpy.allclose(positive, numpy.maximum(pixels @ w1 + b1, 0), atol=1e-3)


def test_compile(pixels, capsys):
    def classify(x):
        return op.softmax(op.gemm(op.relu(op.gemm(x, w1, b1)), w2, b2))

    net = op.compile(classify, ("rows", 64))  # f32; any number of rows
    probabilities = net(pixels)  # compiled to a graph for this shape at the second call, which later calls replay
    print(net.profile(pixels))  # the time of each operation

    assert numpy.allclose(probabilities.sum(-1), 1, atol=1e-4) and "Gemm" in capsys.readouterr().out


def test_devices():
    on_cpu = op.sync(op.download(op.sum(op.arange(10))), device="cpu")  # "auto": the first GPU, or else a CPU device

    assert on_cpu == 45
