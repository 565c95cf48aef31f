#!/usr/bin/env python3
"""What the tool does when networks, names, descriptors, disks and signals are not as it would like them.

    tool_days_tests.py TOOL [--sanitized] [CASE...]
"""

import fcntl
import json
import os
import pathlib
import pty
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import tool_days as days  # noqa: E402

TOOL = ""
IS_SANITIZED = False
ROOT = pathlib.Path(__file__).resolve().parents[2]


class tool_case(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = pathlib.Path(self.kept.name)
        self.network = days.network(random.Random(7), [6, 8, 3])
        self.rows = [[(i * 7 + k) % 5 / 4 - 0.5 for k in range(6)] for i in range(40)]
        self.model = self.write("m.safetensors", days.safetensors(self.network.tensors(), self.network.metadata()))
        self.input = self.write("i.npy", days.npy(self.rows))

    def write(self, name, contents):
        (self.folder / name).write_bytes(contents)
        return str(self.folder / name)

    def run_arguments(self, *more, model=None, input=None):
        return ["run", model or self.model, input or self.input, "--device", "cpu", *more]

    def expect(self, came, code, *words):
        self.assertEqual(came.code, code, came)
        self.assertEqual(days.wrong_words(came), "", came)
        for word in words:
            self.assertIn(word, came.err.decode(), came)
        self.assertEqual(days.temporary_files(self.folder), [], came)
        return came

    def expect_refused(self, arguments, *words, **circumstances):
        before = sorted(os.listdir(self.folder))
        self.expect(days.run(TOOL, arguments, **circumstances), 2, *words)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def expect_answers(self, arguments, output, network=None, **circumstances):
        came = self.expect(days.run(TOOL, arguments, **circumstances), 0)
        self.assertTrue(days.holds_answers(output, self.rows, network or self.network), came)
        return came


class networks(tool_case):
    """A network runs with the activations that its file or the command line names, or not at all."""

    def write_model(self, metadata=None, numbers=None, more=None):
        tensors = self.network.tensors(numbers) | (more or {})
        return self.write("other.safetensors", days.safetensors(tensors, metadata))

    def expect_model_refused(self, *words, arguments=(), **made):
        output = str(self.folder / "o.npy")
        model = self.write_model(**made)
        for command in (["inspect", model], self.run_arguments("--output", output, model=model)):
            self.expect_refused([*command, *arguments], model, *words)

    def test_without_metadata_are_refused_with_the_activations_that_would_be_accepted(self):
        self.expect_model_refused("--activation", "none, identity, linear, relu, gelu, sigmoid, tanh, softmax")

    def test_without_metadata_run_with_the_activation_that_the_command_line_says(self):
        output = str(self.folder / "o.npy")
        for hidden, last in (("relu", "none"), ("tanh", "sigmoid"), ("gelu", "none")):
            network = days.network(random.Random(7), [6, 8, 3], hidden, last)
            arguments = self.run_arguments(
                "--output", output, "--activation", hidden, "--output-activation", last, model=self.write_model())
            self.expect_answers(arguments, output, network)

    def test_with_misspelt_or_unknown_metadata_are_refused_with_those_known(self):
        for metadata in ({"activaton": "relu"}, {"activation": "relu", "epochs": "3"}):
            self.expect_model_refused("is not known; known are activation, output_activation", metadata=metadata)
        self.expect_model_refused("unknown activation 'swish'; accepted are none,", metadata={"activation": "swish"})

    def test_whose_layers_have_no_place_for_the_activation_are_refused(self):
        self.expect_model_refused("no place for the activation relu", metadata={"activation": "relu"}, numbers=[0, 1])
        self.expect_model_refused("no place", numbers=[0, 1], arguments=["--activation", "relu"])

    def test_with_gaps_that_hide_modules_are_refused(self):
        for numbers in ([0, 3], [1, 3], [0, 20]):
            self.expect_model_refused("nn.Sequential" if numbers[0] else "places after", numbers=numbers,
                                      arguments=["--activation", "relu"])

    def test_with_normalisations_are_refused_by_name(self):
        self.expect_model_refused("LayerNorm", more={"1.weight": ([8], [1.0] * 8), "1.bias": ([8], [0.0] * 8)},
                                  metadata={"activation": "relu"})
        self.expect_model_refused("BatchNorm", more={"1.running_mean": ([8], [1.0] * 8)}, metadata={"activation": "relu"})

    def test_that_say_another_activation_than_the_command_line_are_refused(self):
        self.expect_model_refused("tanh", "relu", metadata={"activation": "tanh"}, arguments=["--activation", "relu"])

    def test_unknown_activations_of_the_command_line_are_refused_with_those_known(self):
        self.expect_refused(self.run_arguments("--activation", "swish"), "--activation", "accepted are none, identity")


class text(tool_case):
    """Names reach a terminal in printable form."""

    HOSTILE = "\x1b]0;title\x07\r\b\n\x7f\u009b31m\u202e"

    def test_names_of_layers_are_printable_in_tables(self):
        prefix = self.HOSTILE + "."
        model = self.write("h.safetensors", days.safetensors(self.network.tensors(prefix=prefix), self.network.metadata()))
        came = self.expect(days.run(TOOL, ["inspect", model]), 0)
        self.assertEqual(came.out.count(b"\n"), 9, came)
        self.assertIn(rb"\x1b]0;title\x07", came.out)
        as_json = self.expect(days.run(TOOL, ["inspect", model, "--json"]), 0)
        self.assertEqual(json.loads(as_json.out)["nodes"][0]["name"], prefix + "0")

    def test_names_in_files_and_paths_are_printable_in_errors(self):
        model = self.write("h.safetensors", days.safetensors({self.HOSTILE: ([1], [0.0])}))
        self.expect_refused(["inspect", model], r"\x1b]0;title\x07", r"\u009b31m")
        for name in (self.HOSTILE.encode(), b"\xff\xfe\x9b"):
            path = os.fsencode(self.folder) + b"/" + name
            self.expect_refused(["inspect", path], "No such file")
            self.expect_refused(["run", path, path, "--what", path])
            self.expect_refused(["run", self.model, self.input, "--device", name])

    def test_paths_are_printable_in_reports(self):
        for name in (self.HOSTILE.encode(), b"\xff\xfe\x9b"):
            output = os.fsencode(self.folder) + b"/" + name
            came = self.expect_answers(self.run_arguments("--output", output), output)
            self.assertIn(b"\noutput  ", came.out)
            came = self.expect_answers(self.run_arguments("--output", output, "--json"), output)
            json.loads(came.out)

    def test_inspect_takes_a_time_that_grows_with_the_layers(self):
        count = 20_000
        one = {f"{i}.weight": ([1, 1], [1.0]) for i in range(0, 2 * count, 2)}
        model = self.write("deep.safetensors", days.safetensors(one, {"activation": "relu"}))
        resource_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        came = self.expect(days.run(TOOL, ["inspect", model]), 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(came.out.count(b"\n"), 2 * count + 5)  # products, activations, inputs, rows
        self.assertLess(used.ru_utime - resource_before.ru_utime, 10)  # was a minute


class outputs(tool_case):
    """Files that cannot be written are known before the run."""

    def test_empty_names_are_refused(self):
        for option in ("--output", "--trace", "--timeline"):
            self.expect_refused(self.run_arguments(option, ""), option, "the name is empty")

    def test_names_that_are_too_long_are_refused(self):
        for option in ("--output", "--trace", "--timeline"):
            self.expect_refused(self.run_arguments(option, str(self.folder / ("n" * 256))), "name too long")
        longest = str(self.folder / ("n" * 255))
        self.expect_answers(self.run_arguments("--output", longest), longest)

    def test_two_outputs_that_are_one_file_by_a_link_are_refused(self):
        (self.folder / "real").mkdir()
        (self.folder / "link").symlink_to("real")
        for first, second in (("real/o", "link/o"), ("link/o", "real/../real/o"), ("./o", "o")):
            names = [str(self.folder) + "/" + first, str(self.folder) + "/" + second]
            self.expect_refused(self.run_arguments("--output", names[0], "--trace", names[1]), "written twice")
            self.expect_refused(self.run_arguments("--trace", names[0], "--timeline", names[1]), "written twice")
        self.expect_refused(self.run_arguments("--output", "o", "--trace", "link/../o"), "written twice", cwd=self.folder)

    @unittest.skipIf("SLUICE_COUNTS_LINES" in os.environ, "a program that counts lines writes the counts when it ends")
    def test_a_disk_without_room_is_the_systems_fault(self):
        input = str(self.folder / "zeros.npy")
        days.write_zeros(input, 100_000, 6)
        output = str(self.folder / "o.npy")
        came = days.run(TOOL, self.run_arguments("--output", output, input=input), limits={"file bytes": 100_000})
        self.expect(came, 1, output, "File too large")
        self.assertFalse(os.path.exists(output))

    def test_an_input_that_changes_while_it_is_read_gives_no_output(self):
        input = str(self.folder / "zeros.npy")
        days.write_zeros(input, 400_000, 6)
        size = os.path.getsize(input)
        output = str(self.folder / "o.npy")
        for change in (lambda: os.truncate(input, size // 2), lambda: os.truncate(input, 4096),
                       lambda: os.truncate(input, size - 8)):
            os.truncate(input, size)
            process = days.running(TOOL, self.run_arguments("--batch", "4", "--output", output, input=input))
            self.assertTrue(days.wait_for_temporary(process, self.folder))
            change()
            self.expect(process.wait(), 2, input, "while it was read")
            self.assertFalse(os.path.exists(output))


class processes(tool_case):
    """Descriptors, signals, memory."""

    def test_closed_descriptors_do_not_reach_the_output(self):
        output = str(self.folder / "o.npy")
        for closed in ([2], [0], [0, 2]):
            self.expect_answers(
                self.run_arguments("--output", output, "--progress", "--batch", "1"), output, closed=closed)
        for closed in ([1], [0, 1], [1, 2], [0, 1, 2]):
            came = days.run(TOOL, self.run_arguments("--output", output, "--progress"), closed=closed)
            self.assertEqual(came.code, 1, came)  # the report could not be written
            self.assertTrue(days.holds_answers(output, self.rows, self.network), came)

    def start_long_run(self, *more, **circumstances):
        input = str(self.folder / "zeros.npy")
        if not os.path.exists(input):
            days.write_zeros(input, 1 << 26, 6)
        process = days.running(
            TOOL, self.run_arguments("--batch", "16", "--output", str(self.folder / "o.npy"), *more, input=input),
            **circumstances)
        self.assertTrue(days.wait_for_temporary(process, self.folder, 4096))
        return process

    def test_signals_that_ask_leave_no_file(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            process = self.start_long_run()
            process.send(number)
            self.expect(process.wait(), 130, "sluice: interrupted\n")
            self.assertFalse((self.folder / "o.npy").exists())

    def test_signals_that_end_a_process_leave_no_file(self):
        numbers = [signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU]
        if not IS_SANITIZED:  # these are the sanitizer's
            numbers += [signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS]
        for number in numbers:
            process = self.start_long_run(limits=None)
            process.send(number)
            came = process.wait()
            self.assertEqual(came.code, -number, came)
            self.assertEqual(days.temporary_files(self.folder), [], came)

    def test_signals_that_are_ignored_stay_so(self):
        process = self.start_long_run(ignored=[signal.SIGHUP])
        status = pathlib.Path(f"/proc/{process.process.pid}/status").read_text()
        ignored = int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16)
        self.assertTrue(ignored >> (signal.SIGHUP - 1) & 1)
        process.send(signal.SIGTERM)
        self.expect(process.wait(), 130)

    def test_a_second_signal_ends_it_at_once(self):
        # One batch of this takes half a minute.
        wide = days.network(random.Random(1), [1024, 1024])
        model = self.write("wide.safetensors", days.safetensors(wide.tensors(), wide.metadata()))
        input = str(self.folder / "wide.npy")
        days.write_zeros(input, 1_000_000, 1024)
        process = days.running(TOOL, ["run", model, input, "--device", "cpu", "--streams", "1", "--batch", "200000",
                                      "--output", str(self.folder / "o.npy")])
        started = time.monotonic()
        while not days.temporary_files(self.folder) and time.monotonic() < started + 2:
            time.sleep(0.01)  # it may also still be warming up: then the first one ends it
        for _ in range(2):
            process.send(signal.SIGINT)
            time.sleep(0.05)  # two of a kind that wait to be delivered are one
        asked = time.monotonic()
        came = process.wait(60)
        self.assertLess(time.monotonic() - asked, 5)
        self.expect(came, 130, "sluice: interrupted\n")

    def test_a_reader_of_progress_that_goes_away_does_not_matter(self):
        input = str(self.folder / "zeros.npy")
        days.write_zeros(input, 20_000, 6)
        output = str(self.folder / "o.npy")
        reader, writer = os.pipe()
        os.close(reader)
        try:
            came = days.run(TOOL, self.run_arguments("--progress", "--batch", "4", "--output", output, input=input),
                            err=writer)
        finally:
            os.close(writer)
        self.expect(came, 0)
        self.assertTrue(days.holds_answers(output, 20_000, self.network))

    def run_on_terminal(self, columns, environment):
        """What the tool writes to a terminal of this width on standard error."""
        input = str(self.folder / "zeros.npy")
        days.write_zeros(input, 20_000, 6)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([TOOL, *self.run_arguments("--batch", "4", input=input)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=slave, env=os.environ | environment)
        os.close(slave)
        written = b""
        try:
            while piece := os.read(master, 65536):
                written += piece
        except OSError:  # the end of a terminal
            pass
        os.close(master)
        self.assertEqual(process.wait(), 0)
        return written.decode()

    def test_progress_fits_into_the_terminal(self):
        for columns, environment in ((80, {}), (20, {}), (200, {"COLUMNS": "20"}), (8, {}), (1, {})):
            environment = {"TERM": "xterm", "COLUMNS": ""} | environment
            width = int(environment["COLUMNS"] or columns)
            written = self.run_on_terminal(columns, environment)
            for line in written.replace("\x1b[K", "").split("\r"):
                self.assertLess(len(line), max(2, width), written)
            self.assertEqual("%" in written, width >= 8, written)
            self.assertNotIn("\n", written)

    def test_progress_needs_a_cursor(self):
        for kind in ("dumb", ""):
            self.assertEqual(self.run_on_terminal(80, {"TERM": kind}), "")

    def test_errors_of_signals_are_json_when_requested(self):
        process = self.start_long_run("--json")
        process.send(signal.SIGTERM)
        came = process.wait()
        self.assertEqual(came.code, 130, came)
        self.assertEqual(json.loads(came.err)["error"], {"kind": "interrupted", "message": "interrupted", "status": 130})

    def test_short_memory_is_reported_with_file_and_size(self):
        if IS_SANITIZED:
            self.skipTest("sanitizers reserve more addresses than any limit leaves")
        size = 1 << 29
        header = json.dumps({"__metadata__": {"activation": "relu"},
                             "0.weight": {"dtype": "F32", "shape": [1 << 13, 1 << 14], "data_offsets": [0, size]}}).encode()
        model = self.write("large.safetensors", len(header).to_bytes(8, "little") + header)
        os.truncate(model, 8 + len(header) + size)
        self.expect_refused(["inspect", model], model, "0.weight", str(size // 4), "memory",
                            limits={"memory": size + (size >> 1)})

    def test_a_distributed_report_distinguishes_infinity_from_nan(self):
        for worst in (float("inf"), float("nan")):
            answers = [self.network.answer(row) for row in self.rows]
            answers[3][1] = worst
            reference = self.write("r.npy", days.npy(answers))
            alone = days.run(TOOL, self.run_arguments("--reference", reference))
            ranks = days.run(TOOL, self.run_arguments("--reference", reference, "--distributed"))
            if b"built without MPI" in ranks.err or b"has no MPI" in ranks.err:
                self.skipTest("no MPI")
            line = lambda came: [each for each in came.out.split(b"\n") if each.startswith(b"largest")]
            self.assertEqual(line(ranks), line(alone), ranks)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--sanitized"]
    IS_SANITIZED = len(words) + 1 != len(sys.argv)
    TOOL = os.path.abspath(words[0])
    unittest.main(argv=[sys.argv[0], *words[1:]], verbosity=2)
