# SPDX-License-Identifier: Apache-2.0
"""Runs that are submitted: asyncio, result(), callbacks."""

import asyncio
import gc
import threading
import weakref

import numpy
import pytest
from conftest import NETWORKS, OnlyDLPack

import sluice


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() < 1e-3


def test_tasks_of_asyncio_wait_at_the_same_time(digits, pixels, logits):
    async def main():
        made = await asyncio.gather(*[wait(i) for i in range(40)])
        return all(near(each, logits[i : i + 5]) for i, each in enumerate(made))

    async def wait(i):
        return await digits.submit(pixels[i : i + 5])

    assert asyncio.run(main())


def test_the_event_loop_runs_while_a_network_computes(digits_cnn, pixels):
    many = numpy.resize(pixels, (20_000, 64))

    async def main():
        turns = 0
        run = digits_cnn.submit(many)

        async def count():
            nonlocal turns
            while not run.done():
                turns += 1
                await asyncio.sleep(0)

        made, _ = await asyncio.gather(wait(run), count())
        return made, turns

    async def wait(run):
        return await run

    made, turns = asyncio.run(main())
    assert made.shape == (20_000, 10) and turns > 1


def test_an_error_comes_with_the_await(runtime):
    later = runtime.load(NETWORKS / "later.onnx")  # the indices are 2 x, and 0 to 4 are possible

    async def main():
        run = later.submit(numpy.array([1, 3]))
        with pytest.raises(sluice.IndexInDataError, match="index 6"):
            await run
        with pytest.raises(sluice.IndexInDataError, match="index 6"):
            run.result()  # as often as it is asked

    asyncio.run(main())


def test_a_task_that_is_cancelled(digits_cnn, pixels):
    many = numpy.resize(pixels, (20_000, 64))

    async def main():
        run = digits_cnn.submit(many)
        task = asyncio.ensure_future(wait(run))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await run  # the run itself continues

    async def wait(run):
        return await run

    assert asyncio.run(main()).shape == (20_000, 10)


def test_a_loop_that_ends_before_the_run(digits_cnn, pixels):
    many = numpy.resize(pixels, (20_000, 64))
    runs = []

    async def main():
        runs.append(digits_cnn.submit(many))
        task = asyncio.ensure_future(wait(runs[0]))
        await asyncio.sleep(0)
        task.cancel()

    async def wait(run):
        return await run

    asyncio.run(main())
    assert runs[0].result().shape == (20_000, 10)


def test_result(digits, digits_cnn, pixels, logits):
    run = digits.submit(pixels)
    made = run.result()
    assert near(made, logits) and run.result() is made and run.result(0) is made and run.done()
    slow = digits_cnn.submit(numpy.resize(pixels, (40_000, 64)))
    for timeout, text in [(0, "0 s"), (0.002, "0.002 s"), (1e-9, "1e-09 s")]:
        with pytest.raises(sluice.TimedOutError, match=f"not complete after {text}$") as caught:
            slow.result(timeout)
        assert isinstance(caught.value, TimeoutError)
    assert slow.result(600).shape == (40_000, 10)
    for wrong in [-1, float("nan")]:
        with pytest.raises(ValueError, match="timeout"):
            run.result(wrong)


def test_inputs_are_copied_when_a_run_is_submitted(digits, pixels, logits):
    x = pixels.copy()
    run, other = digits.submit(x), digits.submit(OnlyDLPack(x))
    x[:] = 0
    assert near(run.result(), logits) and near(other.result(), logits)


def test_callbacks(digits, pixels, capsys):
    seen, all_seen = [], threading.Event()
    run = digits.submit(pixels)
    run.add_done_callback(lambda which: (seen.append(which), all_seen.set()))
    assert all_seen.wait(60) and seen == [run]
    run.add_done_callback(seen.append)  # at once: the run is complete
    assert seen == [run, run]


def test_an_exception_in_a_callback_is_reported(digits, pixels, monkeypatch):
    reported, there = [], threading.Event()
    monkeypatch.setattr("sys.unraisablehook", lambda what: (reported.append(what.exc_value), there.set()))

    def fail(_):
        raise KeyError("in a callback")

    digits.submit(pixels).add_done_callback(fail)
    assert there.wait(60) and isinstance(reported[0], KeyError)


def test_several_threads_take_one_result(digits, pixels, logits):
    run, made = digits.submit(pixels), []
    threads = [threading.Thread(target=lambda: made.append(run.result())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 8 and all(each is made[0] for each in made) and near(made[0], logits)


def test_a_run_that_is_dropped_frees_what_it_keeps(digits, pixels):
    class Callback:
        def __call__(self, _):
            called.set()

    called = threading.Event()
    callback = Callback()
    gone = weakref.ref(callback)
    digits.submit(pixels).add_done_callback(callback)
    del callback
    assert called.wait(60)
    for _ in range(1000):  # the thread drops it right after the call
        gc.collect()
        if gone() is None:
            break
        threading.Event().wait(0.01)
    assert gone() is None
