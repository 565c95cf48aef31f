#!/usr/bin/env python3
"""What `sluice serve` does when clients are killed, disks are full, files of models change while they are read, descriptors
run out and it gets SIGTERM in the middle of a load.

    fault_tests.py TOOL [--sanitized]       memory is not compared where a sanitizer keeps it
"""

import array
import contextlib
import ctypes
import errno
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import raw_grpc
from served_digits import MODEL, ServedDigits, are_near, free_port, rows_of

INPUTS, LOGITS = rows_of("digits_inputs.npy"), rows_of("digits_logits.npy")
IS_SANITIZED = "--sanitized" in sys.argv
TOOL = sys.argv[1] if len(sys.argv) > 1 else ""
TIME_LIMIT = 60  # seconds, for a machine that is busy


def wait_until(what, holds):
    end = time.monotonic() + TIME_LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen in {TIME_LIMIT} seconds")
        time.sleep(0.02)


def request_text(row, path="/v2/models/digits/infer"):
    tensor = {"name": "input", "shape": [1, 64], "datatype": "FP32", "data": list(row)}
    body = json.dumps({"inputs": [tensor]})
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            + body).encode()


class Asker:
    """One connection of HTTP; it checks each answer."""

    def __init__(self, port, timeout=TIME_LIMIT):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def post(self, path, body):
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        return reply.status, reply.read().decode()

    def infer(self, row=0):
        """The status; an answer that is wrong is an error."""
        tensor = {"name": "input", "shape": [1, 64], "datatype": "FP32", "data": list(INPUTS[row])}
        status, text = self.post("/v2/models/digits/infer", json.dumps({"inputs": [tensor]}))
        if status == 200:
            data = array.array("f", json.loads(text)["outputs"][0]["data"])
            if not are_near(data.tobytes(), LOGITS[row]):
                raise AssertionError(f"row {row} has a wrong answer: {text}")
        return status

    def load(self, name="digits"):
        return self.post(f"/v2/repository/models/{name}/load", "{}")

    def close(self):
        self.connection.close()


def load_over_http(server, name):
    with contextlib.closing(Asker(server.port)) as asker:
        return asker.load(name)


def load_over_grpc(server, name):
    with contextlib.closing(raw_grpc.RawGrpc(server.grpc_port, TIME_LIMIT)) as client:
        return client.call("RepositoryModelLoad", raw_grpc.field(2, name))


def metric(server, name):
    """The sum of a metric over its labels."""
    lines = server.get("/metrics")[1].splitlines()
    found = [float(each.split()[-1]) for each in lines if re.match(re.escape(name) + r"[ {]", each)]
    if not found:
        raise AssertionError(f"there is no metric {name}")
    return sum(found)


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def resident_bytes(process):
    return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def killed_client(act):
    """A process that calls `act` and is killed when that has returned. What `act` returns stays open until then."""
    ready, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = act()
            os.write(said, b"y")
            signal.pause()
            del kept
        except BaseException as failure:  # the parent must not run twice
            os.write(2, f"a client: {failure}\n".encode())
        finally:
            os._exit(1)
    os.close(said)
    heard = os.read(ready, 1)
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if heard != b"y":
        raise AssertionError("a client could not do its part")


