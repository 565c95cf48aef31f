# SPDX-License-Identifier: Apache-2.0
"""What is true of whole processes: the import, the GIL, threads, lifetime, forks and the end."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import ROOT

import sluice


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() < 1e-3


def program(text, **options):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, cwd=ROOT, **options)


def test_the_import_is_small_and_does_not_import_numpy():
    ran = program("import sys, sluice; assert not {'numpy', 'asyncio'} & set(sys.modules); print('good')")
    assert ran.stdout == "good\n", ran.stderr

    def seconds(statement):
        begin = time.process_time()
        times = os.times()
        program(statement)
        now = os.times()
        return now.children_user + now.children_system - times.children_user - times.children_system + 0 * begin

    # Processor time, which other processes do not change as they change the clock's.
    least = min(seconds("import sluice") - seconds("pass") for _ in range(5))
    assert least < 0.1


def test_other_threads_run_while_a_network_computes(digits_cnn, pixels):
    many = numpy.resize(pixels, (20_000, 64))
    turns, over = 0, False

    def count():
        nonlocal turns
        while not over:
            turns += 1
            time.sleep(0)  # gives the GIL away: no thread takes it from another in this test

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    counting = threading.Thread(target=count)
    counting.start()
    try:
        for call in [digits_cnn, lambda x: digits_cnn.submit(x).result()]:
            before = turns
            assert call(many).shape == (20_000, 10)
            assert turns - before > 10  # at most one if the call kept the GIL
        before = turns
        for _ in range(1000):  # where other programs use the processor, a load may be over before the thread runs
            sluice.Runtime(cuda=False).load(ROOT / "models/digits.safetensors")
            if turns > before:
                break
        assert turns > before
    finally:
        over = True
        sys.setswitchinterval(interval)
        counting.join()


def test_threads_share_a_network(digits, pixels, logits):
    wrong = []

    def use(number):
        for turn in range(50):
            at = (number * 50 + turn) % 400
            made = digits(pixels[at : at + 3]) if turn % 2 else digits.submit(pixels[at : at + 3]).result()
            if not near(made, logits[at : at + 3]):
                wrong.append(at)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_a_network_outlives_its_runtime_and_results_outlive_the_network(pixels, logits):
    runtime = sluice.Runtime(cuda=False)
    network = runtime.load(ROOT / "models/digits.onnx")
    del runtime
    gc.collect()
    many = numpy.resize(pixels, (4500, 64))
    small, large, run = network(pixels[:2]), network(many), network.submit(pixels)
    del network
    gc.collect()
    assert near(small, logits[:2]) and near(large, numpy.resize(logits, (4500, 10))) and near(run.result(), logits)


def test_inputs_are_not_kept(digits, pixels):
    x = pixels.copy()
    before = sys.getrefcount(x)
    for _ in range(3):
        digits(x)
    assert sys.getrefcount(x) == before
    x.resize((1, 64), refcheck=False)  # no view of its memory is left: else NumPy refuses
    with pytest.raises(sluice.ShapeError):
        digits(x[:, :3])
    assert sys.getrefcount(x) == before


def test_nothing_leaks(digits, tokens, pixels):
    def use(turns):
        for _ in range(turns):
            digits(pixels)
            digits.submit(pixels).result()
            with pytest.raises(sluice.ShapeError):
                digits(pixels[:, :3])

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    use(300)
    gc.collect()
    before = resident()
    use(1000)  # each turn has outputs of 36 KB and inputs of 115 KB: one of them kept is more than 36 MB
    gc.collect()
    assert resident() - before < 16 << 20


def in_child(network, x, queue):
    try:
        network(x)
        queue.put("it ran")
    except RuntimeError as refused:
        queue.put(str(refused))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_is_refused_and_ends(digits, pixels):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(digits, pixels[:1], queue))
    child.start()
    assert "before this process was forked" in queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0


def test_a_process_ends_while_runs_are_in_flight():
    for _ in range(3):
        ran = program("""
import asyncio, numpy, sluice
net = sluice.load("models/digits_cnn.onnx")
runs = [net.submit(numpy.zeros((2000, 64), numpy.float32)) for _ in range(4)]
for each in runs: each.add_done_callback(lambda run: print(run.result().shape))
""")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, 4 * "(2000, 10)\n", "")  # runs and callbacks are completed


def test_nothing_is_submitted_while_a_process_ends():
    ran = program("""
import atexit, numpy, sluice
def late():
    try: net.submit(numpy.zeros((1, 64), numpy.float32))
    except RuntimeError as refused: print(refused)
