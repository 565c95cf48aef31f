"""`sluice serve` with the digits in a repository, on ports that were free, for tests in Python."""

import array
import ast
import http.client
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits.safetensors"
READY_SECONDS = 60  # for a machine that is busy


def rows_of(name):
    """The rows of one of data's arrays of f32, as arrays; for tests that have no numpy."""
    data = (ROOT / "data" / name).read_bytes()
    length = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10 : 10 + length].decode())
    if data[:8] != b"\x93NUMPY\1\0" or header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"{name} is no array of f32 in C's order")
    rows, columns = header["shape"]
    values = array.array("f", data[10 + length :])
    return [values[i * columns : (i + 1) * columns] for i in range(rows)]


def are_near(answer, expected):
    """Whether the bytes of an answer are these numbers, but for their last bits."""
    got = array.array("f", answer)
    return len(got) == len(expected) and all(abs(a - b) <= 1e-4 * max(1, abs(b)) for a, b in zip(got, expected))


def is_built_with(tool, what):
    """Whether `sluice serve --version` says yes to it. That it says neither yes nor no is an error."""
    said = re.search(rf"^{what} +(yes|no)", subprocess.check_output([tool, "serve", "--version"], text=True), re.MULTILINE)
    if said is None:
        raise RuntimeError(f"the tool does not say whether it was built with {what}")
    return said.group(1) == "yes"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServedDigits:
    """The process. It is ready when this is constructed; end() drains it and requires the status 0."""

    def __init__(self, tool, *options, stderr=None, repository=None, before=None, environment=None):
        """`repository`: a folder to make; `before`: called in the server's process before it begins; `environment`: the
        server's, where it is not this process's."""
        self.folder = tempfile.TemporaryDirectory()
        self.repository = repository or pathlib.Path(self.folder.name) / "repository"
        model = self.repository / "digits/1"
        model.mkdir(parents=True)
        (model / "model.safetensors").write_bytes(MODEL.read_bytes())
        self.has_grpc = is_built_with(tool, "gRPC")
        self.port, self.grpc_port = free_port(), free_port()
        grpc = ["--grpc-port", str(self.grpc_port)] if self.has_grpc else []
        self.process = subprocess.Popen(
            [tool, "serve", "--repository", str(self.repository), "--device", "cpu", "--port", str(self.port), *grpc, *options],
            stderr=stderr,
            preexec_fn=before,
            env=environment,
        )
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def grpc_address(self):
        return f"127.0.0.1:{self.grpc_port}"

    def get(self, path, timeout=10):
        """The status and the body; no status when there is no answer within the seconds of `timeout`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except OSError:
            return None, ""
        finally:
            connection.close()

    def wait_until_ready(self):
        end = time.monotonic() + READY_SECONDS
        while self.get("/v2/health/ready")[0] != 200:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with the status {self.process.returncode}")
            if time.monotonic() > end:
                raise RuntimeError(f"the server is not ready after {READY_SECONDS} seconds")
            time.sleep(0.02)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=READY_SECONDS)
        self.folder.cleanup()
        if status != 0:
            raise RuntimeError(f"the server ended with the status {status}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.folder.cleanup()
