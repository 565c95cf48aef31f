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
async def use() -> None:
    await net.submit(x=numpy.zeros(3))
try: sluice.loads(b"")
except sluice.ShapeError as wrong: print(wrong)
"""
BAD = """
import sluice
sluice.load(3)
sluice.load("m.onnx").inputs[0].nothing
sluice.load("m.onnx")(3.0)
"""


def mypy(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)


def test_the_stubs_describe_the_package(tmp_path):
    allowed = tmp_path / "allowed"
    # Only type checkers see the protocols. nanobind's classes and functions have types of their own.
    allowed.write_text(r"""sluice\._sluice\.(Array|SupportsDLPack|SupportsBuffer|SupportsCudaArray)
sluice\._sluice\.(Network|Run|Runtime|Tensor|_start|_shut_down)
sluice\._sluice\.(Network|Run|Tensor)\.__init__
""")
    ran = mypy("mypy.stubtest", "sluice", "--allowlist", str(allowed))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_programs_are_checked(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    good = mypy("mypy", "--strict", str(tmp_path / "good.py"))
    assert good.returncode == 0, good.stdout
    bad = mypy("mypy", "--strict", str(tmp_path / "bad.py"))
    assert bad.stdout.count("error:") == 3, bad.stdout
