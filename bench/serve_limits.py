#!/usr/bin/env python3
"""Measures how `sluice serve` behaves at its limits on this machine, with h2load (nghttp2-client) as the client.

    bench/serve_limits.py TOOL [--polling PROGRAM] [--only NAME] [--compute-nice STEPS] [--short]

PROGRAM is bench_polling_client, which looks for answers without sleep.

Prints JSON lines. Client and server share the machine's processors; `others` is the share of the processors' time that
other processes took meanwhile: above 0.05 the figure says little. The names, and about how long each takes:

    one            20 s  one connection to servers that sleep and that spin (--spin-us 100), the row in the body and in
                         system shared memory: the median, and with PROGRAM the median and the 99th percentile of a
                         client that spins too
    half_load      20 s  64 connections send half of the greatest throughput: the median, and the 99th percentile over it
    overload       80 s  three times of what a slow model computes, for a minute, spread evenly: answers a second over
                         its capacity, how fast the rest is refused, in all and from the second second on, how much
                         the memory grows, and how late another process wakes up meanwhile, which is the machine's
                         part in the longest refusals
    many          120 s  10,000,000 requests over 64 connections: how much the memory grows

--compute-nice: of the server under overload. --short: a tenth of the time, and 200,000 requests. It shows that the commands work; its figures say little.
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


def shared_request(base, rows):
    """Body and header fields of a request whose row and outputs are in `rows`, which the server learns."""
    post(f"{base}/systemsharedmemory/region/rows/register", {"key": rows.name, "offset": 0, "byte_size": 4096})
    place = {"shared_memory_region": "rows", "shared_memory_byte_size": 256}
    return json.dumps({
        "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 64], "parameters": place}],
        "outputs": [{"name": "output", "parameters": {**place, "shared_memory_byte_size": 40,
                                                      "shared_memory_offset": 1024}}]}).encode(), [
        "content-type: application/json"]


def poll(program, server, fields, body, requests):
    """What bench_polling_client prints, and the share of other processes."""
    with tempfile.NamedTemporaryFile() as file:
        head = ["POST /v2/models/digits/infer HTTP/1.1", "Host: localhost", *fields, f"Content-Length: {len(body)}"]
        file.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        file.flush()
        clocks = serve_load.Clocks(server.cpu_seconds)
        out = subprocess.run([program, str(server.http), file.name, str(requests)], check=True, capture_output=True,
                             text=True).stdout
        return json.loads(out), clocks.others()


def one(options):
    for spin in {}, {"spin_us": 100}:
        rows = SharedRows()
        server = serve_load.Server(options.tool, [*serve_load.spin_options(spin), "--shared-memory",
                                                  serve_load.ROOT / "models/digits.safetensors"])
        try:
            for data in "body", "shared memory":
                params = {"protocol": "http", "connections": 1, "data": data, **spin}
                body, fields = (serve_load.http_request() if data == "body" else
                                shared_request(f"http://127.0.0.1:{server.http}/v2", rows))
                _, answers, others = serve_load.ask(f"http://127.0.0.1:{server.http}/v2/models/digits/infer", fields, body,
                                                    1, 1 if options.short else 4, server.cpu_seconds)
                require_all_right(answers)
                yield "serve_one_median", params, statistics.median(time for _, time in answers), "us", others
                if options.polling:
                    times, others = poll(options.polling, server, fields, body, 2000 if options.short else 100_000)
                    for name, value in times.items():
                        yield f"serve_one_{name}", {**params, "client": "spins"}, value, "us", others
            if not any(rows.outputs()):
                raise SystemExit("serve_limits: the outputs are not in the shared memory")
        finally:
            server.end()
            rows.path.unlink()


def half_load(options):
    server = serve_load.Server(options.tool)
    seconds = 2 if options.short else 8
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


class Sleeper:
    """A process that sleeps 5 ms at a time, and notes how much longer it slept. It sleeps already when this returns: the
    start of Python takes a processor for some 30 ms, in which the first requests would wait for it."""

    CODE = """
