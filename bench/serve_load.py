#!/usr/bin/env python3
"""Measures `sluice serve` over HTTP and gRPC on this machine, with h2load (nghttp2-client) as the client of both.

    bench/serve_load.py TOOL [SECONDS]

Prints JSON lines: requests a second of 64 connections, and the median time of a request of one connection; then the same
of a server with --spin-us 100, whose threads look for the next request that long before they sleep. Each request has one
row for the network in models/digits.safetensors, as raw bytes; each connection has one request at a time. Client and
server share the machine's processors. `others` is the share of the processors' time that other processes took
meanwhile: above 0.05 the figure says little.
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = struct.pack("<64f", *[0.5] * 64)


def http_request():
    """The body, and the fields of the header."""
    parts = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 64],
                         "parameters": {"binary_data_size": len(ROW)}}],
             "parameters": {"binary_data_output": True}}
    text = json.dumps(parts).encode()
    return text + ROW, ["content-type: application/octet-stream", f"inference-header-content-length: {len(text)}"]


def grpc_request():
    escaped = "".join(f"\\{each:03o}" for each in ROW)
    text = ('model_name: "digits" inputs { name: "input" datatype: "FP32" shape: 1 shape: 64 } '
            f'raw_input_contents: "{escaped}"')
    folder = ROOT / "src/serve/grpc"
    message = subprocess.run(["protoc", f"--proto_path={folder}", "--encode=inference.ModelInferRequest",
                              folder / "inference.proto"], input=text.encode(), capture_output=True, check=True).stdout
    return struct.pack(">BI", 0, len(message)) + message, ["content-type: application/grpc", "te: trailers"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def machine():
    name = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{name.group(1) if name else 'unknown'}, {os.cpu_count()} cores"


def facts():
    """Where and when a figure was taken."""
    return {"machine": machine(), "date": datetime.date.today().isoformat(),
            "commit": os.environ.get("SLUICE_COMMIT", "unknown")}


class Server:
    """`sluice serve`. `options`: more of them, and the models."""

    def __init__(self, tool, options=(ROOT / "models/digits.safetensors",)):
        self.http, self.grpc = free_port(), free_port()
        self.process = subprocess.Popen([tool, "serve", "--device", "cpu", "--port", str(self.http), "--grpc-port",
                                         str(self.grpc), *options], stderr=subprocess.DEVNULL)
        for _ in range(3000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.http}/v2/health/ready")
                return
            except OSError:
                time.sleep(0.01)
        raise SystemExit("serve_load: the server does not become ready")

    def answered(self):
        """Requests that the model has answered."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics").read().decode()
        return int(re.search(r'requests_total\{.*result="success"\} (\d+)', page).group(1))

    def memory(self):
        """Bytes that are resident."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s*(\d+) kB", status).group(1)) << 10

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def busy_seconds():
    """Of all processors: in programs and in the system."""
    user, nice, system, _, _, irq, soft = map(int, pathlib.Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def cpu_of_children():
    its = os.times()
    return its.children_user + its.children_system


class Clocks:
    """How busy the processors are from now on. `cpu_seconds()`: of the server."""

    def __init__(self, cpu_seconds):
        self.cpu_seconds = cpu_seconds
        self.began, self.busy, self.own = time.monotonic(), busy_seconds(), cpu_seconds() + cpu_of_children()

    def others(self):
        """The share of the processors' time that other processes took than the server and our children."""
        own = self.cpu_seconds() + cpu_of_children() - self.own
        return round(max(0, busy_seconds() - self.busy - own) / ((time.monotonic() - self.began) * os.cpu_count()), 3)


def ask(url, fields, body, connections, seconds, cpu_seconds, per_client=None, http1=True, begins=None):
    """Sends `body` over and over with h2load, for `seconds`. Gives its output, and for each answer the status and the
    microseconds; and the share of other processes. `cpu_seconds()`: of the server. `per_client`: requests a second of
    each connection, which then begin one after the other: h2load starts the clocks of all at once otherwise, and sends
    bursts of `connections`; None: as fast as answers come. `begins`, a list, gets for each of the answers the microsecond
    in which its request began."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "body").write_bytes(body)
        words = ["h2load", "--h1"] if http1 else ["h2load"]
        for each in fields:
            words += ["-H", each]
        if per_client:
            each_ms = max(1, round(per_client * connections / 1000))  # connections that begin in each millisecond
            words += [f"--rps={per_client}", f"--rate={each_ms}", "--rate-period=1ms", "-n",
                      str(per_client * connections * seconds)]
        else:
            words += ["-D", str(seconds), "--warm-up-time=1"]
        clocks = Clocks(cpu_seconds)
        out = subprocess.run(words + ["-c", str(connections), "-t", "1", "-m", "1", "-d", folder / "body",
                                      f"--log-file={folder / 'log'}", url],
                             capture_output=True, text=True, check=True).stdout
        others = clocks.others()
        lines = (folder / "log").read_text().splitlines()
    rows = [tuple(map(int, line.split("\t")[:3])) for line in lines]
    answers = [(status, time) for _, status, time in rows]
    if begins is not None:
        begins.extend(begin for begin, status, _ in rows if status >= 100)
    # Of each connection, one request may be cut off when the time is over; it has no status.
    whole = [each for each in answers if each[0] >= 100]
    if len(answers) - len(whole) > connections:
        raise SystemExit(f"serve_load: {len(answers) - len(whole)} requests have no answer\n{out}")
    return out, whole, others


def rate_of(out):
    return float(re.search(r"finished in .*?, ([\d.]+) req/s", out).group(1))


def spin_options(params):
    return ["--spin-us", str(params["spin_us"])] if "spin_us" in params else []


def load(server, protocol, connections, seconds):
    """Requests a second, the median in microseconds, and the share of other processes."""
    body, fields = http_request() if protocol == "http" else grpc_request()
    url = (f"http://127.0.0.1:{server.http}/v2/models/digits/infer" if protocol == "http" else
           f"http://127.0.0.1:{server.grpc}/inference.GRPCInferenceService/ModelInfer")
    before = server.answered()
    out, answers, others = ask(url, fields, body, connections, seconds, server.cpu_seconds, http1=protocol == "http")
    wrong = [status for status, _ in answers if status != 200]
    time.sleep(0.2)  # a batch is counted after its answers were sent
    # The status of gRPC is not in h2load's output: the server's counter says how many were computed.
    if wrong or not answers or server.answered() - before < len(answers):
        raise SystemExit(f"serve_load: {protocol}: {len(answers)} answers, {len(wrong)} of them wrong\n{out}")
    return rate_of(out), statistics.median(time for _, time in answers), others


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    for program, package in ("h2load", "nghttp2-client"), ("protoc", "protobuf-compiler"):
        if shutil.which(program) is None:
            raise SystemExit(f"serve_load: there is no {program}; install {package}")
    seconds = int(sys.argv[2]) if len(sys.argv) == 3 else 5
    common = facts()
    for spin in {}, {"spin_us": 100}:
        server = Server(sys.argv[1], [*spin_options(spin), ROOT / "models/digits.safetensors"])
        try:
            for protocol in "http", "grpc":
                for connections in 64, 1:
                    rate, median, others = load(server, protocol, connections, seconds)
                    value = {"value": round(rate), "unit": "1/s"} if connections > 1 else {"value": median, "unit": "us"}
                    figure = "serve_throughput" if connections > 1 else "serve_median"
                    print(json.dumps({"figure": figure,
                                      "params": {"protocol": protocol, "connections": connections, **spin},
                                      **value, "others": others, **common}), flush=True)
        finally:
            server.end()


if __name__ == "__main__":
    main()
