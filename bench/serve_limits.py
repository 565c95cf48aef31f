#!/usr/bin/env python3
"""Measures how `sluice serve` behaves at its limits on this machine, with h2load (nghttp2-client) as the client.

    bench/serve_limits.py TOOL [--only NAME] [--short]

Prints JSON lines. Client and server share the machine's processors; `others` is the share of the processors' time that
other processes took meanwhile: above 0.05 the figure says little. The names, and about how long each takes:

    shared_memory  10 s  one connection; the row and the outputs are in system shared memory: the median
    half_load      20 s  64 connections send half of the greatest throughput: the median, and the 99th percentile over it
    overload       80 s  three times of what a slow model computes, for a minute: answers a second over its capacity, how
                         fast the rest is refused, and how much the memory grows
    many          120 s  10,000,000 requests over 64 connections: how much the memory grows

--short: a tenth of the time, and 200,000 requests. It shows that the commands work; its figures say little.
"""

import argparse
import json
import pathlib
import random
import secrets
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serve_load  # noqa: E402

WIDTH = 4096  # of the slow model's hidden layers


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def post(url, content):
    request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return reply.read()


def require_all_right(answers, accepted=(200,)):
    wrong = sorted({status for status, _ in answers} - set(accepted))
    if wrong or not answers:
        raise SystemExit(f"serve_limits: {len(answers)} answers, of which some have the status {wrong}")


class Memory:
    """The server's memory, looked at ten times a second."""

    def __init__(self, server):
        self.server, self.values, self.ends = server, [], threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.ends.wait(0.1):
            self.values.append(self.server.memory())

    def end(self):
        """By how many bytes it grew from a fifth of the time on, at most: until then buffers reach their sizes."""
        self.ends.set()
        self.thread.join()
        later = self.values[len(self.values) // 5:]
        return max(later) - later[0]


class SharedRows:
    """An object of shared memory with a row, and room for the outputs."""

    def __init__(self):
        self.name = f"/sluice-bench-{secrets.token_hex(8)}"
        self.path = pathlib.Path("/dev/shm" + self.name)
        self.path.write_bytes(serve_load.ROW + bytes(4096 - len(serve_load.ROW)))

    def outputs(self):
        return struct.unpack("<10f", self.path.read_bytes()[1024:1064])


def shared_memory(tool, short):
    rows = SharedRows()
    server = serve_load.Server(tool, ["--shared-memory", serve_load.ROOT / "models/digits.safetensors"])
    base = f"http://127.0.0.1:{server.http}/v2"
    try:
        post(f"{base}/systemsharedmemory/region/rows/register", {"key": rows.name, "offset": 0, "byte_size": 4096})
        place = {"shared_memory_region": "rows", "shared_memory_byte_size": 256}
        body = json.dumps({
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 64], "parameters": place}],
            "outputs": [{"name": "output", "parameters": {**place, "shared_memory_byte_size": 40,
                                                          "shared_memory_offset": 1024}}]}).encode()
        _, answers, others = serve_load.ask(f"{base}/models/digits/infer", ["content-type: application/json"], body, 1,
                                            1 if short else 8, server.cpu_seconds)
        require_all_right(answers)
        if not any(rows.outputs()):
            raise SystemExit("serve_limits: the outputs are not in the shared memory")
        yield "serve_shared_memory_median", {"protocol": "http", "connections": 1}, statistics.median(
            time for _, time in answers), "us", others
    finally:
        server.end()
        rows.path.unlink()


def half_load(tool, short):
    server = serve_load.Server(tool)
    seconds = 2 if short else 8
    url = f"http://127.0.0.1:{server.http}/v2/models/digits/infer"
    body, fields = serve_load.http_request()
    try:
        out, answers, _ = serve_load.ask(url, fields, body, 64, seconds, server.cpu_seconds)
        require_all_right(answers)
        greatest = serve_load.rate_of(out)
        out, answers, others = serve_load.ask(url, fields, body, 64, seconds, server.cpu_seconds,
                                              max(1, round(greatest / 2 / 64)))
        require_all_right(answers)
        times = [time for _, time in answers]
        params = {"protocol": "http", "connections": 64, "greatest": round(greatest), "sent": round(serve_load.rate_of(out))}
        median = statistics.median(times)
        yield "serve_half_load_median", params, median, "us", others
        yield "serve_half_load_p99", params, percentile(times, 0.99), "us", others
        yield "serve_half_load_p99_over_median", params, round(percentile(times, 0.99) / median, 2), "", others
    finally:
        server.end()


