#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step of a sequence takes over HTTP, with its state in memory and in a folder (`--states`), there also where two
servers make the steps in turn.

    serve_states.py TOOL [--steps 4000] [--rounds 5] [--folder DIR] > results.jsonl

The servers are on the first processor, the client on the second. The rounds alternate; the medians of the rounds' medians
count.
"""
import argparse
import datetime
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from serve_many_models import answer, percentiles

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODEL = REPOSITORY / "tests/c/networks/memory.onnx"
PORTS = (8393, 8394)


def step_of(name, number):
    parameters = {"sequence_id": name, "sequence_start": number == 0, "sequence_step": number}
    body = json.dumps({"parameters": parameters, "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]},
        {"name": "place", "datatype": "INT64", "shape": [1], "data": [0]}]})
    return (f"POST /v2/models/memory/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


class Server:
    def __init__(self, tool, port, *options):
        self.port = port
        self.process = subprocess.Popen(
            [tool, "serve", "--device", "cpu", "--port", str(port), f"memory={MODEL}", *options],
            stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
        while True:
            try:
                self.client = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("the server has ended") from None
                time.sleep(0.02)
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def latencies_us(servers, name, steps):
    requests = [step_of(name, i) for i in range(steps)]
    times = []
    for i, each in enumerate(requests):
        client = servers[i % len(servers)].client
        begin = time.perf_counter_ns()
        client.sendall(each)
        if not answer(client).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("a step was refused")
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return percentiles(times)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("tool")
    options.add_argument("--steps", type=int, default=4000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--folder", help="for the states (default: a temporary one)")
    options.add_argument("--machine", default="2 cores")
    asked = options.parse_args()
    os.sched_setaffinity(0, {1})
    commit = subprocess.run(["git", "-C", str(REPOSITORY), "rev-parse", "--short=8", "HEAD"], capture_output=True,
                            text=True, check=True).stdout.strip()
    rows = {}
    with tempfile.TemporaryDirectory(dir=asked.folder) as states:
        with Server(asked.tool, PORTS[0]) as plain:
            for i in range(asked.rounds):
                rows.setdefault("memory", []).append(latencies_us([plain], f"a{i}", asked.steps))
                with Server(asked.tool, PORTS[1], "--states", states) as one:
                    rows.setdefault("folder", []).append(latencies_us([one], f"b{i}", asked.steps))
                    with Server(asked.tool, PORTS[1] + 1, "--states", states) as other:
                        rows.setdefault("folder, two servers in turn", []).append(
                            latencies_us([one, other], f"c{i}", asked.steps))
    for where, each in rows.items():
        for key in ("p50", "p99"):
            value = statistics.median(one[key] for one in each)
            baseline = statistics.median(one[key] for one in rows["memory"])
            print(json.dumps({
                "figure": f"serve_step_{key}", "params": {"network": MODEL.name, "states": where}, "value": round(value, 1),
                "unit": "us", "baseline": round(baseline, 1), "ratio": round(value / baseline, 3),
                "machine": asked.machine, "date": datetime.date.today().isoformat(), "commit": commit}))


if __name__ == "__main__":
    main()
