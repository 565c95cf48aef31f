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
print(layer.profile(numpy.zeros((1, 64)), runs=3).rows[0].microseconds, layer.forward(numpy.zeros((1, 64))))
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
sluice.op.relu(sluice.op.upload([1.0]), slope=3)
"""


def mypy(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)


def test_the_stubs_describe_the_package(tmp_path):
    allowed = tmp_path / "allowed"
    # Only type checkers see the protocols. nanobind's classes and functions have types of their own.
    allowed.write_text(r"""sluice\._sluice\.(Array|SupportsDLPack|SupportsBuffer|SupportsCudaArray)
sluice\._sluice\.(Network|Run|Runtime|Tensor|_Builder|_start|_shut_down)
sluice\._sluice\.(Network|Run|Tensor)\.__init__
sluice\.op\.(Length|Operand)
""")
    ran = mypy("mypy.stubtest", "sluice", "--allowlist", str(allowed))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_programs_are_checked(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    good = mypy("mypy", "--strict", str(tmp_path / "good.py"))
    assert good.returncode == 0, good.stdout
    bad = mypy("mypy", "--strict", str(tmp_path / "bad.py"))
    assert bad.stdout.count("error:") == 4, bad.stdout
