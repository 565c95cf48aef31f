#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the networks that export_pytorch.py, export_sklearn.py and export_keras.py stored, by `sluice run`, and compares
each output with the framework's.

    python3 tools/run_exported_networks.py TOOL FOLDER [--device DEVICE] [--write PAGE]

Prints each network that differs or is refused, and the counts; --write writes a page of all. Exits with 1 where one
differs or is refused for a reason that is not in KNOWN, or where one that is in KNOWN passes.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import textwrap

# What does not pass, and whose fault it is.
KNOWN = {
    "pytorch-embedding_bag": "a loop over a sequence of tensors; Sluice has no sequences",
    "pytorch_traced-graph_convolution": "the exporter's: sums of edges to one node are lost. ONNX Runtime computes the "
                                        "same numbers as Sluice",
    "pytorch_traced_11-graph_convolution": "the exporter's: as for opset 17",
    "sklearn-gaussian_process_classifier": "the exporter's: com.microsoft.Solve, which ONNX Runtime does not have "
                                           "either",
    "sklearn-text_columns": "Sluice has no elements of text",
    "sklearn-text_labels": "Sluice has no elements of text",
    "sklearn-knn_regressor_by_distance": "the exporter's: ONNX Runtime computes the same numbers as Sluice",
}

PYTORCH = ["pytorch", "pytorch_traced", "pytorch_traced_11"]
TITLES = {"pytorch": "PyTorch, torch.export", "pytorch_traced": "PyTorch, traced, opset 17",
          "pytorch_traced_11": "PyTorch, traced, opset 11", "sklearn": "scikit-learn", "keras": "Keras"}
KINDS = ["passed", "differs", "refused", "not exported"]

Result = collections.namedtuple("Result", "kind share tolerance why", defaults=(None, None, ""))


def json_of(text):
    try:
        return json.loads(text.strip().split("\n")[-1])
    except ValueError:
        return {}


def run_tool(options, at, network, output):
    command = [options.tool, "run", str(at / "model.onnx"), "--device", options.device, "--json"]
    for name, file in network["inputs"].items():
        command += ["--input", f"{name}={at / file}"]
    allowed = output["tolerance"] * output["scale"]
    command += ["--reference", f"{output['name']}={at / output['file']}", "--tolerance", repr(allowed)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def compare(options, at, network, output):
    ended = run_tool(options, at, network, output)
    report = json_of(ended.stdout)
    if ended.returncode not in (0, 3) or "largest_difference" not in report:
        why = json_of(ended.stderr).get("error", ended.stderr.strip() or f"exit status {ended.returncode}")
        why = why.get("message", str(why)) if isinstance(why, dict) else str(why)
        return Result("refused", why=why.replace(f"{at}/", ""))
    difference = report["largest_difference"]
    share = float("nan") if difference is None else float(difference) / output["scale"]
    return Result("passed" if ended.returncode == 0 else "differs", share, output["tolerance"], output["name"])


def run(options, at, network):
    if "not_exported" in network:
        return Result("not exported", why=network["not_exported"])
    worst = Result("passed", 0.0, 0.0)
    for output in network["outputs"]:
        result = compare(options, at, network, output)
        if result.kind != "passed":
            return result
        worst = max(worst, result, key=lambda each: each.share)
    return worst


def run_all(options):
    """{framework: {network: (description, result)}}"""
    found = {each: {} for each in TITLES}
    for at in sorted(options.folder.iterdir()):
        if not (at / "network.json").exists():
            continue
        network = json.loads((at / "network.json").read_text())
        result = run(options, at, network)
        found[network["framework"]][network["network"]] = (network, result)
        if result.kind in ("differs", "refused"):
            share = "" if result.share is None else f" by {result.share:.1e}, allowed {result.tolerance:.0e}"
            print(f"{at.name}: {result.kind}{share}: {result.why}", flush=True)
    return {framework: networks for framework, networks in found.items() if networks}


def counts_table(found):
    lines = ["| exporter | networks | passed | differ | refused | not exported | largest difference |",
             "|---|---|---|---|---|---|---|"]
    for framework, networks in found.items():
        kinds = collections.Counter(result.kind for _, result in networks.values())
        exporter = next(iter(networks.values()))[0]["exporter"].split(", traced")[0]
        lines.append(f"| {TITLES[framework]} ({exporter}) | {len(networks)} | " +
                     " | ".join(str(kinds[each]) for each in KINDS) + f" | {largest(networks)} |")
    return lines


def largest(networks):
    shares = [result.share for _, result in networks.values() if result.kind == "passed" and result.share]
    return f"{max(shares):.0e}" if shares else "0"


def names(networks, *kinds):
    return ", ".join(name for name, (_, result) in sorted(networks.items()) if result.kind in kinds)


def reasons(found):
    lines = ["| network | what | why |", "|---|---|---|"]
    for framework, networks in found.items():
        for name, (_, result) in networks.items():
            if result.kind in ("differs", "refused"):
                why = KNOWN.get(f"{framework}-{name}") or result.why
                lines.append(f"| {name} ({TITLES[framework]}) | {result.kind} | {plain(why)} |")
    return lines


def not_exported(found):
    lines = ["| exporter | networks that it does not export |", "|---|---|"]
    for framework, networks in found.items():
        if missing := names(networks, "not exported"):
            lines.append(f"| {TITLES[framework]} | {missing} |")
    return lines


def plain(text):
    """Its beginning, for a cell of a table."""
    for end in (". Please feel free", " [Caused", ". Support for this", " ==> "):
        text = text.split(end)[0]
    text = text if len(text) < 200 else text[:200].rsplit(" ", 1)[0] + " …"
    return text.replace("|", "\\|").replace("<", "\\<").strip()


def page(found, options):
    passed = sum(result.kind == "passed" for networks in found.values() for _, result in networks.values())
    different = {("pytorch" if framework in PYTORCH else framework, name) for framework, networks in found.items()
                 for name, (_, result) in networks.items() if result.kind == "passed"}
    return "\n".join(["# Exported networks", "", *textwrap.wrap(
        "Written by `scripts/exported_networks`, which [Bring your network](networks.md) describes. "
        f"{len(different)} different networks, {passed} files, give what their frameworks give, on a "
        f"{'CPU' if options.device.startswith('cpu') else 'GPU'}.", 120), "", *textwrap.wrap(
        "A difference is the largest one of an output, as a share of the output's largest number, or absolutely where "
        "all are below 1. Whole numbers, such as classes, must be equal. Allowed are 1e-5 for PyTorch and Keras (2e-3 "
        "for `half_precision`, whose numbers have 16 bits), and for scikit-learn, which itself computes with 64 bits, "
        "1e-4, of `complement_bayes` and `multinomial_bayes` 1e-3. The networks are those of `tools/export_pytorch.py`, "
        "`tools/export_sklearn.py` and `tools/export_keras.py`.", 120), ""] + counts_table(found) +
        ["", "## What did not pass", ""] + reasons(found) + [""] + not_exported(found)) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    found = run_all(options)
    print("\n".join(counts_table(found)))
    if options.write:
        options.write.write_text(page(found, options))
    results = {f"{framework}-{name}": result.kind for framework, networks in found.items()
               for name, (_, result) in networks.items()}
    new = [name for name, kind in results.items() if kind in ("differs", "refused") and name not in KNOWN]
    mended = [name for name in KNOWN if results.get(name) == "passed"]
    for name in mended:
        print(f"{name} passes now: remove it from KNOWN")
    sys.exit(1 if new or mended else 0)


main()