import sys, threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
while not over.is_set():
    begin = time.perf_counter()
    time.sleep(0.005)
    print(round((time.perf_counter() - begin) * 1e6 - 5000), flush=True)
"""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def end(self):
        """Microseconds, one number a sleep."""
        return [int(each) for each in self.process.communicate()[0].split()]


def overload(options):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "slow").mkdir()
        write_slow_model(folder / "slow/model.safetensors")
        (folder / "slow/config.json").write_text(json.dumps({"max_batch": 1, "queue": 4, "activation": "relu"}))
        server = serve_load.Server(options.tool, ["--repository", folder, "--compute-nice", str(options.compute_nice)])
        url = f"http://127.0.0.1:{server.http}/v2/models/slow/infer"
        body, fields = serve_load.http_request()
        try:
            out, answers, _ = serve_load.ask(url, fields, body, 4, 2 if options.short else 10, server.cpu_seconds)
            require_all_right(answers)
            capacity = serve_load.rate_of(out)
            seconds = 6 if options.short else 60
            memory, sleeper, begins = Memory(server), Sleeper(), []
            out, answers, others = serve_load.ask(url, fields, body, 64, seconds, server.cpu_seconds,
                                                max(1, round(3 * capacity / 64)), begins=begins)
            grown, late = memory.end(), sleeper.end()
            require_all_right(answers, (200, 429))
            answered = [time for status, time in answers if status == 200]
            refused = [time for status, time in answers if status == 429]
            first = min(begins)
            later = [time for begin, (status, time) in zip(begins, answers)
                     if status == 429 and begin - first >= 1_000_000]
            sent = serve_load.rate_of(out)
            params = {"capacity": round(capacity), "sent": round(sent), "connections": 64,
                      "compute nice": options.compute_nice}
            if sent < 2.5 * capacity or not refused:
                raise SystemExit(f"serve_limits: the client did not send three times the capacity: {params}")
            yield "serve_overload_answered_over_capacity", params, round(
                len(answered) / len(answers) * sent / capacity, 3), "", others
            for part in 0.5, 0.99, 0.9999, 1.0:
                yield "serve_overload_refused", {**params, "percentile": 100 * part}, percentile(refused, part), "us", others
                yield "serve_overload_refused_later", {**params, "percentile": 100 * part}, percentile(later, part), "us", others
                yield "serve_overload_wake_up", {**params, "percentile": 100 * part}, percentile(late, part), "us", others
            yield "serve_overload_memory_growth", params, grown, "bytes", others
        finally:
            server.end()


def many(options):
    server = serve_load.Server(options.tool)
    url = f"http://127.0.0.1:{server.http}/v2/models/digits/infer"
    body, fields = serve_load.http_request()
    requests = 200_000 if options.short else 10_000_000
    try:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "body").write_bytes(body)
            words = ["h2load", "--h1", "-c", "64", "-t", "1", "-m", "1", "-d", folder + "/body"]
            for each in fields:
                words += ["-H", each]
            memory = Memory(server)
            clocks = serve_load.Clocks(server.cpu_seconds)
            out = subprocess.run(words + ["-n", str(requests), url], capture_output=True, text=True, check=True).stdout
            others = clocks.others()
            grown = memory.end()
        if f"{requests} succeeded" not in out:
            raise SystemExit(f"serve_limits: not all requests have an answer\n{out}")
        yield "serve_memory_growth", {"requests": requests, "rate": round(serve_load.rate_of(out))}, grown, "bytes", others
    finally:
        server.end()


def main():
    measures = {each.__name__: each for each in (one, half_load, overload, many)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--polling")
    parser.add_argument("--only", choices=measures)
    parser.add_argument("--compute-nice", type=int, default=0)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if shutil.which("h2load") is None:
        raise SystemExit("serve_limits: there is no h2load; install nghttp2-client")
    for name, measure in measures.items():
        if options.only not in (None, name):
            continue
        for figure, params, value, unit, others in measure(options):
            if options.short:
                params = {**params, "short": True}
            print(json.dumps({"figure": figure, "params": params, "value": value, "unit": unit, "others": others,
                              **serve_load.facts()}), flush=True)


if __name__ == "__main__":
    main()
