#!/usr/bin/env python3
"""Measures what a request costs replicas of `sluice serve` and HAProxy in front of them, with h2load (nghttp2-client).

    bench/serve_replicas.py TOOL [SECONDS]

For each model and number of replicas prints a JSON line: requests a second of 64 connections, and the processor time of a
request in the replicas and in HAProxy. One without replicas is the server itself, without HAProxy. Client, HAProxy and
replicas share the machine's processors, so the rate is that of all of them together; processor times add up elsewhere
too. HAProxy has packaging/container/haproxy.cfg.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/serve"))
from balanced_site import Site  # noqa: E402
from serve_load import ask, facts, http_request, rate_of  # noqa: E402

MODELS = {"digits": "digits.safetensors", "digits_cnn": "digits_cnn.onnx", "digits_lstm": "digits_lstm.onnx"}


def cpu_seconds(processes):
    """Of these, so far."""
    total = 0
    for each in processes:
        fields = pathlib.Path(f"/proc/{each.pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    for program, package in ("h2load", "nghttp2-client"), ("haproxy", "haproxy"):
        if shutil.which(program) is None:
            raise SystemExit(f"serve_replicas: there is no {program}; install {package}")
    seconds, common = int(sys.argv[2]) if len(sys.argv) == 3 else 5, facts()
    for model, file in MODELS.items():
        for replicas in 0, 1, 2, 3:
            places = max(1, replicas)
            with tempfile.TemporaryDirectory() as folder, Site(sys.argv[1], pathlib.Path(folder),
                                                               models=(f"{model}={ROOT / 'models' / file}",),
                                                               places=places, started=places) as site:
                *servers, balancer = site.processes
                port = site.port if replicas else site.replica_ports[0]
                body, fields = http_request()
                before, busy = (cpu_seconds(servers), cpu_seconds([balancer])), {each.pid: cpu_seconds([each]) for each in servers}
                out, answers, others = ask(f"http://127.0.0.1:{port}/v2/models/{model}/infer", fields, body, 64, seconds,
                                           lambda: cpu_seconds(site.processes))
                idle = [each.pid for each in servers if cpu_seconds([each]) == busy[each.pid]]
                if replicas and idle:
                    raise SystemExit(f"serve_replicas: the replicas {idle} got no requests")
                of_servers, of_balancer = cpu_seconds(servers) - before[0], cpu_seconds([balancer]) - before[1]
                wrong = [status for status, _ in answers if status != 200]
                if wrong or not answers:
                    raise SystemExit(f"serve_replicas: {len(answers)} answers, {len(wrong)} of them wrong\n{out}")
                # The log has the answers after h2load's second of warm-up; the processor time has both.
                requests = rate_of(out) * (seconds + 1)
                print(json.dumps({"figure": "serve_replicas", "params": {"model": model, "replicas": replicas},
                                  "value": round(rate_of(out)), "unit": "1/s",
                                  "replica_cpu_us": round(1e6 * of_servers / requests, 1),
                                  "balancer_cpu_us": round(1e6 * of_balancer / requests, 1) if replicas else 0,
                                  "others": others, **common}), flush=True)


if __name__ == "__main__":
    main()
