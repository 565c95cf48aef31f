"""Runs the sluice tool under circumstances that others cause, and checks the outcome. Standard library only."""

import array
import contextlib
import json
import math
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import time

TIMEOUT = 120
REMOVABLE = ".tmp"  # the end of a temporary file's name
LIMITS = {"file bytes": resource.RLIMIT_FSIZE, "memory": resource.RLIMIT_AS, "files": resource.RLIMIT_NOFILE}


# ---- files


def safetensors(tensors, metadata=None):
    """The bytes of a file of f32 tensors: {name: (shape, values)}, in this order."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class network:
    """An MLP with weights and biases that are small multiples of 1/8."""

    def __init__(self, random, widths, hidden="relu", output="none"):
        self.widths, self.hidden, self.output = widths, hidden, output
        self.layers = []
        for inputs, outputs in zip(widths, widths[1:]):
            weight = [random.randint(-8, 8) / 8 for _ in range(inputs * outputs)]
            self.layers.append((weight, [random.randint(-8, 8) / 8 for _ in range(outputs)]))

    def tensors(self, numbers=None, prefix=""):
        numbers = numbers or [2 * i for i in range(len(self.layers))]
        made = {}
        for number, (weight, bias), inputs in zip(numbers, self.layers, self.widths):
            made[f"{prefix}{number}.weight"] = ([len(bias), inputs], weight)
            made[f"{prefix}{number}.bias"] = ([len(bias)], bias)
        return made

    def metadata(self):
        return {"activation": self.hidden, "output_activation": self.output}

    def answer(self, row):
        for i, (weight, bias) in enumerate(self.layers):
            inputs = len(row)
            row = [b + math.fsum(x * w for x, w in zip(row, weight[k * inputs :])) for k, b in enumerate(bias)]
            row = activated(self.output if i + 1 == len(self.layers) else self.hidden, row)
        return row


def activated(name, row):
    each = {
        "none": lambda x: x,
        "relu": lambda x: max(x, 0.0),
        "tanh": math.tanh,
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    }
    return [each[name](x) for x in row]


def npy_header(rows, columns):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def npy(rows):
    return npy_header(len(rows), len(rows[0])) + b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)


def write_zeros(path, rows, columns):
    """An array that takes no room on the disk."""
    head = npy_header(rows, columns)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + rows * columns * 4)


def read_npy(path):
    """(rows, columns, values); None for what is no whole array."""
    contents = pathlib.Path(os.fsdecode(path)).read_bytes()
    shape = re.search(rb"'shape': \((\d+), (\d+)\)", contents[:256])
    if not contents.startswith(b"\x93NUMPY") or not shape:
        return None
    rows, columns = int(shape[1]), int(shape[2])
    data = contents[10 + struct.unpack("<H", contents[8:10])[0] :]
    if len(data) != rows * columns * 4:
        return None
    return rows, columns, array.array("f", data)


def holds_answers(path, rows, network):
    """Whether the file holds the network's answers to these rows; `rows` may be a number of rows of zeros."""
    found = read_npy(path)
    count = rows if isinstance(rows, int) else len(rows)
    width = network.widths[-1]
    if found is None or found[:2] != (count, width):
        return False
    close = lambda got, wanted: all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(got, wanted))
    if isinstance(rows, int):
        wanted = network.answer([0.0] * network.widths[0])
        data = found[2].tobytes()
        different = {data[i : i + 4 * width] for i in range(0, len(data), 4 * width)}
        return all(close(struct.unpack(f"<{width}f", each), wanted) for each in different)
    return all(close(found[2][i * width : (i + 1) * width], network.answer(row)) for i, row in enumerate(rows))


# ---- runs


class outcome:
    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    def __str__(self):
        return f"{self.arguments}\nexit code {self.code}\nstdout: {self.out!r}\nstderr: {self.err!r}"


class running:
    """The tool as a process of its own, which started with all signals as they are by default."""

    def __init__(self, tool, arguments, closed=(), limits=None, cwd=None, ignored=(), err=None):
        def prepare():
            for each in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)
            for name, limit in (limits or {}).items():
                resource.setrlimit(LIMITS[name], (limit, limit))
            for descriptor in closed:
                os.close(descriptor)

        self.arguments = arguments
        # For a tool that was built with OpenBLAS: that library starts a thread for each core before main, and where a limit
        # of memory does not permit it, main is never reached. Sluice uses none of these threads.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        # Pipes, to which no limit of files applies. What is read late is little.
        self.process = subprocess.Popen(
            [tool, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err or subprocess.PIPE, cwd=cwd,
            env=environment, preexec_fn=prepare, start_new_session=True)

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def has_ended(self):
        return self.process.poll() is not None

    def wait(self, timeout=TIMEOUT):
        try:
            texts = self.process.communicate(timeout=timeout)
            code = self.process.returncode
        except subprocess.TimeoutExpired:
            self.process.kill()
            texts = self.process.communicate()
            code = "hangs"
        return outcome(self.arguments, code, texts[0], texts[1] or b"")


def run(tool, arguments, **circumstances):
    return running(tool, arguments, **circumstances).wait()


def temporary_files(*folders):
    return [path for folder in folders for path in pathlib.Path(folder).rglob(".*") if path.name.endswith(REMOVABLE)]


def wait_for_temporary(process, folder, least_bytes=0):
    """Until the run writes its output. False when it has ended before."""
    while not process.has_ended():
        for path in temporary_files(folder):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_blocks * 512 >= least_bytes:
                    return True
        time.sleep(0.0005)
    return False


# ---- what must hold


def unfit_for_a_terminal(text):
    """What in this output a terminal would act on, but for the ends of lines; empty when all is well."""
    try:
        characters = text.decode()
    except UnicodeDecodeError as error:
        return str(error)
    bad = {c for c in characters if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029\u202e"}
    return repr(bad) if bad else ""


def error_lines(came):
    """The lines on standard error that are no progress."""
    return [line for line in came.err.split(b"\n") if line and not re.fullmatch(rb"\d+ of \d+ rows, \S+ rows/s", line)]


def says_what_is_wrong(line, came):
    if "--json" not in came.arguments:
        return line.startswith(b"sluice: ") and len(line) >= 15
    try:
        error = json.loads(line)["error"]
    except (ValueError, KeyError):
        return False
    return error["status"] == came.code and len(error["message"]) >= 7


def wrong_words(came):
    """What is wrong with what the tool printed; empty when nothing is wrong."""
    for name, text in (("standard output", came.out), ("standard error", came.err)):
        unfit = unfit_for_a_terminal(text)
        if unfit:
            return f"{name} has {unfit}"
    lines = error_lines(came)
    if came.code == 0 and lines:
        return "errors, and exit code 0"
    if isinstance(came.code, int) and came.code > 0:
        if len(lines) != 1 or not says_what_is_wrong(lines[0], came):
            return "not one line that says what is wrong"
        if re.search(rb"std::|filesystem error|basic_string|vector::", lines[0]):
            return "a line that only a programmer understands"
    return ""
