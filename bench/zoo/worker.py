#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One engine with one network, in a process of its own, for zoo.py.

    worker.py ENGINE MODEL THREADS [LIBRARY]

Reads commands, a JSON object a line, and answers each with one:

    {"do": "load"}                                   reads the file: wall and processor time, memory
    {"do": "prepare", "inputs": "x.npz"}             binds inputs and outputs
    {"do": "run", "seconds": 0.1}                    calls until that much processor time has passed, at least once
    {"do": "outputs", "to": "y.npz"}                 writes the outputs of the latest call

Inputs and outputs stay bound: a call of `run` moves no array between Python and the engine. Processor time is that of all
threads of the process.
"""

import ctypes
import json
import pathlib
import sys
import time

import numpy as np


def peak_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


class OnnxRuntime:
    """Threads that wait sleep: else they count as processor time."""

    def __init__(self, threads):
        import onnxruntime
        self.library, self.threads = onnxruntime, threads
        self.version = onnxruntime.__version__

    def load(self, path):
        options = self.library.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self.session = self.library.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def prepare(self, inputs):
        self.inputs = {each.name: inputs[each.name] for each in self.session.get_inputs() if each.name in inputs}
        self.names = [each.name for each in self.session.get_outputs()]
        self.texts = any(each.dtype.kind not in "fiub" for each in self.inputs.values())
        first = self.session.run(self.names, self.inputs)
        self.results = first
        arrays = all(isinstance(each, np.ndarray) and each.dtype.kind in "fiub" for each in first)
        if not arrays or self.texts:
            return "run"
        self.binding = self.session.io_binding()
        self.values = {}
        for name, array in self.inputs.items():
            value = self.library.OrtValue.ortvalue_from_numpy(array)
            self.values[name] = value
            self.binding.bind_ortvalue_input(name, value)
        for name, array in zip(self.names, first):
            if array.size:
                value = self.library.OrtValue.ortvalue_from_numpy(np.zeros_like(array))
                self.values["output " + name] = value
                self.binding.bind_ortvalue_output(name, value)
            else:
                self.binding.bind_output(name)
        self.session.run_with_iobinding(self.binding)
        return "bound"

    def calls(self, way):
        if way == "run":
            def call():
                self.results = self.session.run(self.names, self.inputs)
            return call
        return lambda: self.session.run_with_iobinding(self.binding)

    def outputs(self, way):
        results = self.results if way == "run" else self.binding.copy_outputs_to_cpu()
        return dict(zip(self.names, results))


class OpenVino:
    def __init__(self, threads):
        import openvino
        self.library, self.threads = openvino, threads
        self.version = openvino.__version__.split("-")[0]

    def load(self, path):
        core = self.library.Core()
        self.model = core.compile_model(path, "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False})

    def prepare(self, inputs):
        self.request = self.model.create_infer_request()
        self.held = []
        for each in self.model.inputs:
            names = [name for name in each.get_names() if name in inputs]
            value = self.library.Tensor(np.asarray(inputs[names[0]], order="C"))
            self.held.append(value)
            self.request.set_tensor(each, value)
        self.request.infer()
        return "bound"

    def calls(self, way):
        def call():
            self.request.start_async()
            self.request.wait()
        return call

    def outputs(self, way):
        return {each.get_any_name(): np.array(self.request.get_tensor(each).data) for each in self.model.outputs}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_size_t),
                ("type", ctypes.c_int32), ("memory", ctypes.c_int32)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_size_t),
                ("type", ctypes.c_int32)]


class InputShape(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_size_t)]


class FixedInput(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("numbers", Tensor)]


class RuntimeOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("cpu_devices", ctypes.c_size_t), ("cpu_workers", ctypes.c_size_t),
                ("cpu_memory_bytes", ctypes.c_uint64), ("without_cuda", ctypes.c_int32),
                ("flush_denormals", ctypes.c_int64)]


class ValueInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dimensions", ctypes.c_void_p),
                ("rank", ctypes.c_size_t), ("type", ctypes.c_int32), ("needs_host", ctypes.c_int32),
                ("is_text", ctypes.c_int32)]


TYPES = {1: np.float16, 3: np.float32, 4: np.float64, 5: np.int8, 6: np.uint8, 7: np.int16, 8: np.uint16, 9: np.int32,
         10: np.uint32, 11: np.int64, 12: np.uint64, 13: np.bool_}
NUMBERS = {np.dtype(each): number for number, each in TYPES.items()}


def lengths(array):
    return (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)


class Sluice:
    """By the C interface: a prepared call, or one that allocates where the network cannot be prepared."""

    def __init__(self, threads, library):
        self.c = ctypes.CDLL(library)
        self.c.sluice_last_error.restype = ctypes.c_char_p
        self.c.sluice_version.restype = ctypes.c_char_p
        self.version = self.c.sluice_version().decode()
        self.runtime, self.network = ctypes.c_void_p(), ctypes.c_void_p()
        self.result = None
        self.deciding = set()
        options = RuntimeOptions(size=ctypes.sizeof(RuntimeOptions), cpu_workers=threads, without_cuda=1)
        self.ok(self.c.sluice_runtime_create(ctypes.byref(options), ctypes.byref(self.runtime)))

    def ok(self, status):
        if status:
            raise RuntimeError(self.c.sluice_last_error().decode())

    def load(self, path):
        self.ok(self.c.sluice_network_load(self.runtime, path.encode(), None, ctypes.byref(self.network)))
        self.inputs, self.output_infos = self.infos("input"), self.infos("output")

    def infos(self, side):
        count = ctypes.c_size_t()
        self.ok(getattr(self.c, f"sluice_network_{side}_count")(self.network, ctypes.byref(count)))
        found = []
        for i in range(count.value):
            info = ValueInfo(size=ctypes.sizeof(ValueInfo))
            self.ok(getattr(self.c, f"sluice_network_{side}")(self.network, ctypes.c_size_t(i), ctypes.byref(info)))
            found.append((info.name.decode(), bool(info.is_text)))
            if info.needs_host:  # its numbers decide about shapes or about what is run
                self.deciding.add(info.name.decode())
        return found

    def coded(self, array):
        codes = np.zeros(array.shape, np.int64)
        for at, text in np.ndenumerate(array):
            raw, code = str(text).encode(), ctypes.c_int64()
            self.ok(self.c.sluice_network_text_code(self.network, raw, ctypes.c_size_t(len(raw)), ctypes.byref(code)))
            codes[at] = code.value
        return codes

    def prepare(self, inputs):
        self.arrays = [np.asarray(self.coded(inputs[name]) if text else inputs[name], order="C")
                       for name, text in self.inputs]
        self.kept = [lengths(each) for each in self.arrays]
        count = len(self.arrays)
        self.tensors = (Tensor * max(count, 1))(*[
            Tensor(each.ctypes.data, shape, each.ndim, NUMBERS[each.dtype], 0)
            for each, shape in zip(self.arrays, self.kept)])
        given = [InputShape(name.encode(), shape, each.ndim)
                 for (name, _), each, shape in zip(self.inputs, self.arrays, self.kept) if name not in self.deciding]
        fixed = [FixedInput(name.encode(), self.tensors[i])
                 for i, (name, _) in enumerate(self.inputs) if name in self.deciding]
        self.prepared = ctypes.c_void_p()
        # Of numbers as fixed as a rate. With data that decides, a run would not compute what depends on it.
        few = all(each.dtype.kind in "iub" and each.nbytes <= 256
                  for (name, _), each in zip(self.inputs, self.arrays) if name in self.deciding)
        if not few or not given and fixed:
            self.why = "data decides about shapes or about what is run"
            self.calls("run")()
            return "run"
        if self.c.sluice_prepared_create_fixed(
                self.network, (InputShape * max(len(given), 1))(*given), ctypes.c_size_t(len(given)),
                (FixedInput * max(len(fixed), 1))(*fixed), ctypes.c_size_t(len(fixed)), ctypes.byref(self.prepared)):
            self.why = self.c.sluice_last_error().decode()
            self.calls("run")()
            return "run"
        for i, each in enumerate(self.arrays):
            if self.inputs[i][0] in self.deciding:
                continue
            place = Buffer()
            self.ok(self.c.sluice_prepared_input(self.prepared, ctypes.c_size_t(i), ctypes.byref(place)))
            ctypes.memmove(place.data, each.ctypes.data, each.nbytes)
        self.calls("bound")()
        return "bound"

    def calls(self, way):
        if way == "bound":
            run, prepared = self.c.sluice_prepared_run, self.prepared

            def call():
                if run(prepared):
                    raise RuntimeError(self.c.sluice_last_error().decode())
            return call

        def call():
            if self.result:
                self.c.sluice_result_destroy(self.result)
            self.result = ctypes.c_void_p()
            self.ok(self.c.sluice_network_run(self.network, self.tensors, ctypes.c_size_t(len(self.arrays)),
                                              ctypes.byref(self.result)))
        return call

    def outputs(self, way):
        found = {}
        for i, (name, text) in enumerate(self.output_infos):
            place = Buffer()
            if way == "bound":
                self.ok(self.c.sluice_prepared_output(self.prepared, ctypes.c_size_t(i), ctypes.byref(place)))
            else:
                self.ok(self.c.sluice_result_output(self.result, ctypes.c_size_t(i), ctypes.byref(place)))
            array = self.copied(place)
            found[name] = self.decoded(array) if text else array
        return found

    def copied(self, place):
        shape = [place.shape[i] for i in range(place.rank)]
        kind = np.dtype(TYPES[place.type])
        size = int(np.prod(shape)) * kind.itemsize
        return np.frombuffer(ctypes.string_at(place.data, size) if size else b"", kind).reshape(shape).copy()

    def decoded(self, codes):
        texts = np.empty(codes.shape, object)
        for at, code in np.ndenumerate(codes):
            text, size = ctypes.c_char_p(), ctypes.c_size_t()
            self.ok(self.c.sluice_network_text(self.network, ctypes.c_int64(int(code)), ctypes.byref(text),
                                               ctypes.byref(size)))
            texts[at] = text.value.decode()
        return texts.astype("U")


ENGINES = {"sluice": Sluice, "onnxruntime": OnnxRuntime, "openvino": OpenVino}


class Worker:
    def __init__(self, engine, model, threads, *more):
        self.model = model
        self.engine = ENGINES[engine](threads, *more)

    def load(self, command):
        before, begin, busy = peak_bytes(), time.perf_counter(), time.process_time()
        self.engine.load(self.model)
        return {"wall_ms": 1e3 * (time.perf_counter() - begin), "cpu_ms": 1e3 * (time.process_time() - busy),
                "bytes": peak_bytes() - before, "version": self.engine.version}

    def prepare(self, command):
        before, busy = peak_bytes(), time.process_time()
        with np.load(command["inputs"]) as file:
            inputs = dict(file)
        self.way = self.engine.prepare(inputs)
        self.call = self.engine.calls(self.way)
        return {"way": self.way, "cpu_ms": 1e3 * (time.process_time() - busy), "bytes": peak_bytes() - before,
                "why": getattr(self.engine, "why", "") if self.way == "run" else ""}

    def run(self, command):
        calls, call = 0, self.call
        begin, busy = time.perf_counter(), time.process_time()
        while True:
            call()
            calls += 1
            if time.process_time() - busy >= command["seconds"]:
                break
        wall, cpu = time.perf_counter() - begin, time.process_time() - busy
        return {"calls": calls, "wall_us": 1e6 * wall / calls, "cpu_us": 1e6 * cpu / calls}

    def outputs(self, command):
        arrays = self.engine.outputs(self.way)
        arrays = {f"{i} {name}": np.asarray(each) for i, (name, each) in enumerate(arrays.items())
                  if not isinstance(each, list)}  # lists of maps are not compared
        np.savez(command["to"], **arrays)
        return {"outputs": len(arrays)}


def main():
    engine, model, threads, *more = sys.argv[1:]
    answers = sys.stdout
    sys.stdout = sys.stderr
    worker = Worker(engine, str(pathlib.Path(model)), int(threads), *more)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command["do"])(command)
        except Exception as error:  # each engine has errors of its own
            answer = {"error": f"{error}".strip() or type(error).__name__}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
