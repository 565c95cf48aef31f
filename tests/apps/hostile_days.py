#!/usr/bin/env python3
"""Gives the tool random networks, arrays, names and command lines on random days: descriptors are closed, signals
arrive, inputs shrink, disks are full, memory is short. Whatever happens:

  - exit code 0 means complete and right answers, and a network that its file or the command line describes fully;
  - any other exit code comes with one line that says why; the output is absent, or an earlier one is unchanged;
  - no temporary file stays, and nothing that a terminal would act on is printed.

    hostile_days.py TOOL [--seconds 20] [--first-seed 1] [--sanitized]

SLUICE_HOSTILE_DAYS_SECONDS is the default of --seconds. The days of a seed are the same each time, except for how far
the tool is when something happens to it. `--first-seed N --seconds 0` runs day N alone.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import tool_days as days  # noqa: E402

HIDDEN = ["relu", "tanh", "gelu", "sigmoid", "none"]
HOSTILE_NAMES = [b"\x1b[2J", b"a\nb", b"\xff\xfe", b"\xc2\x9bx", b"\r", b"n" * 255, b"-o", b" ", b"\x7f", b"caf\xc3\xa9"]
ASKING = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
ENDING = [signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU]


class day:
    """One run, what happens to it, and which outcomes are right."""

    def __init__(self, seed, tool, folder, is_sanitized):
        self.random = random.Random(seed)
        self.tool, self.folder, self.is_sanitized = tool, pathlib.Path(folder), is_sanitized
        self.may_succeed = True
        self.story = []  # for the report

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def name(self):
        stem = self.random.choice(HOSTILE_NAMES) if self.one_in(3) else b"f%d" % self.random.randrange(10**6)
        return os.path.join(os.fsencode(self.folder), stem)

    # ---- what it is given

    def write_network(self):
        widths = [self.random.randint(1, 20) for _ in range(self.random.randint(2, 4))]
        self.network = days.network(
            self.random, widths, self.random.choice(HIDDEN), self.random.choice(["none", "tanh", "sigmoid"]))
        metadata = self.network.metadata()
        self.said = []
        numbers = [2 * i for i in range(len(widths) - 1)]
        kind = self.random.randrange(14)
        several = len(numbers) > 1
        if kind == 0:
            self.story.append("nothing says the activation")
            metadata, self.may_succeed = self.random.choice([None, {}, {"format": "pt"}]), False
        elif kind == 1:
            self.story.append("the command line says the activations")
            metadata = None
            self.said = ["--activation", self.network.hidden, "--output-activation", self.network.output]
        elif kind == 2:
            self.story.append("unknown metadata")
            metadata[self.random.choice(["activaton", "act", "\x1b[1m", "Activation"])] = "relu"
            self.may_succeed = False
        elif kind == 3:
            self.story.append("an unknown activation")
            metadata["activation"] = self.random.choice(["swish", "ReLU", "", "relu ", "\x9b"])
            self.may_succeed = False
        elif kind == 4:
            wrong = self.random.randrange(len(numbers))
            step = self.random.choice([1, 2, 5])
            numbers = [n + (step if i >= wrong else 0) for i, n in enumerate(numbers)]
            self.story.append(f"layers at {numbers}")
            self.may_succeed = False
        elif kind == 5 and several and self.network.hidden == "none":
            numbers = list(range(len(numbers)))
            self.story.append("layers that follow each other at once, without an activation")
        contents = days.safetensors(self.network.tensors(numbers), metadata)
        if kind == 6 and self.one_in(2):
            contents = self.damaged(contents)
        self.model = self.name() + b".m" if self.one_in(4) else os.path.join(os.fsencode(self.folder), b"model")
        self.store("model", contents)

    def damaged(self, contents):
        """Cut off, longer, or with bytes changed where that cannot go unseen: in the header's length."""
        self.may_succeed = False
        kind = self.random.randrange(3)
        self.story.append("damaged: " + ["cut off", "longer", "another length of the header"][kind])
        if kind == 0:
            return contents[: self.random.randrange(len(contents))]
        if kind == 1:
            return contents + b"x" * self.random.randint(1, 5000)
        return self.random.randbytes(8) + contents[8:]

    def store(self, field, contents):
        path = getattr(self, field)
        try:
            with open(path, "wb") as file:
                file.write(contents)
        except OSError:  # the name is too long
            setattr(self, field, os.path.join(os.fsencode(self.folder), field.encode()))
            with open(getattr(self, field), "wb") as file:
                file.write(contents)

    def write_input(self, is_long):
        width = self.network.widths[0]
        self.input = os.path.join(os.fsencode(self.folder), b"input")
        if is_long:
            self.rows = 16 * self.random.randint(5_000, 20_000)
            days.write_zeros(self.input, self.rows, width)
            return
        count = self.random.randint(1, 70)
        self.rows = [[self.random.randint(-16, 16) / 8 for _ in range(width)] for _ in range(count)]
        contents = days.npy(self.rows)
        self.store("input", self.damaged(contents) if self.one_in(8) else contents)

    def choose_output(self):
        self.output = self.name()
        self.earlier = None
        if len(os.path.basename(self.output)) == 255:
            self.output += b"n" * self.random.randrange(2)
        kind = self.random.randrange(10)
        if len(os.path.basename(self.output)) > 255:
            self.story.append("the output's name is too long")
            self.may_succeed = False
        elif kind == 0:
            self.story.append("the output's name is empty")
            self.output, self.may_succeed = b"", False
        elif kind == 1:
            self.story.append("the output is in no folder")
            self.output, self.may_succeed = os.path.join(os.fsencode(self.folder), b"absent", b"o"), False
        elif kind < 5:
            self.earlier = b"an earlier output"
            with open(self.output, "wb") as file:
                file.write(self.earlier)

    # ---- what happens to it

    def live(self):
        mishap = self.random.choice(["none", "none", "signal", "two signals", "shrinks", "closed", "no room", "few files",
                                     "memory", "gone"])
        if self.is_sanitized and mishap in ("memory", "few files"):
            mishap = "none"
        self.story.append(mishap)
        is_long = mishap in ("signal", "two signals", "shrinks")
        self.write_network()
        self.write_input(is_long)
        self.choose_output()
        batch = 16 if is_long else self.random.choice([1, 7, 16, 1024])
        self.as_json = self.one_in(2)
        arguments = ["run", self.model, self.input, "--device", "cpu", "--batch", str(batch), "--output", self.output,
                     *self.said, *(["--json"] if self.as_json else []), *(["--progress"] if self.one_in(2) else [])]
        if self.one_in(5):
            arguments += ["--trace", self.output]
            self.story.append("the trace has the output's name")
            self.may_succeed = False
        self.codes = {0, 2}
        return getattr(self, mishap.replace(" ", "_"))(arguments)

    def start(self, arguments, **circumstances):
        return days.running(self.tool, arguments, **circumstances)

    def none(self, arguments):
        return self.start(arguments).wait()

    def once_it_runs(self, arguments):
        process = self.start(arguments)
        days.wait_for_temporary(process, self.folder)
        time.sleep(self.random.random() * 0.03)
        return process

    def signal(self, arguments):
        number = self.random.choice(ASKING + ENDING)
        self.story.append(number.name)
        process = self.once_it_runs(arguments)
        process.send(number)
        self.codes.update({130, -number} if number in ASKING else {-number})
        self.may_be_committed = {-number}  # when it came as the run was over
        return process.wait()

    def two_signals(self, arguments):
        process = self.once_it_runs(arguments)
        for _ in range(2):
            number = self.random.choice(ASKING)
            process.send(number)
            self.codes.update({130, -number})
            time.sleep(self.random.random() * 0.002)
        self.may_be_committed = self.codes - {0, 2}  # by the time of the second
        return process.wait()

    def shrinks(self, arguments):
        size = os.path.getsize(self.input)
        process = self.once_it_runs(arguments)
        os.truncate(self.input, self.random.choice([0, size - 1, size // 2, self.random.randrange(size)]))
        return process.wait()

    def closed(self, arguments):
        which = self.random.choice([[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]])
        self.story.append(str(which))
        if 1 in which:
            self.codes.add(1)
        self.reports = 1 not in which
        self.warns = 2 not in which
        return self.start(arguments, closed=which).wait()

    def no_room(self, arguments):
        self.codes.add(1)
        return self.start(arguments, limits={"file bytes": self.random.choice([0, 100, 130, 1000])}).wait()

    def few_files(self, arguments):
        self.codes.add(1)
        self.is_starved = True
        return self.start(arguments, limits={"files": self.random.randint(3, 12)}).wait()

    def memory(self, arguments):
        self.codes.add(1)
        self.is_starved = True
        # From what the program's own file takes: with less, the system's call that starts it kills the process.
        least = (os.path.getsize(self.tool) >> 20) + 20
        return self.start(arguments, limits={"memory": self.random.randint(least, 400) << 20}).wait()

    def gone(self, arguments):
        reader, writer = os.pipe()
        os.close(reader)
        self.warns = False
        try:
            return self.start(arguments, err=writer).wait()
        finally:
            os.close(writer)

    # ---- the outcome

    reports = True
    warns = True
    may_be_committed = frozenset()  # exit codes
    is_starved = False

    def wrong(self, came):
        """What is wrong; empty when nothing is."""
        left = days.temporary_files(self.folder)
        if left:
            return f"a temporary file stays: {left}"
        if came.code == 127 and b"error while loading shared libraries" in came.err and self.is_starved:
            return ""  # it has not even begun
        if came.code == "hangs" or came.code not in self.codes:
            return f"an exit code that is none of {sorted(self.codes)}"
        words = days.wrong_words(came)
        if words and (self.warns or words.startswith("standard")):
            return words
        is_whole = self.output != b"" and os.path.isfile(self.output) and days.holds_answers(self.output, self.rows, self.network)
        if came.code == 0:
            if not self.may_succeed:
                return "it succeeds, and must not"
            if not is_whole:
                return "exit code 0, and not the right answers"
            if self.as_json and self.reports:
                json.loads(came.out)
            return ""
        committed = is_whole and self.may_succeed and (not self.reports or came.code in self.may_be_committed)
        if committed or self.output == b"":
            return ""
        if self.earlier is None:
            return "an output that failed is there" if os.path.lexists(self.output) else ""
        with open(self.output, "rb") as file:
            return "" if file.read() == self.earlier else "the earlier output is changed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SLUICE_HOSTILE_DAYS_SECONDS", "20")))
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--sanitized", action="store_true", help="leave out what sanitizers cannot do with")
    options = parser.parse_args()

    end = time.monotonic() + options.seconds
    seed, failures, codes = options.first_seed, 0, {}
    while True:
        with tempfile.TemporaryDirectory() as folder:
            today = day(seed, os.path.abspath(options.tool), folder, options.sanitized)
            came = today.live()
            wrong = today.wrong(came)
        codes[came.code] = codes.get(came.code, 0) + 1
        if wrong:
            failures += 1
            print(f"day {seed} ({', '.join(today.story)}): {wrong}\n{came}\n", flush=True)
        seed += 1
        if time.monotonic() >= end:
            break
    lived = seed - options.first_seed
    print(f"{lived} days, {failures} fall short; exit codes: {dict(sorted(codes.items()))}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