atexit.unregister(sluice._shut_down)
atexit.register(late)
atexit.register(sluice._shut_down)  # runs first
net = sluice.load("models/digits_cnn.onnx")
""")
    assert (ran.returncode, ran.stdout) == (0, "the interpreter ends: nothing can be submitted any more\n"), ran.stderr


def test_threads_that_are_in_calls_when_a_process_ends():
    for call in ("net(x)", "net(x[:, ::-1])", "net.submit(x).result()", "fast.run()", "sluice.Runtime(cuda=False)"):
        for _ in range(10 if call == "net(x)" else 3):
            ran = program(f"""
import numpy, sluice, threading
net = sluice.load("models/digits.onnx", "cpu")
x = numpy.zeros((50, 64), numpy.float32)
begun = threading.Event()
def use():
    fast = net.prepare((50, 64))
    try:
        while True:
            {call}
            begun.set()
    except RuntimeError as refused:
        assert "the interpreter ends" in str(refused)
for _ in range(3): threading.Thread(target=use, daemon=True).start()
begun.wait()
""")
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", ""), call


def test_a_result_is_there_while_a_process_ends():
    ran = program("""
import atexit, numpy, sluice
net = sluice.load("models/digits.onnx", "cpu")
run = net.submit(numpy.zeros((3, 64), numpy.float32))
def late():
    print(run.result().shape)
    try: net(numpy.zeros((3, 64), numpy.float32))
    except RuntimeError as refused: print(refused)
atexit.unregister(sluice._shut_down)
atexit.register(late)
atexit.register(sluice._shut_down)  # runs first
""")
    assert (ran.returncode, ran.stdout) == (0, "(3, 10)\nthe interpreter ends: nothing can be submitted any more\n"), ran.stderr


def test_a_result_is_made_again_after_a_failure():
    ran = program("""
import numpy, sluice
real, calls = numpy.empty, []
def fails_once(*given):
    calls.append(given)
    if len(calls) == 1: raise MemoryError("no room")
    return real(*given)
numpy.empty = fails_once  # before the extension looks for it
run = sluice.load("models/digits.onnx", "cpu").submit(numpy.zeros((3, 64), numpy.float32))
try: run.result()
except MemoryError as failed: print(failed)
print(run.result().shape, run.result() is run.result())
""")
    assert (ran.returncode, ran.stdout) == (0, "no room\n(3, 10) True\n"), ran.stderr


def test_a_signal_ends_a_wait():
    ran = program("""
import numpy, signal, sluice
net = sluice.load("models/digits_cnn.onnx")
run = net.submit(numpy.zeros((400_000, 64), numpy.float32))
class Rang(Exception): pass
def ring(*_): raise Rang
signal.signal(signal.SIGALRM, ring)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    run.result()
    print("over")
except Rang: print("rang")
""")
    assert ran.stdout == "rang\n", ran.stderr


def test_a_fork_while_a_run_is_in_flight():
    ran = program("""
import os, numpy, signal, sluice
net = sluice.load("models/digits_cnn.onnx", "cpu")
run = net.submit(numpy.zeros((100_000, 64), numpy.float32))
child = os.fork()
if child == 0:
    signal.alarm(20)  # of a child that does not end
    for ask in (run.done, lambda: run.add_done_callback(print), run.result):
        try: print("answered", ask())
        except RuntimeError as refused: print("before this process was forked" in str(refused))
    print(run)
else:
    print(os.waitpid(child, 0)[1], run.result().shape)
""")
    expected = 3 * "True\n" + "<sluice.Run on cpu:0: of another process>\n" + "0 (100000, 10)\n"
    assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr


def test_a_fork_inside_a_call():
    ran = program("""
import os, numpy, signal, sluice
net = sluice.load("models/digits.onnx", "cpu")
class Forks:
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self, **_):
        self.child = os.fork()
        raise ValueError("forked")
x = Forks()
try: net(x)
except ValueError as refused: os.write(1, f"{refused}\\n".encode())  # one write: both processes do it
if x.child == 0: signal.alarm(20)
else: print(os.waitpid(x.child, 0)[1], net(numpy.zeros((3, 64), numpy.float32)).shape)
""")
    assert (ran.returncode, ran.stdout) == (0, "forked\nforked\n0 (3, 10)\n"), ran.stderr


def load_in_child(x, queue):
    try:
        network = sluice.load(ROOT / "models/digits.onnx", "cpu")  # the runtime of the parent is not here
        queue.put(network(x))
        queue.put(network.submit(x).result())
        queue.put([each.name for each in sluice.devices() if each.kind == "cpu"])
    except BaseException as refused:
        queue.put(str(refused))
        raise


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_loads_networks_of_its_own(pixels, logits):
    before = sluice.default_runtime()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=load_in_child, args=(pixels[:3], queue))
    child.start()
    for _ in range(2):
        made = queue.get(timeout=60)
        assert not isinstance(made, str), made
        assert near(made, logits[:3])
    assert queue.get(timeout=60) == ["cpu:0"]
    child.join(60)
    assert child.exitcode == 0
    assert sluice.default_runtime() is before  # the parent continues as it was