class KilledClients(unittest.TestCase):
    def setUp(self):
        self.server = ServedDigits(TOOL, "--shared-memory")
        self.regions = []

    def tearDown(self):
        self.server.kill()
        for each in self.regions:
            pathlib.Path(f"/dev/shm/{each}").unlink(missing_ok=True)

    def connected(self, data):
        made = socket.create_connection(("127.0.0.1", self.server.port), timeout=TIME_LIMIT)
        made.sendall(data)
        return made

    def half_a_header(self):
        return self.connected(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: te")

    def half_a_body(self):
        return self.connected(request_text(INPUTS[0])[:-200])

    def a_long_body_without_its_end(self):
        return self.connected(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                              b"Content-Length: 8000000\r\n\r\n" + b" " * 500_000)

    def an_answer_that_nobody_reads(self):
        return self.connected(request_text(INPUTS[0]) * 50)

    def half_a_message(self):
        client = raw_grpc.RawGrpc(self.server.grpc_port)
        stream, begin = client.begin("ModelInfer")
        message = client.message_frames(stream, raw_grpc.infer_message([1, 64], INPUTS[0].tobytes()), True)
        client.send(begin + message[:-100])
        return client

    def an_open_stream(self):
        client = raw_grpc.RawGrpc(self.server.grpc_port)
        stream, begin = client.begin("ModelStreamInfer")
        message = raw_grpc.infer_message([1, 64], INPUTS[0].tobytes())
        client.send(begin + client.message_frames(stream, message, False))
        client.read_message(stream)
        client.send(client.message_frames(stream, message, False) * 20)  # their answers are not read
        return client

    def a_region_of_shared_memory(self):
        """Its owner dies in the middle of a request that uses it."""
        name = f"sluice-killed-{os.getppid()}-{os.getpid()}"
        path = pathlib.Path(f"/dev/shm/{name}")
        path.write_bytes(INPUTS[0].tobytes() * 16)
        asker = Asker(self.server.port)
        status, text = asker.post(f"/v2/systemsharedmemory/region/{name}/register",
                                  json.dumps({"key": f"/{name}", "byte_size": path.stat().st_size}))
        if status != 200:
            raise AssertionError(text)
        client = raw_grpc.RawGrpc(self.server.grpc_port) if self.server.has_grpc else None
        if client:
            message = raw_grpc.infer_message([1, 64], b"", region=(name, 0, 256))
            stream, begin = client.begin("ModelInfer")
            client.send(begin + client.message_frames(stream, message, True))
        return asker, client

    def kinds(self):
        made = [self.half_a_header, self.half_a_body, self.a_long_body_without_its_end, self.an_answer_that_nobody_reads,
                self.a_region_of_shared_memory]
        return made + ([self.half_a_message, self.an_open_stream] if self.server.has_grpc else [])

    def kill_some(self, rounds):
        for _ in range(rounds):
            for each in self.kinds():
                killed_client(each)

    def forget_regions(self):
        """The server keeps what a dead client has registered, until another client forgets it."""
        asker = Asker(self.server.port)
        status, text = asker.post("/v2/systemsharedmemory/unregister", "{}")
        self.assertEqual(status, 200, text)
        asker.close()
        for each in pathlib.Path("/dev/shm").glob(f"sluice-killed-{os.getpid()}-*"):
            self.regions.append(each.name)

    def is_at_rest(self):
        zero = ["sluice_http_request_bytes", "sluice_inference_waiting_requests", "sluice_inference_running_requests"]
        if self.server.has_grpc:
            zero.append("sluice_grpc_unanswered_requests")
        # The connection that asks is one.
        return metric(self.server, "sluice_http_connections") <= 1 and all(metric(self.server, each) == 0 for each in zero)

    def test_the_server_goes_on_and_keeps_nothing_of_them(self):
        stops, wrong = threading.Event(), []

        def ask_all_the_time():
            asker = Asker(self.server.port)
            try:
                for i in range(1_000_000):
                    if stops.is_set():
                        break
                    status = asker.infer(i % len(INPUTS))
                    if status != 200:
                        wrong.append(status)
            except Exception as failure:
                wrong.append(failure)
            asker.close()

        self.kill_some(5)  # what the server allocates once
        self.forget_regions()
        wait_until("rest", self.is_at_rest)
        opened = descriptors(self.server.process)
        before = resident_bytes(self.server.process)
        # Clients are forked, so this program has no thread of its own while they begin.
        asks = os.fork()
        if asks == 0:
            signal.signal(signal.SIGTERM, lambda *_: stops.set())
            ask_all_the_time()
            os._exit(1 if wrong else 0)
        self.kill_some(40)
        os.kill(asks, signal.SIGTERM)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(asks, 0)[1]), 0, "a client that lives got a wrong answer")
        self.forget_regions()
        wait_until("rest", self.is_at_rest)
        wait_until("the close of the clients' connections", lambda: descriptors(self.server.process) <= opened)
        if not IS_SANITIZED:
            self.assertLess(resident_bytes(self.server.process) - before, 8 << 20)
        self.server.end()


