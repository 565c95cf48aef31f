# SPDX-License-Identifier: Apache-2.0
"""Networks that take and give texts."""

import numpy
import pytest
from conftest import NETWORKS


@pytest.fixture(scope="module")
def colours(runtime):
    return runtime.load(NETWORKS / "texts.onnx")


@pytest.mark.parametrize("make", [
    lambda rows: numpy.array(rows),
    lambda rows: numpy.array(rows, dtype=object),
    lambda rows: rows,
])
def test_arrays_and_lists_of_texts_are_inputs(colours, make):
    out = colours(make([["red", "blue"], ["pink", "green"]]))
    assert out["number"].tolist() == [[1, 3], [0, 2]]
    assert out["farbe"].tolist() == [["rot", "blau"], ["?", "gr\u00fcn"]]
    assert out["farbe"].dtype == object


def test_values_say_that_they_are_texts(colours):
    assert colours.inputs[0].dtype == "str"
    assert [each.dtype for each in colours.outputs] == ["int64", "str"]


def test_no_rows_and_arrays_that_are_not_row_major(colours):
    assert colours(numpy.empty((0, 2), dtype=str))["farbe"].shape == (0, 2)
    rows = numpy.array([["red", "x", "blue", "y"]])[:, ::2]
    assert colours(rows)["number"].tolist() == [[1, 3]]


def test_what_is_not_text_is_refused(colours):
    with pytest.raises(TypeError, match="input 'colour' takes texts .*int"):
        colours([[1, 2]])
    with pytest.raises(TypeError, match="decode it"):
        colours(numpy.array([[b"red", b"blue"]]))
    with pytest.raises(ValueError, match="is text, which has no memory in place"):
        colours.prepare((1, 2))


def test_runs_that_are_awaited_give_texts(colours):
    run = colours.submit([["green", "green"]])
    assert run.result()["farbe"].tolist() == [["gr\u00fcn", "gr\u00fcn"]]


def test_texts_are_no_tensors_and_are_not_written_in_place(colours):
    with pytest.raises(ValueError, match="output 'farbe' is text, which is no Tensor"):
        colours.forward([["red", "blue"]])
    number, farbe = numpy.zeros((1, 2), "int64"), numpy.zeros((1, 2), "int64")
    for out in ([number, farbe], {"number": number, "farbe": farbe}):
        with pytest.raises(ValueError, match="output 'farbe' is text, which is not written in place"):
            colours([["red", "blue"]], out=out)
    assert not number.any()
    assert isinstance(colours([["red", "blue"]], outputs="number"), numpy.ndarray)
