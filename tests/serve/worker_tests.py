#!/usr/bin/env python3
"""`sluice serve --workers`: what clients see when worker processes are killed, stop, or fail, and that none outlives the server.

    worker_tests.py TOOL
"""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fault_tests import Asker, metric, wait_until
from served_digits import ServedDigits

TOOL = sys.argv[1] if len(sys.argv) > 1 else ""


def state_of(process):
    """The letter that the system has for it; none where it is gone."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_there(process):
    return state_of(process) not in (None, "Z", "X")


def workers_of(server):
    """The processes that the server has started, and that have begun to be workers."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if parent == server.process.pid and b"serve-worker" in words:
            found.append(int(folder.name))
    return found


class Load:
    """Clients that ask until the end, and what they got."""

    def __init__(self, server, clients=4):
        self.statuses, self.failures, self.ends = {}, [], False
        self.asked = [0] * clients
        self.threads = [threading.Thread(target=self.ask, args=(server, i)) for i in range(clients)]
        for each in self.threads:
            each.start()

    def ask(self, server, first):
        with contextlib.closing(Asker(server.port)) as asker:
            row = first
            while not self.ends:
                try:
                    status = asker.infer(row % 100)
                except Exception as failure:  # a wrong answer, or none
                    self.failures.append(repr(failure))
                    return
                self.statuses[status] = self.statuses.get(status, 0) + 1
                row += 1
                self.asked[first] += 1

    def answered(self):
        return self.statuses.get(200, 0)

    def wait_for_each(self, requests):
        """Until each client has had as many answers more: what was computed before is answered then."""
        wanted = [each + requests for each in self.asked]
        wait_until("answers", lambda: self.failures or all(map(lambda has, wants: has >= wants, self.asked, wanted)))

    def end(self):
        self.ends = True
        for each in self.threads:
            each.join()


class Workers(unittest.TestCase):
    def serve(self, *options):
        self.log = tempfile.TemporaryFile("w+")
        self.server = ServedDigits(TOOL, *options, stderr=self.log)
        self.addCleanup(self.server.kill)
        return self.server

    def lines(self):
        self.log.seek(0)
        return self.log.read()

    def test_workers_that_are_killed_under_load_cost_no_request(self):
        server = self.serve("--workers", "2")
        load = Load(server)
        for i in range(4):  # fewer than are given up
            load.wait_for_each(5)
            os.kill(random.choice(workers_of(server)), signal.SIGKILL)
            wait_until("a replacement", lambda: metric(server, "sluice_worker_restarts_total") == i + 1)
            wait_until("three workers", lambda: metric(server, "sluice_workers") == 3)
        load.end()
        self.assertEqual(load.failures, [])
        self.assertEqual(set(load.statuses), {200}, load.statuses)
        self.assertIn("signal 9", self.lines())
        server.end()
        self.assertIn("every request that was accepted is answered", self.lines())

    def test_a_worker_that_stops_is_replaced(self):
        server = self.serve("--workers", "1", "--worker-timeout", "5")
        first = workers_of(server)
        os.kill(min(first), signal.SIGSTOP)
        with contextlib.closing(Asker(server.port)) as asker:
            for row in range(20):
                self.assertEqual(asker.infer(row), 200)
        os.kill(max(first), signal.SIGSTOP)
        with contextlib.closing(Asker(server.port)) as asker:
            for row in range(20):
                self.assertEqual(asker.infer(row), 200)
        self.assertIn("a batch took longer than 5 s, so it was killed", self.lines())
        server.end()

    def test_workers_that_were_stopped_together_with_the_server_go_on(self):
        server = self.serve("--workers", "1", "--worker-timeout", "1")
        workers = workers_of(server)
        everyone = [server.process.pid, *workers]
        for each in everyone:
            os.kill(each, signal.SIGSTOP)
        time.sleep(8)  # more than a worker may be silent
        for each in everyone:
            os.kill(each, signal.SIGCONT)
        with contextlib.closing(Asker(server.port)) as asker:
            for row in range(20):
                self.assertEqual(asker.infer(row), 200)
        time.sleep(0.5)
        self.assertEqual(metric(server, "sluice_worker_restarts_total"), 0, self.lines())
        self.assertEqual(sorted(workers_of(server)), sorted(workers))
        server.end()

    def test_no_worker_outlives_a_server_that_is_killed(self):
        server = self.serve("--workers", "2")
        workers = workers_of(server)
        self.assertEqual(len(workers), 3)
        server.process.kill()
        wait_until("the end of all workers", lambda: not any(is_there(each) for each in workers))

    def test_an_orderly_end_under_load_answers_all_and_ends_the_workers(self):
        server = self.serve("--workers", "1")
        workers = workers_of(server)
        for each in workers:  # as a terminal and service managers do
            os.kill(each, signal.SIGINT)
            os.kill(each, signal.SIGTERM)
        load = Load(server)
        wait_until("answers", lambda: load.answered() > 100 or load.failures)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=60), 0)
        load.end()
        self.assertEqual([each for each in load.statuses if each not in (200, 503)], [])
        self.assertFalse(any(is_there(each) for each in workers))

    def test_workers_that_end_too_often_are_given_up_and_the_server_ends(self):
        server = self.serve("--workers", "1", "--spare-workers", "0")
        while server.process.poll() is None:
            for each in workers_of(server):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            time.sleep(0.05)
        self.assertEqual(server.process.wait(timeout=60), 1)
        lines = self.lines()
        self.assertIn("ended 5 times within a minute", lines)
        self.assertIn("the devices of all models have failed", lines)

    def test_what_does_not_go_with_workers_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "digits"
            model.mkdir()
            (model / "model.safetensors").write_bytes((pathlib.Path(__file__).parents[2] / "models/digits.safetensors").read_bytes())
            start = [TOOL, "serve", "--repository", folder, "--device", "cpu", "--port", "0", "--workers", "1"]
            got = subprocess.run([*start, "--cuda-shared-memory"], capture_output=True, text=True, timeout=60)
            self.assertEqual((got.returncode, "--cuda-shared-memory" in got.stderr), (2, True), got.stderr)
            (model / "config.json").write_text('{"resident": true}')
            got = subprocess.run(start, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(got.returncode, 0)
            self.assertIn("`resident`, which worker processes do not take", got.stderr)

    def test_a_worker_by_hand_says_that_it_is_none(self):
        got = subprocess.run([TOOL, "serve-worker"], capture_output=True, text=True, timeout=60)
        self.assertEqual(got.returncode, 2)
        self.assertIn("is started by `sluice serve --workers`", got.stderr)
        self.assertNotIn("serve-worker", subprocess.check_output([TOOL, "help"], text=True))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
