# SPDX-License-Identifier: Apache-2.0
"""net.profile: the time of each node."""

import pytest

import sluice
from conftest import ROOT


def test_rows_are_nodes_and_what_belongs_to_none(digits_cnn, pixels):
    made = digits_cnn.profile(pixels, runs=3)
    assert isinstance(made, sluice.Profile) and made.runs == 3
    assert [row.microseconds for row in made.rows] == sorted((row.microseconds for row in made.rows), reverse=True)
    assert sum(row.share for row in made.rows) == pytest.approx(1)
    assert sum(row.microseconds for row in made.rows) == pytest.approx(made.microseconds)
    operators = " ".join(row.operators for row in made.rows)
    assert "Conv" in operators and "(upload)" in operators and "(download)" in operators
    assert all(row.node for row in made.rows if not row.operators.startswith("("))
    assert made.span_microseconds > 0 and made.on_host >= 0 and made.without_commands >= 0


def test_it_is_a_table_for_people(digits, pixels):
    made = digits.profile(pixels)
    lines = str(made).splitlines()
    assert lines[0].split() == ["us", "share", "operator", "node", "commands"]
    assert len(lines) == len(made.rows) + 2 and "the mean of 20 runs" in lines[-1]


def test_inputs_by_name_and_other_devices(pixels):
    machine = sluice.Runtime(cpu_devices=2, cpu_workers=1, cuda=False)
    net = machine.load(ROOT / "models/digits.onnx", "cpu:1", precision="bf16")
    assert net.profile(input=pixels, runs=1).rows
    from_bytes = machine.loads((ROOT / "models/digits.onnx").read_bytes())
    assert from_bytes.profile(pixels, runs=1).rows
    perceptron = machine.load(ROOT / "models/digits.safetensors", hidden_activation="relu", output_activation="identity")
    assert perceptron.profile(pixels, runs=1).rows


def test_what_is_refused(digits, pixels):
    for wrong in [0, -1, 2.5, "3"]:
        with pytest.raises(ValueError, match="runs is a whole number, at least 1"):
            digits.profile(pixels, runs=wrong)
    with pytest.raises(OverflowError):
        digits.profile(pixels, runs=2**70)
    with pytest.raises(sluice.ShapeError, match="is given 3"):
        digits.profile(pixels[:, :3])
    with pytest.raises(TypeError, match="there is none named 'rows'"):
        digits.profile(pixels, rows=3)
