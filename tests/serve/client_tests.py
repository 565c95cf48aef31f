#!/usr/bin/env python3
"""Asks `sluice serve` with tritonclient, over HTTP, synchronously and with asyncio, and over gRPC.

    client_tests.py TOOL        needs tritonclient[http,grpc] and numpy; scripts/client_tests brings them
"""

import asyncio
import base64
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as async_grpc_client
import tritonclient.http as sync_client
import tritonclient.http.aio as async_client
import tritonclient.utils.shared_memory as shared_memory
from tritonclient.utils import InferenceServerException

from served_digits import ROOT, ServedDigits, free_port, is_built_with

INPUTS = numpy.load(ROOT / "data/digits_inputs.npy")
LOGITS = numpy.load(ROOT / "data/digits_logits.npy")
TOOL = sys.argv[1] if len(sys.argv) > 1 else ""


def rows_over_grpc(begin, end):
    rows = grpc_client.InferInput("input", [end - begin, 64], "FP32")
    rows.set_data_from_numpy(INPUTS[begin:end])
    return [rows]


def rows_of(module, begin, end, binary=True):
    rows = module.InferInput("input", [end - begin, 64], "FP32")
    rows.set_data_from_numpy(INPUTS[begin:end], binary_data=binary)
    return [rows]


class Clients(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = ServedDigits(TOOL, "--shared-memory")
        cls.address, cls.grpc_address = cls.server.address, cls.server.grpc_address
        cls.has_grpc = cls.server.has_grpc
        cls.client = sync_client.InferenceServerClient(cls.address)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.end()

    def expect(self, result, begin, end):
        logits = result.as_numpy("output")
        self.assertEqual(logits.shape, (end - begin, 10))
        numpy.testing.assert_allclose(logits, LOGITS[begin:end], atol=1e-4)

    def test_health_and_metadata(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_model_ready("digits"))
        self.assertTrue(self.client.is_model_ready("digits", "1"))
        self.assertFalse(self.client.is_model_ready("other"))
        self.assertEqual(self.client.get_server_metadata()["name"], "sluice")
        model = self.client.get_model_metadata("digits")
        self.assertEqual(model["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 64]}])
        config = self.client.get_model_config("digits")
        self.assertEqual(config["max_batch_size"], 64)
        self.assertEqual(config["input"], [{"name": "input", "data_type": "TYPE_FP32", "dims": [64]}])

    def test_binary_and_json_in_and_out(self):
        for binary_in in True, False:
            for binary_out in True, False:
                outputs = [sync_client.InferRequestedOutput("output", binary_data=binary_out)]
                result = self.client.infer("digits", rows_of(sync_client, 0, 7, binary_in), outputs=outputs,
                                           request_id="seven", model_version="1")
                self.expect(result, 0, 7)
                self.assertEqual(result.get_response()["id"], "seven")

    def test_all_outputs_when_none_is_named(self):
        self.expect(self.client.infer("digits", rows_of(sync_client, 3, 4)), 3, 4)

    def test_many_requests_at_a_time(self):
        with sync_client.InferenceServerClient(self.address, concurrency=8) as client:
            pending = [client.async_infer("digits", rows_of(sync_client, i, i + 1)) for i in range(200)]
            for i, each in enumerate(pending):
                self.expect(each.get_result(), i, i + 1)

    def test_asyncio(self):
        async def ask():
            async with async_client.InferenceServerClient(self.address) as client:
                self.assertTrue(await client.is_server_ready())
                tasks = [client.infer("digits", rows_of(async_client, i, i + 2)) for i in range(100)]
                for i, result in enumerate(await asyncio.gather(*tasks)):
                    self.expect(result, i, i + 2)
        asyncio.run(ask())

    def test_errors_are_the_clients_exceptions(self):
        wrong = sync_client.InferInput("input", [1, 63], "FP32")
        wrong.set_data_from_numpy(INPUTS[:1, :63])
        with self.assertRaisesRegex(InferenceServerException, r"the model takes \[batch, 64\]"):
            self.client.infer("digits", [wrong])
        with self.assertRaisesRegex(InferenceServerException, "there is no model 'other'"):
            self.client.infer("other", rows_of(sync_client, 0, 1))
        with self.assertRaisesRegex(InferenceServerException, "the model has none"):
            self.client.infer("digits", rows_of(sync_client, 0, 1), sequence_id=5)

    def test_sequences_and_compressed_requests(self):
        folder = self.server.repository / "memory/1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes((ROOT / "tests/c/networks/memory.onnx").read_bytes())
        self.client.load_model("memory")
        clients = [(sync_client, self.client, {"request_compression_algorithm": "gzip"})]
        if self.has_grpc:
            clients.append((grpc_client, grpc_client.InferenceServerClient(self.grpc_address),
                            {"compression_algorithm": "deflate"}))
        for module, client, compressed in clients:
            x, place = module.InferInput("x", [1], "FP32"), module.InferInput("place", [1], "INT64")
            place.set_data_from_numpy(numpy.zeros(1, "int64"))
            for name in (7, "seven"):
                answers = []
                for i in range(4):
                    x.set_data_from_numpy(numpy.array([8 if i == 0 else 0], "float32"))
                    got = client.infer("memory", [x, place], sequence_id=name, sequence_start=i == 0,
                                       sequence_end=i == 3, **compressed)
                    self.assertIsNone(got.as_numpy("state_out"))
                    answers.append(float(got.as_numpy("y")[0]))
                self.assertEqual(answers, [8, 4, 2, 1])  # place 0 adds 0
                with self.assertRaisesRegex(InferenceServerException, "there is no sequence"):
                    client.infer("memory", [x, place], sequence_id=name)
        self.client.unload_model("memory")

    def test_a_timeout_that_is_long_enough(self):
        self.expect(self.client.infer("digits", rows_of(sync_client, 0, 1), timeout=10_000_000), 0, 1)

    def test_repository(self):
        row = self.client.get_model_repository_index()[0]
        self.assertEqual((row["name"], row["version"], row["state"]), ("digits", "1", "READY"))
        self.client.unload_model("digits")
        self.assertFalse(self.client.is_model_ready("digits"))
        self.client.load_model("digits")
        self.assertTrue(self.client.is_model_ready("digits"))

    def test_grpc(self):
        if not self.has_grpc:
            self.skipTest("this tool was built without gRPC")
        with grpc_client.InferenceServerClient(self.grpc_address) as client:
            self.assertTrue(client.is_server_live())
            self.assertTrue(client.is_server_ready())
            self.assertTrue(client.is_model_ready("digits", "1"))
            self.assertFalse(client.is_model_ready("other"))
            self.assertEqual(client.get_server_metadata().name, "sluice")
            self.assertEqual(list(client.get_model_metadata("digits").inputs[0].shape), [-1, 64])
            config = client.get_model_config("digits").config
            self.assertEqual((config.max_batch_size, list(config.input[0].dims)), (64, [64]))
            with self.assertRaisesRegex(InferenceServerException, "there is no model 'other'"):
                client.get_model_config("other")
            self.assertEqual(client.get_model_repository_index().models[0].state, "READY")
            outputs = [grpc_client.InferRequestedOutput("output")]
            for i in range(100):
                result = client.infer("digits", rows_over_grpc(i, i + 2), outputs=outputs, request_id=str(i), timeout=10_000_000)
                self.expect(result, i, i + 2)
                self.assertEqual(result.get_response().id, str(i))
            with self.assertRaisesRegex(InferenceServerException, "there is no model 'other'"):
                client.infer("other", rows_over_grpc(0, 1))
            statistics = client.get_inference_statistics("digits").model_stats[0]
            self.assertEqual(statistics.name, "digits")
            self.assertGreater(statistics.inference_stats.success.count, 0)

    def test_the_configuration_is_the_same_over_grpc_and_http(self):
        if not self.has_grpc:
            self.skipTest("this tool was built without gRPC")

        def without_defaults(value):
            """As protobuf's JSON has it: no zeros, which REJECT is too, and integers of 64 bits as texts."""
            if isinstance(value, dict):
                kept = {key: without_defaults(each) for key, each in value.items()}
                return {key: each for key, each in kept.items() if each not in ("0", "False", "REJECT", [], {})}
            return [without_defaults(each) for each in value] if isinstance(value, list) else str(value)

        with grpc_client.InferenceServerClient(self.grpc_address) as client:
            over_grpc = client.get_model_config("digits", as_json=True)["config"]
        over_http = self.client.get_model_config("digits")
        self.assertEqual(without_defaults(over_grpc), without_defaults(over_http))
        self.assertEqual(over_grpc["dynamic_batching"]["default_queue_policy"], {"allow_timeout_override": True})

    def test_a_stream_over_grpc(self):
        if not self.has_grpc:
            self.skipTest("this tool was built without gRPC")
        answers = queue.Queue()
        with grpc_client.InferenceServerClient(self.grpc_address) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for i in range(200):
                name = "other" if i == 100 else "digits"
                client.async_stream_infer(name, rows_over_grpc(i, i + 2), request_id=str(i),
                                          enable_empty_final_response=i == 150)
            for i in range(200):
                result, error = answers.get(timeout=30)
                if i == 100:
                    self.assertRegex(str(error), "there is no model 'other'")
                    continue
                self.assertIsNone(error)
                self.assertEqual(result.get_response().id, str(i))
                self.assertEqual(result.get_response().parameters["triton_final_response"].bool_param, i == 150)
                self.expect(result, i, i + 2)
            client.stop_stream()

    def test_asyncio_over_grpc(self):
        if not self.has_grpc:
            self.skipTest("this tool was built without gRPC")

        async def ask():
            async def requests():
                for i in range(100):
                    yield {"model_name": "digits", "inputs": rows_over_grpc(i, i + 1), "request_id": str(i)}
            async with async_grpc_client.InferenceServerClient(self.grpc_address) as client:
                self.assertTrue(await client.is_server_ready())
                tasks = [client.infer("digits", rows_over_grpc(i, i + 2)) for i in range(100)]
                for i, result in enumerate(await asyncio.gather(*tasks)):
                    self.expect(result, i, i + 2)
                i = 0
                async for result, error in client.stream_infer(requests()):
                    self.assertIsNone(error)
                    self.expect(result, i, i + 1)
                    i += 1
                self.assertEqual(i, 100)
        asyncio.run(ask())

    def share(self, module, client):
        """Inputs and outputs in shared memory, with one client."""
        rows, outputs_at = INPUTS[:7], 8192
        key = f"/sluice-client-tests-{os.getpid()}"
        memory = shared_memory.create_shared_memory_region("digits_memory", key, 16384)
        try:
            shared_memory.set_shared_memory_region(memory, [rows], offset=64)
            client.register_system_shared_memory("digits_memory", key, 16384)
            status = client.get_system_shared_memory_status()
            self.assertIn("digits_memory", str(status))
            inputs = [module.InferInput("input", [7, 64], "FP32")]
            inputs[0].set_shared_memory("digits_memory", rows.nbytes, offset=64)
            self.expect(client.infer("digits", inputs), 0, 7)
            outputs = [module.InferRequestedOutput("output")]
            outputs[0].set_shared_memory("digits_memory", 7 * 10 * 4, offset=outputs_at)
            result = client.infer("digits", inputs, outputs=outputs)
            self.assertIsNotNone(result.get_output("output"))
            logits = shared_memory.get_contents_as_numpy(memory, numpy.float32, [7, 10], offset=outputs_at)
            numpy.testing.assert_allclose(logits, LOGITS[:7], atol=1e-4)
            del logits
            with self.assertRaisesRegex(InferenceServerException, "is registered already"):
                client.register_system_shared_memory("digits_memory", key, 16384)
            inputs[0].set_shared_memory("digits_memory", rows.nbytes, offset=16000)
            with self.assertRaisesRegex(InferenceServerException, "are not in the shared memory region"):
                client.infer("digits", inputs)
            client.unregister_system_shared_memory("digits_memory")
            with self.assertRaisesRegex(InferenceServerException, "is not registered"):
                client.infer("digits", inputs)
        finally:
            client.unregister_system_shared_memory()
            shared_memory.destroy_shared_memory_region(memory)

    def test_shared_memory(self):
        self.share(sync_client, self.client)

    def test_shared_memory_over_grpc(self):
        if not self.has_grpc:
            self.skipTest("this tool was built without gRPC")
        with grpc_client.InferenceServerClient(self.grpc_address) as client:
            self.share(grpc_client, client)

    def test_statistics(self):
        def answered():
            return self.client.get_inference_statistics("digits")["model_stats"][0]["inference_stats"]["success"]["count"]
        before = answered()
        self.client.infer("digits", rows_of(sync_client, 0, 1))
        for _ in range(1000):  # a batch is counted after its answers were sent
            if answered() != before:
                break
            time.sleep(0.01)
        self.assertEqual(answered(), before + 1)


# The answer of a server that finds no GPU shows that the requests are what it expects: 64 bytes of a handle.
class CudaMemoryWithoutGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        cls.server = ServedDigits(TOOL, "--cuda-shared-memory", environment=hidden)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def ask(self, client):
        with self.assertRaisesRegex(InferenceServerException, "cannot open memory of a GPU"):
            client.register_cuda_shared_memory("a", base64.b64encode(bytes(range(64))), 0, 256)
        with self.assertRaisesRegex(InferenceServerException, "'raw_handle'"):
            client.register_cuda_shared_memory("a", base64.b64encode(bytes(63)), 0, 256)
        client.unregister_cuda_shared_memory("a")
        client.unregister_cuda_shared_memory()
        with self.assertRaisesRegex(InferenceServerException, "'a' is not registered"):
            client.get_cuda_shared_memory_status("a")
        with self.assertRaisesRegex(InferenceServerException, "--shared-memory"):
            client.get_system_shared_memory_status()

    def test_http(self):
        with sync_client.InferenceServerClient(self.server.address) as client:
            self.ask(client)
            self.assertEqual(client.get_cuda_shared_memory_status(), [])
            self.assertNotIn("cuda_shared_memory", client.get_server_metadata()["extensions"])

    def test_grpc(self):
        if not self.server.has_grpc:
            self.skipTest("this tool was built without gRPC")
        with grpc_client.InferenceServerClient(self.server.grpc_address) as client:
            self.ask(client)
            self.assertEqual(len(client.get_cuda_shared_memory_status().regions), 0)
            self.assertNotIn("cuda_shared_memory", client.get_server_metadata().extensions)


class Secure(unittest.TestCase):
    def test_grpc_with_certificates_of_both(self):
        if not is_built_with(TOOL, "gRPC") or not is_built_with(TOOL, "TLS"):
            self.skipTest("this tool was built without gRPC or without TLS")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                            "-out", certificate], check=True, capture_output=True)
            port = free_port()
            tool = subprocess.Popen([TOOL, "serve", "--device", "cpu", "--port", "0", "--grpc-port", str(port),
                                     "--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", certificate,
                                     ROOT / "models/digits.safetensors"])
            try:
                with grpc_client.InferenceServerClient(f"127.0.0.1:{port}", ssl=True, root_certificates=certificate,
                                                       private_key=key, certificate_chain=certificate) as client:
                    for _ in range(1000):
                        try:
                            if client.is_server_ready():
                                break
                        except InferenceServerException:
                            time.sleep(0.01)
                    logits = client.infer("digits", rows_over_grpc(0, 3)).as_numpy("output")
                    numpy.testing.assert_allclose(logits, LOGITS[:3], atol=1e-4)
                with grpc_client.InferenceServerClient(f"127.0.0.1:{port}", ssl=True,
                                                       root_certificates=certificate) as client:
                    with self.assertRaises(InferenceServerException):
                        client.is_server_ready()
            finally:
                tool.send_signal(signal.SIGTERM)
                self.assertEqual(tool.wait(timeout=30), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
