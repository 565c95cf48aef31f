# SPDX-License-Identifier: Apache-2.0
"""The code in docs/python.md."""

import asyncio

import numpy
import pytest
from conftest import ROOT

import sluice


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_network_runs(pixels, logits, capsys):
    net = sluice.load("models/digits.onnx")
    logits = net(pixels)  # pixels: float32 [450, 64]; logits: float32 [450, 10]

    for each in net.inputs:
        print(each.name, each.dtype, each.shape)  # input float32 ('batch', 64)

    assert capsys.readouterr().out == "input float32 ('batch', 64)\n"
    assert numpy.abs(logits - numpy.load("data/digits_logits.npy")).max() < 1e-3


def test_inputs_by_name(capsys):
    scored = sluice.load("tests/c/networks/tokens.onnx")
    found = scored(tokens=numpy.array([[1, 2, 3]]), mask=numpy.ones((1, 3), numpy.float32))
    print(found["scores"], found["total"])

    assert capsys.readouterr().out == "[[10. 20. 30.]] [60.]\n"


def test_out_and_outputs(pixels):
    net = sluice.load("models/digits.onnx")
    scored = sluice.load("tests/c/networks/tokens.onnx")
    room = numpy.empty((450, 10), numpy.float32)
    net(pixels, out=room)
    total = scored(tokens=numpy.array([[1, 2, 3]]), mask=numpy.ones((1, 3), numpy.float32), outputs="total")

    assert room.tobytes() == net(pixels).tobytes() and total == 60


def test_prepare(pixels, logits):
    net = sluice.load("models/digits.onnx")
    fast = net.prepare(input=(8, 64))
    x, y = fast.inputs["input"], fast.outputs["logits"]
    x[:] = pixels[:8]
    fast.run()  # y has the answers, until the next run

    assert numpy.abs(y - logits[:8]).max() < 1e-3


def test_session():
    net = sluice.load("tests/c/networks/memory.onnx")
    x, place = numpy.ones(1, numpy.float32), numpy.zeros(1, numpy.int64)
    with net.session() as s:  # "state_out" is the next "state_in"
        for _ in range(10):
            y = s.step(x, place=place)  # the inputs that are not state
        kept = s.state  # a dict of arrays
        s.reset()  # the next sequence
        s.state = kept  # or continue there

    assert 1.99 < y[0] < 2


def test_asyncio(pixels, logits):
    net = sluice.load("models/digits.onnx")

    async def answer(rows):
        return await net.submit(rows)  # the event loop runs other tasks

    async def main():
        return await asyncio.gather(answer(pixels[:10]), answer(pixels[10:20]))

    assert numpy.abs(numpy.concatenate(asyncio.run(main())) - logits[:20]).max() < 1e-3


def test_precision(pixels, logits):
    fast = sluice.load("models/digits.onnx", precision="bf16")
    print(fast.rounding.how, fast.rounding.rounded, fast.rounding.kept)

    difference = numpy.abs(fast(pixels) - sluice.load("models/digits.onnx")(pixels)).max()
    assert difference < 1 and fast.rounding.precision == "bf16"


def test_profile(pixels, capsys):
    net = sluice.load("models/digits_cnn.onnx")
    times = net.profile(pixels, runs=50)
    print(times)  # a table

    longest = times.rows[0]
    print(longest.operators, longest.node, longest.microseconds)

    text = capsys.readouterr().out
    assert longest.operators in text and longest.microseconds > 0 and times.runs == 50


def test_errors(pixels, capsys):
    net = sluice.load("models/digits.onnx")
    try:
        net(pixels[:, :3])
    except ValueError as wrong:  # sluice.ShapeError is one
        print(wrong)  # models/digits.onnx: input 'input': dimension 1 is 64, and is given 3

    assert capsys.readouterr().out == "models/digits.onnx: input 'input': dimension 1 is 64, and is given 3\n"


def test_devices(pixels):
    print([each.name for each in sluice.devices()])  # ['cuda:0', 'cpu:0'], or ['cpu:0']
    net = sluice.load("models/digits.onnx", device="cpu")

    assert net(pixels).shape == (450, 10)
