#!/usr/bin/env python3
"""Measures `sluice serve`, a bare handler and servers that are written in Python on this machine, in turns.

    bench/serve_peers.py TOOL FOLDER [--bare PROGRAM] [--seconds N] [--rounds N] [--short] > bench/results/NAME.jsonl

MLServer, LitServe, and FastAPI with ONNX Runtime come from PyPI into a virtual environment in FOLDER, which stays.
PROGRAM is bench_bare_handler: Beast, the same engine, and nothing else. Each server answers one row of the digits a
request: 64 connections, and one. A round measures each server once, alone on the machine; the figures are the medians of
the rounds, and each figure has the values of all. h2load (nghttp2-client) is the client of all of them, on the same
processors. The answers of one request are compared before a server is measured. Prints JSON lines; the last ones are how
many times the requests a second of each other server ours has, and the bare handler's.

With the default of 3 rounds and 5 seconds: about 5 minutes. --short: one round of one second, about 1 minute.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import time
import urllib.request
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serve_load  # noqa: E402

ROOT = serve_load.ROOT
MODEL = ROOT / "models/digits.onnx"
PACKAGES = ["mlserver==1.7.1", "litserve==0.2.19", "fastapi", "uvicorn", "onnxruntime", "numpy"]
VALUES = [0.5] * 64


class Process:
    """A server that was started as a program. `ready`: a path that answers 200."""

    def __init__(self, words, port, ready, folder=None):
        self.port = port
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(self.process.stderr.read().decode()[-2000:])
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}").close()
                return
            except OSError:
                time.sleep(0.05)
        self.end()
        raise RuntimeError("it does not become ready")

    def cpu_seconds(self):
        """Of all processes of its session."""
        total = 0
        for each in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = each.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.process.stderr.close()


def oip_json():
    return json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 64], "data": VALUES}]}).encode()


def outputs_of(reply, json_bytes):
    """The ten numbers of an answer, whatever server has given it."""
    if json_bytes is not None:
        return struct.unpack("<10f", reply[json_bytes:])
    content = json.loads(reply)
    return content["data"] if "data" in content else content["outputs"][0]["data"]


class Sides:
    def __init__(self, tool, bare, folder):
        self.tool, self.bare, self.folder = tool, bare, folder
        self.python = folder / "environment/bin/python"
        self.path = "/v2/models/digits/infer"

    def ours(self, port, *options):
        return Process([self.tool, "serve", "--device", "cpu", "--port", str(port), *options, MODEL], port,
                       "/v2/health/ready")

    def ours_awake(self, port):
        return self.ours(port, "--spin-us", "100")

    def handler(self, port):
        return Process([self.bare, str(port), MODEL], port, "/v2/health/ready")

    def mlserver(self, port):
        settings = self.folder / "mlserver"
        settings.mkdir(exist_ok=True)
        shutil.copy(ROOT / "bench/peers/mlserver_peer.py", settings)
        (settings / "settings.json").write_text(json.dumps({
            "host": "127.0.0.1", "http_port": port, "grpc_port": serve_load.free_port(),
            "metrics_port": serve_load.free_port(), "parallel_workers": 0, "debug": False}))
        (settings / "model-settings.json").write_text(json.dumps({
            "name": "digits", "implementation": "mlserver_peer.Network", "parameters": {"uri": str(MODEL)}}))
        return Process([self.python.parent / "mlserver", "start", "."], port, "/v2/models/digits/ready", settings)

    def litserve(self, port):
        return Process([self.python, ROOT / "bench/peers/litserve_peer.py", MODEL, str(port)], port, "/health")

    def fastapi(self, port):
        return Process([self.python, ROOT / "bench/peers/fastapi_peer.py", MODEL, str(port)], port, "/health")

    def all(self):
        """By name: how it is started, the path, the body, the fields."""
        binary, fields = serve_load.http_request()
        text = ["content-type: application/json"]
        row = json.dumps({"data": VALUES}).encode()
        sides = {"sluice, binary": (self.ours, self.path, binary, fields),
                 "sluice, binary, --spin-us 100": (self.ours_awake, self.path, binary, fields),
                 "sluice, JSON": (self.ours, self.path, oip_json(), text)}
        if self.bare:
            sides["bare handler, binary"] = (self.handler, self.path, binary, fields)
        sides["MLServer"] = (self.mlserver, self.path, oip_json(), text)
        sides["LitServe"] = (self.litserve, "/predict", row, text)
        sides["FastAPI"] = (self.fastapi, "/predict", row, text)
        return sides


def install(folder):
    mark = folder / ("installed-" + "-".join(PACKAGES).replace("=", ""))
    if mark.exists():
        return
    venv.create(folder / "environment", with_pip=True, clear=True)
    subprocess.run([folder / "environment/bin/python", "-m", "pip", "install", "--quiet",
                    "--disable-pip-version-check", *PACKAGES], check=True)
    mark.touch()


def versions(folder):
    names = ("mlserver", "litserve", "fastapi", "uvicorn", "onnxruntime")
    script = f"import importlib.metadata as m; print(*[m.version(n) for n in {names}])"
    out = subprocess.run([folder / "environment/bin/python", "-c", script], capture_output=True, text=True, check=True)
    return dict(zip(names, out.stdout.split()))


def one_answer(url, body, fields):
    request = urllib.request.Request(url, body, dict(each.split(": ") for each in fields))
    with urllib.request.urlopen(request) as reply:
        length = reply.headers.get("Inference-Header-Content-Length")
        return outputs_of(reply.read(), None if length is None else int(length))


def measure(name, side, seconds, expected):
    start, path, body, fields = side
    port = serve_load.free_port()
    server = start(port)
    try:
        url = f"http://127.0.0.1:{port}{path}"
        outputs = one_answer(url, body, fields)
        if expected and max(abs(a - b) for a, b in zip(outputs, expected, strict=True)) > 1e-3:
            raise SystemExit(f"serve_peers: {name} gives {outputs}, and not {expected}")
        found = {}
        for connections in 64, 1:
            out, answers, others = serve_load.ask(url, fields, body, connections, seconds, server.cpu_seconds)
            if not answers or any(status != 200 for status, _ in answers):
                raise SystemExit(f"serve_peers: {name}: {len(answers)} answers, not all with the status 200\n{out}")
            median = statistics.median(time for _, time in answers)
            found[connections] = (serve_load.rate_of(out) if connections > 1 else median, others)
        return outputs, found
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bare")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if shutil.which("h2load") is None:
        raise SystemExit("serve_peers: there is no h2load; install nghttp2-client")
    if options.short:
        options.seconds, options.rounds = 1, 1
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    install(folder)
    bare = options.bare and str(pathlib.Path(options.bare).resolve())
    sides = Sides(str(pathlib.Path(options.tool).resolve()), bare, folder).all()
    values = {}  # by name and connections, of all rounds
    expected, absent = None, set()
    for turn in range(options.rounds):
        names = list(sides)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            if name in absent:
                continue
            try:
                outputs, found = measure(name, sides[name], options.seconds, expected)
            except RuntimeError as failure:  # it has not started
                if name.startswith("sluice"):
                    raise
                print(f"serve_peers: {name} is not measured: {failure}", file=sys.stderr)
                absent.add(name)
                continue
            expected = expected or outputs
            for connections, its in found.items():
                values.setdefault((name, connections), []).append(its)
    facts = {**serve_load.facts(), "versions": versions(folder)}
    rates = {}
    for (name, connections), its in values.items():
        value = statistics.median(each for each, _ in its)
        many = connections > 1
        if many:
            rates[name] = value
        params = {"server": name, "connections": connections, "seconds": options.seconds}
        print(json.dumps({"figure": "serve_peer_throughput" if many else "serve_peer_median", "params": params,
                          "value": round(value), "unit": "1/s" if many else "us",
                          "rounds": [round(each) for each, _ in its], "others": max(each for _, each in its), **facts}),
              flush=True)
    for name, rate in rates.items():
        if name.startswith("sluice"):
            continue
        ours = rates["sluice, binary" if "binary" in name else "sluice, JSON"]
        print(json.dumps({"figure": "serve_peer_ratio", "params": {"server": name, "connections": 64},
                          "value": round(ours / rate, 2), "unit": "", **facts}), flush=True)
    if absent:
        raise SystemExit(f"serve_peers: not measured: {', '.join(sorted(absent))}")


if __name__ == "__main__":
    main()