def write_slow_model(path):
    """A perceptron 64-WIDTH-WIDTH-10 in a safetensors file. What it computes does not matter, but it is not zero."""
    widths = [64, WIDTH, WIDTH, 10]
    number = random.Random(1)
    line = struct.pack(f"<{WIDTH}f", *(number.uniform(-0.02, 0.02) for _ in range(WIDTH)))
    header, data = {}, b""
    for i, (before, after) in enumerate(zip(widths, widths[1:])):
        for name, shape in (f"{2 * i}.weight", [after, before]), (f"{2 * i}.bias", [after]):
            bytes_ = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + bytes_]}
            data += (line * (bytes_ // len(line) + 1))[:bytes_]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def overload(tool, short):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "slow").mkdir()
        write_slow_model(folder / "slow/model.safetensors")
        (folder / "slow/config.json").write_text(json.dumps({"max_batch": 1, "queue": 4, "activation": "relu"}))
        server = serve_load.Server(tool, ["--repository", folder])
        url = f"http://127.0.0.1:{server.http}/v2/models/slow/infer"
        body, fields = serve_load.http_request()
        try:
            out, answers, _ = serve_load.ask(url, fields, body, 4, 2 if short else 10, server.cpu_seconds)
            require_all_right(answers)
            capacity = serve_load.rate_of(out)
            seconds = 6 if short else 60
            memory = Memory(server)
            _, answers, others = serve_load.ask(url, fields, body, 64, seconds, server.cpu_seconds,
                                                max(1, round(3 * capacity / 64)))
            grown = memory.end()
            require_all_right(answers, (200, 429))
            answered = [time for status, time in answers if status == 200]
            refused = [time for status, time in answers if status == 429]
            params = {"capacity": round(capacity), "sent": round(len(answers) / seconds), "connections": 64}
            if len(answers) / seconds < 2.5 * capacity or not refused:
                raise SystemExit(f"serve_limits: the client did not send three times the capacity: {params}")
            yield "serve_overload_answered_over_capacity", params, round(
                len(answered) / seconds / capacity, 3), "", others
            for part in 0.5, 0.99, 1.0:
                yield "serve_overload_refused", {**params, "percentile": 100 * part}, percentile(refused, part), "us", others
            yield "serve_overload_memory_growth", params, grown, "bytes", others
        finally:
            server.end()


def many(tool, short):
    server = serve_load.Server(tool)
    url = f"http://127.0.0.1:{server.http}/v2/models/digits/infer"
    body, fields = serve_load.http_request()
    requests = 200_000 if short else 10_000_000
    try:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "body").write_bytes(body)
            words = ["h2load", "--h1", "-c", "64", "-t", "1", "-m", "1", "-d", folder + "/body"]
            for each in fields:
                words += ["-H", each]
            memory = Memory(server)
            busy, own, began = (serve_load.busy_seconds(), server.cpu_seconds() + serve_load.cpu_of_children(),
                                time.monotonic())
            out = subprocess.run(words + ["-n", str(requests), url], capture_output=True, text=True, check=True).stdout
            own = server.cpu_seconds() + serve_load.cpu_of_children() - own
            others = max(0, serve_load.busy_seconds() - busy - own) / (
                (time.monotonic() - began) * serve_load.os.cpu_count())
            grown = memory.end()
        if f"{requests} succeeded" not in out:
            raise SystemExit(f"serve_limits: not all requests have an answer\n{out}")
        yield "serve_memory_growth", {"requests": requests, "rate": round(serve_load.rate_of(out))}, grown, "bytes", round(
            others, 3)
    finally:
        server.end()


def main():
    measures = {each.__name__: each for each in (shared_memory, half_load, overload, many)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--only", choices=measures)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if shutil.which("h2load") is None:
        raise SystemExit("serve_limits: there is no h2load; install nghttp2-client")
    for name, measure in measures.items():
        if options.only not in (None, name):
            continue
        for figure, params, value, unit, others in measure(options.tool, options.short):
            if options.short:
                params = {**params, "short": True}
            print(json.dumps({"figure": figure, "params": params, "value": value, "unit": unit, "others": others,
                              **serve_load.facts()}), flush=True)


if __name__ == "__main__":
    main()
