#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the networks that the exporters' scripts stored with the tool, and compares each output with the framework's.

    python3 tools/run_exported_networks.py SLUICE FOLDER [--device DEVICE] [--write PAGE]

Prints what differs or is refused, and counts. --write writes the table. Exits with 1 where a network differs, or is
refused for a reason that is not in NOT_OURS.
"""

import argparse
import collections
import json
import pathlib
import subprocess

# Refused by right: an error of the exporter.
NOT_OURS = {}

Result = collections.namedtuple("Result", "kind text difference allowed")


def run_output(tool, at, network, output, device):
    command = [tool, "run", at / "model.onnx", "--device", device, "--json"]
    for name, file in network["inputs"].items():
        command += ["--input", f"{name}={at / file}"]
    command += ["--reference", f"{output['name']}={at / output['file']}", "--tolerance", repr(output["tolerance"])]
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=300)


def json_of(text):
    try:
        return json.loads(text.strip().split("\n")[-1])
    except ValueError:
        return {}


def run(tool, at, network, device):
    if "not_exported" in network:
        return Result("not exported", network["not_exported"], None, None)
    worst = Result("passed", "", 0.0, 0.0)
    for output in network["outputs"]:
        ended = run_output(tool, at, network, output, device)
        report = json_of(ended.stdout)
        if "largest_difference" not in report or ended.returncode not in (0, 3):
            error = json_of(ended.stderr).get("error", ended.stderr.strip() or f"exit status {ended.returncode}")
            error = error.get("message", str(error)) if isinstance(error, dict) else str(error)
            return Result("refused", error.replace(str(at) + "/", ""), None, None)
        difference = report["largest_difference"]
        difference = float("nan") if difference is None else float(difference)
        result = Result("passed" if ended.returncode == 0 else "differs", output["name"], difference,
                        output["tolerance"])
        if result.kind == "differs":
            return result
        # The one that uses most of what it may.
        if difference * (worst.allowed or 1) >= worst.difference * (result.allowed or 1):
            worst = result
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    counts = collections.Counter()
    for at in sorted(options.folder.iterdir()):
        if not at.name.startswith(options.only) or not (at / "network.json").exists():
            continue
        network = json.loads((at / "network.json").read_text())
        result = run(options.tool, at, network, options.device)
        counts[network["framework"], result.kind] += 1
        if result.kind not in ("passed", "not exported"):
            print(f"{at.name}: {result.kind}: {result.text} {result.difference} {result.allowed}", flush=True)
    print(counts)


main()
