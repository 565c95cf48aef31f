# SPDX-License-Identifier: Apache-2.0
"""The type stubs: they describe the package, and mypy understands programs with them."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy")

GOOD = """
import numpy, sluice
net: sluice.Network = sluice.load("m.onnx", device="cpu")
y = net(numpy.zeros((1, 64), numpy.float32))
names: list[str] = [each.name for each in net.inputs]
from sluice import op
made: op.Operation = op.upload(numpy.zeros((1, 64), numpy.float32)) * 2 + 1
layer: sluice.Network = op.compile(lambda x: op.softmax(op.gemm(x, numpy.zeros((64, 3)))), ("rows", 64))
fast: sluice.Prepared = net.prepare((1, 64), x=(3,))
fast.inputs["x"][:] = 1
fast.run()
net(numpy.zeros((1, 64)), out=y, outputs=None)
print(layer.profile(numpy.zeros((1, 64)), runs=3).rows[0].microseconds, layer.forward(numpy.zeros((1, 64))))
rows: list[list[str]] = [["red", "blue"]]
net(rows, colour="red", names=["red"])
net.submit([["red"]]).result()
async def use() -> None:
    await net.submit(x=numpy.zeros(3))
try: sluice.loads(b"")
except sluice.ShapeError as wrong: print(wrong)
"""
BAD = """
import sluice
import sluice.op
sluice.load(3)
sluice.load("m.onnx").inputs[0].nothing
sluice.load("m.onnx")(3.0)
sluice.load("m.onnx")([[3]])
sluice.op.relu(sluice.op.upload([1.0]), slope=3)
"""


def mypy(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)


def test_the_stubs_describe_the_package():
    ran = mypy("mypy.stubtest", "sluice")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_programs_are_checked(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    good = mypy("mypy", "--strict", str(tmp_path / "good.py"))
    assert good.returncode == 0, good.stdout
    bad = mypy("mypy", "--strict", str(tmp_path / "bad.py"))
    assert bad.stdout.count("error:") == 5, bad.stdout
