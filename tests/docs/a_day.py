#!/usr/bin/env python3
"""Runs the commands of docs/a_day.md, and compares what they print with what the page says.

    a_day.py REPOSITORY TOOL     TOOL: the program sluice
    a_day.py --self-test         runs small pages, right and wrong ones

The blocks ```sh are run one after the other in one shell, in a temporary folder with the folders models and data. What a
block prints must be the block ```text that follows it, or nothing. `...` in it stands for any text, also of several lines.
Several spaces are as one: the widths of a table's columns depend on its numbers. The port 8000 is replaced by a free one.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

BLOCKS = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
END = "@end of block@"
SECONDS = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def fits(printed, expected):
    printed, expected = (re.sub(" +", " ", text.rstrip("\n")) for text in (printed, expected))
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def problems(page, folder, environment, seconds=SECONDS):
    blocks = BLOCKS.findall(page)
    if not blocks:
        return ["the page has no blocks ```sh"]
    port = free_port()
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n"  # what the page has started ends with it
    script += "".join(f"{commands}\nprintf '\\n{END}\\n'\n" for commands, _ in blocks)
    shell = subprocess.Popen(["bash", "-c", script.replace(":8000", f":{port}").replace("--port 8000", f"--port {port}")],
                             cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = shell.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
        return [f"the page's commands took more than {seconds} s"]
    printed = output.replace(port, "8000").split(f"\n{END}\n")
    if len(printed) != len(blocks) + 1:
        return [f"the shell ended in block {len(printed)}: {printed[-1]}"]
    return [f"after\n{commands}expected:\n{expected}printed:\n{text}"
            for (commands, expected), text in zip(blocks, printed) if not fits(text, expected)]


def self_test():
    def found(page, seconds=SECONDS):
        with tempfile.TemporaryDirectory() as folder:
            return problems(page, folder, None, seconds)

    def block(commands, text=None):
        return f"```sh\n{commands}\n```\n" + (f"\n```text\n{text}\n```\n" if text is not None else "")

    cases = {
        "right": (block("x=1") + "\n" + block("echo $x is; echo one; echo more", "1 ...more"), None),
        "another text": (block("echo 2", "1"), "printed:\n2"),
        "more lines": (block("echo 1; echo 2", "1"), "printed:\n1\n2"),
        "text that is not announced": (block("echo 1"), "printed:\n1"),
        "no text where some is announced": (block("true", "1"), "printed:\n"),
        "an error": (block("cat none", "1"), "none"),
        "an end": (block("exit 3"), "the shell ended in block 1"),
        "no block": ("```text\n1\n```\n", "no blocks"),
    }
    failures = []
    for name, (page, part) in cases.items():
        result = found(page)
        if (part is None and result) or (part and (len(result) != 1 or part not in result[0])):
            failures.append(f"{name}: found {result}")
    if "more than" not in "".join(found(block("sleep 30 & wait"), seconds=0.5)):
        failures.append("a page that does not end is not found")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        lines = self_test()
    elif len(arguments) == 2:
        root, tool = (pathlib.Path(each).resolve() for each in arguments)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("models", "data"):
                (pathlib.Path(folder) / name).symlink_to(root / name)
            environment = dict(os.environ, PATH=f"{tool.parent}:{os.environ['PATH']}")
            lines = problems((root / "docs/a_day.md").read_text(encoding="utf-8"), folder, environment)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