class SmallDisk:
    """A disk of 1 MiB where this user may mount one; else any file of the server has at most this length."""

    BYTES = 1 << 20

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-disk-"))
        libc = ctypes.CDLL(None, use_errno=True)
        self.is_mounted = libc.mount(b"none", bytes(self.folder), b"tmpfs", 0, f"size={self.BYTES}".encode()) == 0
        self.libc = libc

    def limit(self):
        """In the server's process, before it begins."""
        if not self.is_mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.BYTES, self.BYTES))

    def fill(self, *files):
        """Nothing more can be written: to the disk, or to these files."""
        if self.is_mounted:
            with open(self.folder / "filler", "ab", buffering=0) as filler, contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(4096))
        for each in files if not self.is_mounted else ():
            with open(each, "ab") as file:
                file.truncate(max(self.BYTES, file.tell()))

    def free(self, *files):
        if self.is_mounted:
            (self.folder / "filler").unlink()
        for each in files if not self.is_mounted else ():
            os.truncate(each, 0)

    def close(self):
        if self.is_mounted and self.libc.umount2(bytes(self.folder), 2) != 0:
            raise OSError(ctypes.get_errno(), "the small disk cannot be unmounted")
        shutil.rmtree(self.folder)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.disk = SmallDisk()
        self.addCleanup(self.disk.close)
        self.log = self.disk.folder / "log"

    def serve(self, *options):
        with open(self.log, "ab") as log:
            server = ServedDigits(TOOL, "--log", "json", "--log-requests", *options, stderr=log, before=self.disk.limit)
        self.addCleanup(server.kill)
        return server

    def messages(self):
        """Those of the log that are whole."""
        found = []
        for line in self.log.read_text(errors="replace").replace("\0", "").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found

    def test_requests_are_answered_while_the_log_cannot_be_written_and_the_log_comes_back(self):
        server = self.serve()
        asker = Asker(server.port)
        self.assertEqual(asker.infer(), 200)
        self.disk.fill(self.log)
        for i in range(200):
            self.assertEqual(asker.infer(i), 200)
        # A thread of the server writes the lines, maybe after the answers.
        wait_until("the loss of lines", lambda: metric(server, "sluice_log_lines_lost_total") > 150)
        self.disk.free(self.log)
        self.assertEqual(asker.infer(), 200)

        def losses():
            return [each["message"] for each in self.messages() if each["event"] == "log_lines_lost"]

        wait_until("a line of the log", lambda: losses() and self.messages()[-1]["event"] == "request")
        lost = losses()
        self.assertEqual(len(lost), 1, self.log.read_text())
        self.assertGreater(int(re.search(r"(\d+) lines", lost[0]).group(1)), 100)
        asker.close()
        server.end()

    def test_spans_that_cannot_be_written_are_counted_and_leave_no_part_of_a_file(self):
        spans = self.disk.folder / "spans.jsonl"
        with tempfile.TemporaryDirectory() as elsewhere:
            self.log = pathlib.Path(elsewhere) / "log"  # only the spans are on the full disk
            server = self.serve("--otlp", str(spans))
            asker = Asker(server.port)
            self.assertEqual(asker.infer(), 200)
            self.disk.fill()
            for i in range(3000):  # some 3 MB of spans
                self.assertEqual(asker.infer(i % 450), 200)
            wait_until("the loss of spans", lambda: metric(server, "sluice_untraced_requests_total") > 0 or asker.infer() != 200)
            asker.close()
            server.end()
            lost = [each for each in self.messages() if each["event"] == "spans_lost"]
            self.assertEqual(len(lost), 1)
            self.assertIn("spans.jsonl", lost[0]["message"])
            self.assertFalse(spans.exists())
            left = {each.name for each in self.disk.folder.iterdir()} - {"filler", "log"}
            self.assertEqual(left, set())

    def test_a_model_that_a_full_disk_has_cut_off_is_refused_and_the_old_one_answers(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            self.log = pathlib.Path(elsewhere) / "log"
            server = ServedDigits(TOOL, repository=self.disk.folder / "repository", stderr=subprocess.DEVNULL,
                                  before=self.disk.limit)
            self.addCleanup(server.kill)
            asker = Asker(server.port)
            self.disk.fill()
            # A load writes nothing, so a full disk does not matter to it.
            self.assertEqual(asker.load(), (200, "{}"))
            # The copy of a new version ends where the disk does.
            fresh = server.repository / "digits/2"
            whole = MODEL.read_bytes()
            self.disk.free()
            fresh.mkdir()
            self.disk.fill()
            if self.disk.is_mounted:
                with open(fresh / "model.safetensors", "wb", buffering=0) as part:
                    os.truncate(self.disk.folder / "filler", (self.disk.folder / "filler").stat().st_size - 8192)
                    with self.assertRaises(OSError) as full:
                        for at in range(0, len(whole), 1024):
                            part.write(whole[at : at + 1024])
                    self.assertEqual(full.exception.errno, errno.ENOSPC)
            else:
                (fresh / "model.safetensors").write_bytes(whole[: len(whole) // 2])
            status, why = asker.load()
            self.assertEqual(status, 400, why)
            self.assertIn("model.safetensors", why)
            self.assertEqual(asker.infer(), 200)
            self.disk.free()
            (fresh / "model.safetensors").write_bytes(whole)
            self.assertEqual(asker.load(), (200, "{}"))
            self.assertEqual(asker.infer(), 200)
            asker.close()
            server.end()


def open_files(process):
    """Their paths."""
    found = []
    with contextlib.suppress(OSError):
        for each in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(each))
    return found


def large_perceptron(path, width):
    """64-width-width-10 of zeros: some 4 * width^2 bytes."""
    layers = [("0", width, 64), ("2", width, width), ("4", 10, width)]
    header, at = {"__metadata__": {"activation": "relu"}}, 0
    for name, rows, columns in layers:
        for part, shape in ("weight", [rows, columns]), ("bias", [rows]):
            size = 4 * rows * (columns if part == "weight" else 1)
            header[f"{name}.{part}"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)  # takes no place on the disk
    return 8 + len(text) + at


class ChangedFiles(unittest.TestCase):
    """The file of a model is cut off, written to and replaced while the server reads it."""

    WIDTH = 4096  # 67 MB: long enough to be changed meanwhile

    def setUp(self):
        self.server = ServedDigits(TOOL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.kill)
        self.file = self.server.repository / "large/model.safetensors"
        self.file.parent.mkdir()
        self.bytes = large_perceptron(self.file, self.WIDTH)
        self.spare = self.file.with_name("spare")

    def cut_off(self):
        os.truncate(self.file, 4096)

    def write_to(self):
        with open(self.file, "r+b") as file:
            file.seek(self.bytes // 2)
            file.write(b"\x3f" * 4096)

    def replace(self):
        large_perceptron(self.spare, self.WIDTH)
        os.replace(self.spare, self.file)

    def test_the_server_survives_and_what_was_loaded_stays(self):
        asker = Asker(self.server.port)
        self.assertEqual(asker.load("large"), (200, "{}"))
        counts = {}
        for change in (self.cut_off, self.write_to, self.replace) * 5:
            answers = []
            loads = threading.Thread(target=lambda: answers.append(load_over_http(self.server, "large")))
            loads.start()
            while not answers and not any(each.startswith(str(self.file)) for each in open_files(self.server.process)):
                pass  # a load that is over has not met the change
            change()
            loads.join()
            self.assertEqual(len(answers), 1, f"the server has no answer after {change.__name__}")
            status, why = answers[0]
            self.assertIn(status, (200, 400), why)
            if status == 400:
                self.assertIn("model.safetensors", why)
                self.assertIsNot(change, self.replace, why)
            counts[change.__name__, status] = counts.get((change.__name__, status), 0) + 1
            self.assertEqual(asker.infer(), 200)
            self.assertEqual(self.server.get("/v2/models/large/ready")[0], 200)
            self.replace()
        self.assertTrue(counts.get(("cut_off", 400)), f"no load has met a file that became shorter: {counts}")
        self.assertTrue(counts.get(("write_to", 400)), f"no load has met a file that was written to: {counts}")
        self.assertEqual(asker.load("large"), (200, "{}"))
        asker.close()
        self.server.end()


class Signals(unittest.TestCase):
    """SIGTERM in the middle of a load."""

    def test_a_server_that_has_not_begun_to_listen_ends_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "large.safetensors"
            large_perceptron(file, 6144)
            process = subprocess.Popen([TOOL, "serve", "--device", "cpu", "--port", str(free_port()), str(file)],
                                       stderr=subprocess.PIPE, text=True)
            wait_until("the begin of the load", lambda: f"{file}" in open_files(process) or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=TIME_LIMIT)[1]
            self.assertEqual(process.returncode, 130, said)
            self.assertIn("interrupted", said)
            self.assertNotIn("listening", said)

    def end_while_loading(self, load):
        """The load is a request that was accepted: it is answered, and then the server ends with 0."""
        server = ServedDigits(TOOL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.kill)
        file = server.repository / "large/model.safetensors"
        file.parent.mkdir()
        large_perceptron(file, 6144)
        answers = []
        loads = threading.Thread(target=lambda: answers.append(load(server, "large")))
        loads.start()
        wait_until("the begin of the load", lambda: str(file) in open_files(server.process) or answers)
        self.assertEqual(answers, [], "the load was over too soon")
        server.process.send_signal(signal.SIGTERM)
        loads.join()
        self.assertEqual(server.process.wait(timeout=TIME_LIMIT), 0)
        return answers[0]

    def test_a_load_over_http_is_answered(self):
        self.assertEqual(self.end_while_loading(load_over_http), (200, "{}"))

    def test_a_load_over_grpc_is_answered(self):
        probe = ServedDigits(TOOL, stderr=subprocess.DEVNULL)
        probe.end()
        if not probe.has_grpc:
            self.skipTest("this tool was built without gRPC")
        self.assertEqual(self.end_while_loading(load_over_grpc)[:2], (raw_grpc.OK, ""))

    def test_a_load_over_grpc_is_answered_though_its_client_takes_the_answer_late(self):
        server = ServedDigits(TOOL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.kill)
        if not server.has_grpc:
            self.skipTest("this tool was built without gRPC")
        client = raw_grpc.RawGrpc(server.grpc_port, TIME_LIMIT, window=0)
        stream, begin = client.begin("RepositoryModelLoad")
        client.send(begin + client.message_frames(stream, raw_grpc.field(2, "digits"), True))
        self.assertEqual(client.read_frame()[0], raw_grpc.HEADERS)  # the load is over; its answer waits for the client
        server.process.send_signal(signal.SIGTERM)
        wait_until("the end of HTTP", lambda: server.get("/v2/health/live")[0] is None)
        time.sleep(0.5)  # long enough to end, if it did not wait
        client.take_more(stream)
        self.assertEqual(client.answer_of(stream), (raw_grpc.OK, "", b""))
        self.assertEqual(server.process.wait(timeout=TIME_LIMIT), 0)
        client.close()


class NoDescriptors(unittest.TestCase):
    """The server may have few descriptors, and clients open more connections."""

    LIMIT = 96

    def setUp(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.LIMIT, self.LIMIT))
        self.server = ServedDigits(TOOL, stderr=subprocess.DEVNULL, before=limit)
        self.addCleanup(self.server.kill)

    def cpu_seconds(self):
        words = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def connections(self, port, count):
        """The system completes them, whether the server accepts them or not."""
        return [socket.create_connection(("127.0.0.1", port), timeout=TIME_LIMIT) for _ in range(count)]

    def wait_until_there_are_none(self):
        wait_until("the last descriptor", lambda: descriptors(self.server.process) >= self.LIMIT - 1)

    def test_http_connections_that_are_open_go_on_and_others_wait(self):
        askers = [Asker(self.server.port) for _ in range(5)]
        for each in askers:
            self.assertEqual(each.infer(), 200)
        idle = self.connections(self.server.port, 2 * self.LIMIT)
        self.wait_until_there_are_none()
        for i in range(100):
            self.assertEqual(askers[i % 5].infer(i), 200)
        before = self.cpu_seconds()
        time.sleep(1)
        self.assertLess(self.cpu_seconds() - before, 0.5, "the server tries to accept all the time")
        # A load needs a descriptor: it is refused, and what is there stays. The sanitizer's check of an exception's type
        # opens a pipe, and reports an error where it cannot.
        if not IS_SANITIZED:
            status, why = askers[0].load()
            self.assertIn(status, (400, 500), why)
            self.assertIn("Too many open files", why)
            self.assertEqual(askers[1].infer(), 200)
        waits = Asker(self.server.port)
        waits.connection.connect()
        for each in idle:
            each.close()
        self.assertEqual(waits.infer(), 200)
        self.assertEqual(askers[0].load(), (200, "{}"))
        for each in [*askers, waits]:
            each.close()
        wait_until("the close of connections", lambda: metric(self.server, "sluice_http_connections") <= 1)
        self.server.end()

    def test_grpc_connections_that_are_open_go_on_and_others_wait(self):
        if not self.server.has_grpc:
            self.skipTest("this tool was built without gRPC")
        clients = [raw_grpc.RawGrpc(self.server.grpc_port) for _ in range(5)]
        ask = lambda client, row: client.infer([1, 64], INPUTS[row].tobytes())
        for each in clients:
            self.assertEqual(ask(each, 0)[0], raw_grpc.OK)
        idle = self.connections(self.server.grpc_port, 2 * self.LIMIT)
        self.wait_until_there_are_none()
        for i in range(100):
            status, why, logits = ask(clients[i % 5], i)
            self.assertEqual(status, raw_grpc.OK, why)
            self.assertTrue(are_near(logits, LOGITS[i]))
        for each in idle:
            each.close()
        fresh = raw_grpc.RawGrpc(self.server.grpc_port, TIME_LIMIT)
        self.assertEqual(ask(fresh, 3)[0], raw_grpc.OK)
        for each in [*clients, fresh]:
            each.close()
        self.server.end()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[each for each in sys.argv[2:] if each != "--sanitized"]])
