# SPDX-License-Identifier: Apache-2.0
"""Networks with memory: sessions."""

import gc
import threading
import weakref

import numpy
import pytest

import sluice
from conftest import NETWORKS

PLACE = numpy.array([0])  # weights[place] is 0 there, and a place of 5 or more is refused


@pytest.fixture(scope="module")
def memory(runtime):
    """state_out = (state_in + x) / 2, y = 2 * state_out + weights[place]."""
    return runtime.load(NETWORKS / "memory.onnx")


def x(*numbers):
    return numpy.array(numbers, numpy.float32)


def test_a_session_remembers(memory):
    with memory.session() as s:
        assert s.pairs == {"state_out": "state_in"}
        expected = 0.0
        for step in range(20):
            expected = (expected + step) / 2
            y = s.step(x(step), place=PLACE)
            assert y.shape == (1,) and y[0] == numpy.float32(2 * expected)
        assert s.state["state_in"][0] == numpy.float32(expected)
        s.reset()
        assert s.step(x(8), PLACE)[0] == 8
        assert repr(s) == "<sluice.Session on cpu:0, state state_in>"
    assert repr(s) == "<sluice.Session that has ended>"


def test_the_arrays_of_a_step_are_the_callers(memory):
    s = memory.session()
    first = s.step(x(8), PLACE)
    s.step(x(0), PLACE)
    assert first[0] == 8
    first[0] = 1


def test_a_state_is_read_and_set(memory):
    first, second = memory.session(), memory.session(pairs={"state_out": "state_in"})
    first.step(x(8, 16), numpy.array([0, 0]))
    kept = first.state
    assert kept["state_in"].tolist() == [4, 8]
    first.step(x(0, 0), numpy.array([0, 0]))
    second.state = kept
    assert second.step(x(0, 0), numpy.array([0, 0])).tolist() == [4, 8]
    second.state = {"state_in": x(2)}
    assert second.step(x(0), PLACE).tolist() == [2]


def test_wrong_states_are_refused_and_change_nothing(memory):
    s = memory.session()
    with pytest.raises(sluice.InvalidArgumentError, match="is not known before the first step"):
        s.state
    s.step(x(8), PLACE)
    with pytest.raises(ValueError, match="the state lacks 'state_in'"):
        s.state = {}
    with pytest.raises(ValueError, match="no state 'other'; it has state_in"):
        s.state = {"state_in": x(1), "other": x(1)}
    with pytest.raises(sluice.ShapeError, match="is f32"):
        s.state = {"state_in": numpy.zeros(1)}
    with pytest.raises(sluice.ShapeError, match=r"\[1, 1\]"):
        s.state = {"state_in": x(1).reshape(1, 1)}
    assert s.state["state_in"].tolist() == [4]


def test_a_step_that_fails_changes_nothing(memory):
    s = memory.session()
    for _ in range(5):
        s.step(x(8), PLACE)
        before = s.state["state_in"].tolist()
        with pytest.raises(sluice.IndexInDataError, match="index 7"):
            s.step(x(100), numpy.array([7]))
        with pytest.raises(TypeError, match="a step takes the inputs x, place, and 'place' is missing"):
            s.step(x(1))
        with pytest.raises(TypeError, match="there is none named 'state_in'"):
            s.step(x(1), PLACE, state_in=x(1))
        assert s.state["state_in"].tolist() == before


def test_a_session_that_has_ended_refuses(memory):
    with memory.session() as s:
        s.step(x(1), PLACE)
    for call in (lambda: s.step(x(1), PLACE), s.reset, lambda: s.state):
        with pytest.raises(ValueError, match="the session has ended"):
            call()
    s.close()


def test_networks_without_a_state_are_refused(digits):
    with pytest.raises(sluice.InvalidArgumentError, match="no output is by its name the next value of an input"):
        digits.session()
    with pytest.raises(sluice.ShapeError, match="cannot be the next input 'input'"):
        digits.session(pairs={"logits": "input"})
    with pytest.raises(ValueError, match="is empty"):
        digits.session(pairs={})
    with pytest.raises(TypeError, match="pairs is a dict, and is given list"):
        digits.session(pairs=[("logits", "input")])
    with pytest.raises(TypeError, match="the names in pairs are str, and one is int"):
        digits.session(pairs={"logits": 0})
    with pytest.raises(TypeError, match="the shape of input 'input' is a tuple"):
        digits.session(shapes={"input": 3})


def test_a_session_keeps_its_network(runtime):
    net = runtime.load(NETWORKS / "memory.onnx")
    s = net.session()
    gone = weakref.ref(s)
    del net
    gc.collect()
    assert s.step(x(8), PLACE)[0] == 8
    del s
    gc.collect()
    assert gone() is None


def test_threads_step_sessions_of_their_own(memory):
    found = {}

    def listen(first):
        with memory.session() as s:
            for step in range(200):
                y = s.step(x(first + step), PLACE)
            found[first] = float(y[0])

    threads = [threading.Thread(target=listen, args=(first,)) for first in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for first in range(4):
        expected = numpy.float32(0)
        for step in range(200):
            expected = (expected + numpy.float32(first + step)) * numpy.float32(0.5)
        assert found[first] == 2 * expected
