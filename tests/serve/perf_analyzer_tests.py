#!/usr/bin/env python3
"""Runs Triton's perf_analyzer against `sluice serve` for a moment, over HTTP and gRPC. It exits with 0 also when requests
have failed, so this reads its report.

    perf_analyzer_tests.py TOOL PERF_ANALYZER       scripts/client_tests brings the latter
"""

import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

from served_digits import ServedDigits

TOOL, PROGRAM = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")


class PerfAnalyzer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServedDigits(TOOL, "--shared-memory")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def measure(self, *words):
        """Any spread is stable enough: this is about answers, not about speed."""
        before = self.answered()
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.csv"
            command = [PROGRAM, "-m", "digits", "-p", "250", "-s", "100000", "-r", "5", "-f", str(report), *words]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120)
            said = run.stdout + run.stderr
            self.assertEqual(run.returncode, 0, said)
            self.assertTrue(report.exists(), said)
            rows = list(csv.DictReader(report.read_text().splitlines()))
        self.assertEqual(len(rows), 1, said)
        self.assertGreater(float(rows[0]["Inferences/Second"]), 0, said)
        self.assertGreater(self.answered(), before, said)

    def answered(self):
        lines = self.server.get("/metrics")[1].splitlines()
        at = [each for each in lines if each.startswith("sluice_inference_requests_total") and '"success"' in each]
        return sum(float(each.split()[-1]) for each in at)

    def require_grpc(self):
        if not self.server.has_grpc:
            self.skipTest("this tool was built without gRPC")

    def test_http_binary(self):
        self.measure("-i", "http", "-u", self.server.address)

    def test_http_json_in_batches(self):
        self.measure("-i", "http", "-u", self.server.address, "-b", "4", "--input-tensor-format", "json",
                     "--output-tensor-format", "json")

    def test_http_with_several_requests_at_a_time(self):
        self.measure("-i", "http", "-u", self.server.address, "--async", "--concurrency-range", "8")

    def test_grpc(self):
        self.require_grpc()
        self.measure("-i", "grpc", "-u", self.server.grpc_address)

    def test_grpc_in_batches(self):
        self.require_grpc()
        self.measure("-i", "grpc", "-u", self.server.grpc_address, "-b", "4")

    def test_a_stream_over_grpc(self):
        self.require_grpc()
        self.measure("-i", "grpc", "-u", self.server.grpc_address, "--streaming", "--async")

    def test_shared_memory_over_grpc(self):
        self.require_grpc()
        self.measure("-i", "grpc", "-u", self.server.grpc_address, "--shared-memory", "system",
                     "--output-shared-memory-size", "64")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
