#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loop of examples/real_time.cpp with ONNX Runtime, from Python: inputs and outputs are bound once, so that a period
is one call of run_with_iobinding. The collector of garbage is off. The time of an identity network, which is printed too,
is what Python and the call cost.

    real_time_onnx.py [--model FILE] [--periods N] [--hertz N] [--core N] [--priority N]

Prints one line of JSON for each of: how late the thread woke, how long the work took, when the command was there.
"""
import argparse
import ctypes
import gc
import json
import os
import time

import numpy as np
import onnx
import onnxruntime


def take_core_and_priority(core, priority):
    if core is not None:
        os.sched_setaffinity(0, {core})
    if priority:
        ctypes.CDLL(None).mlockall(3)  # what there is, and what comes
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bound(session):
    """A binding of the session, and the array that its first input reads."""
    binding = session.io_binding()
    sensors = None
    for each in session.get_inputs():
        values = np.zeros([n if isinstance(n, int) else 1 for n in each.shape], np.float32)
        sensors = values if sensors is None else sensors
        binding.bind_input(each.name, "cpu", 0, np.float32, values.shape, values.ctypes.data)
        binding.values = [*getattr(binding, "values", []), values]  # they live as long
    for each in session.get_outputs():
        binding.bind_output(each.name, "cpu")
    return binding, sensors


def identity(model):
    """The bytes of a network with the first input of this one, which it gives back."""
    value = onnx.load(model, load_external_data=False).graph.input[0]
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    made = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", made[:1], made[1:])
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def loop(session, periods, hertz):
    binding, sensors = bound(session)
    session.run_with_iobinding(binding)
    times = np.zeros((periods, 3), np.int64)  # woke, done, due
    period = 1_000_000_000 // hertz
    due = time.monotonic_ns() + period
    for i in range(periods):
        wait = due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait * 1e-9)
        woke = time.monotonic_ns()
        sensors.fill(i % 16)
        session.run_with_iobinding(binding)
        times[i] = woke, time.monotonic_ns(), due
        due += period
    return times


def rows(runtime, times):
    woke, done, due = times.T
    for what, all_times in (("woke", woke - due), ("work", done - woke), ("done", done - due)):
        p50, p99, p9999 = np.quantile(all_times, [0.5, 0.99, 0.9999], method="higher") / 1e3
        yield {"runtime": runtime, "what": what, "p50_us": p50, "p99_us": p99, "p99_99_us": p9999,
               "worst_us": all_times.max() / 1e3}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(here, "../../models/digits.onnx"))
    parser.add_argument("--periods", type=int, default=2_000)
    parser.add_argument("--hertz", type=int, default=1_000)
    parser.add_argument("--core", type=int)
    parser.add_argument("--priority", type=int)
    given = parser.parse_args()
    sessions = {"onnxruntime": session_of(given.model), "onnxruntime identity": session_of(identity(given.model))}
    take_core_and_priority(given.core, given.priority)
    gc.collect()
    gc.disable()
    for name, session in sessions.items():
        for row in rows(name, loop(session, given.periods, given.hertz)):
            print(json.dumps(row))


if __name__ == "__main__":
    main()
