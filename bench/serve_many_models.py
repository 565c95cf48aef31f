#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of many small models next to one of a single model: memory, threads, the time to load, and the latency.

    serve_many_models.py TOOL [--models 10000] [--requests 20000] [--rounds 3] > results.jsonl

The server is on the first processor, the client on the second. Memory is read when the server has been quiet. A request
asks one model (`one`), or 200 models in turn (`200 in turn`). A third server loads on demand and has room for a tenth of
the models: there a request asks a model that is not loaded and puts out another one (`cold`), or one of 200 that are. The
rounds of the servers alternate; the medians count.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODEL = REPOSITORY / "models" / "digits.safetensors"
PORT = 8391
QUIET_S = 2


def request_of(name):
    body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}]})
    return (f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def answer(client):
    got = b""
    while True:
        part = client.recv(65536)
        if not part:
            raise RuntimeError("the server has closed the connection")
        got += part
        head = got.find(b"\r\n\r\n")
        if head < 0:
            continue
        begin = got.find(b"Content-Length: ") + len(b"Content-Length: ")
        if len(got) >= head + 4 + int(got[begin:got.find(b"\r\n", begin)]):
            return got


def latencies_us(names, requests):
    with socket.create_connection(("127.0.0.1", PORT)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        all_requests = [request_of(each) for each in names]
        times = []
        for i in range(requests):
            begin = time.perf_counter_ns()
            client.sendall(all_requests[i % len(all_requests)])
            if not answer(client).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a request was refused")
            times.append((time.perf_counter_ns() - begin) / 1e3)
    return percentiles(times)


def percentiles(times):
    """Without the first tenth."""
    times = sorted(times[len(times) // 10:])
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}


def is_ready():
    try:
        with socket.create_connection(("127.0.0.1", PORT)) as client:
            client.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return answer(client).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


class Server:
    def __init__(self, tool, folder, *options):
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [tool, "serve", "--repository", str(folder), "--device", "cpu", "--port", str(PORT), "--trim-after",
             str(QUIET_S), *options], stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
        while not is_ready():
            if self.process.poll() is not None:
                raise RuntimeError("the server has ended")
            time.sleep(0.05)
        self.load_s = time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def status(self):
        time.sleep(2 * QUIET_S + 1)
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        of = {words[0].rstrip(":"): words[1] for words in map(str.split, lines) if len(words) > 1}
        return {"own_kib": int(of["RssAnon"]), "threads": int(of["Threads"]), "load_s": self.load_s}


def make_repository(folder, models):
    for i in range(models):
        (folder / f"m{i}").mkdir(parents=True)
        shutil.copy(MODEL, folder / f"m{i}" / "model.safetensors")
    return folder


def ask_on_demand(asked, folder, rows):
    each = MODEL.stat().st_size + (64 << 10)
    room = asked.models // 10
    with Server(asked.tool, folder, "--on-demand", "--model-bytes", str(room * each)) as server:
        latencies_us([f"m{i}" for i in range(room)], room)
        cold = [f"m{i}" for i in range(room, asked.models)]
        rows.setdefault((asked.models, "cold"), []).append(latencies_us(cold, len(cold)))
        warm = [f"m{i}" for i in range(200)]
        latencies_us(warm, 200)
        rows.setdefault((asked.models, "200 of those on demand"), []).append(latencies_us(warm, asked.requests))
        rows.setdefault((asked.models, "status on demand"), []).append(server.status())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("tool")
    options.add_argument("--models", type=int, default=10000)
    options.add_argument("--requests", type=int, default=20000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--machine", default="2 cores")
    asked = options.parse_args()
    os.sched_setaffinity(0, {1})
    commit = subprocess.run(["git", "-C", str(REPOSITORY), "rev-parse", "--short=8", "HEAD"], capture_output=True,
                            text=True, check=True).stdout.strip()
    rows = {}
    with tempfile.TemporaryDirectory() as root:
        folders = {count: make_repository(pathlib.Path(root) / str(count), count) for count in (1, asked.models)}
        for _ in range(asked.rounds):
            for count, folder in folders.items():
                with Server(asked.tool, folder) as server:
                    rows.setdefault((count, "status"), []).append(server.status())
                    rows.setdefault((count, "one"), []).append(latencies_us(["m0"], asked.requests))
                    if count > 200:
                        names = [f"m{i}" for i in range(200)]
                        rows.setdefault((count, "200 in turn"), []).append(latencies_us(names, asked.requests))
            ask_on_demand(asked, folders[asked.models], rows)

    def median(count, what, key):
        return statistics.median(each[key] for each in rows[count, what])

    def write(figure, value, unit, **more):
        row = {"figure": figure, "params": {"network": MODEL.name, "models": asked.models}, "value": round(value, 3),
               "unit": unit, **more, "machine": asked.machine, "date": datetime.date.today().isoformat(),
               "commit": commit}
        print(json.dumps(row))

    one_kib = median(1, "status", "own_kib")
    each_kib = (median(asked.models, "status", "own_kib") - one_kib) / (asked.models - 1)
    write("serve_models_memory", each_kib, "KiB a model", weights_kib=round(MODEL.stat().st_size / 1024, 1))
    write("serve_models_threads", median(asked.models, "status", "threads"), "threads",
          baseline=median(1, "status", "threads"))
    write("serve_models_load", median(asked.models, "status", "load_s") / asked.models * 1e3, "ms a model")
    write("serve_models_memory_on_demand", median(asked.models, "status on demand", "own_kib"), "KiB of the server",
          room=asked.models // 10, baseline=one_kib)
    for what in ("one", "200 in turn", "200 of those on demand", "cold"):
        for key in ("p50", "p99"):
            baseline = median(1, "one", key)
            value = median(asked.models, what, key)
            write(f"serve_models_{key}", value, "us", asks=what, baseline=round(baseline, 3),
                  ratio=round(value / baseline, 3))


if __name__ == "__main__":
    main()
