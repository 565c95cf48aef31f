#!/usr/bin/env python3
"""Asks `sluice serve` with the client of KServe's Python package, over REST and gRPC.

    kserve_tests.py TOOL        needs kserve; scripts/client_tests brings it
"""

import logging
import sys
import unittest

import grpc
import httpx
import numpy
from kserve import InferInput, InferRequest, InferenceGRPCClient, InferenceRESTClient
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

from served_digits import ROOT, ServedDigits

INPUTS = numpy.load(ROOT / "data/digits_inputs.npy")
LOGITS = numpy.load(ROOT / "data/digits_logits.npy")
TOOL = sys.argv[1] if len(sys.argv) > 1 else ""


def rows(begin, end, is_binary, columns=64):
    """A request for these rows of the digits."""
    values = numpy.ascontiguousarray(INPUTS[begin:end, :columns], dtype=numpy.float32)
    tensor = InferInput("input", list(values.shape), "FP32")
    tensor.set_data_from_numpy(values, binary_data=is_binary)
    outputs = [RequestedOutput("output", {"binary_data": is_binary})]
    return InferRequest("digits", [tensor], request_id=f"rows-{begin}", request_outputs=outputs)


def over_grpc(begin, end, columns=64):
    """The same; parameters of binary data are of REST only."""
    values = numpy.ascontiguousarray(INPUTS[begin:end, :columns], dtype=numpy.float32)
    tensor = InferInput("input", list(values.shape), "FP32")
    tensor.set_data_from_numpy(values, binary_data=True)
    tensor.parameters = {}
    return InferRequest("digits", [tensor], request_id=f"rows-{begin}")


class Clients(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServedDigits(TOOL)
        cls.url = f"http://{cls.server.address}"

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def expect(self, response, begin, end):
        self.assertEqual(response.id, f"rows-{begin}")
        logits = response.outputs[0].as_numpy()
        self.assertEqual(list(logits.shape), [end - begin, 10])
        numpy.testing.assert_allclose(logits, LOGITS[begin:end], atol=1e-4)

    def rest(self):
        return InferenceRESTClient(RESTConfig(protocol="v2", retries=0))

    async def test_health_over_rest(self):
        async with self.rest() as client:
            self.assertTrue(await client.is_server_live(self.url))
            self.assertTrue(await client.is_server_ready(self.url))
            self.assertTrue(await client.is_model_ready(self.url, "digits"))
            self.assertFalse(await client.is_model_ready(self.url, "other"))

    async def test_rows_as_json_and_as_binary_over_rest(self):
        async with self.rest() as client:
            for is_binary in False, True:
                for begin in range(0, 20, 5):
                    request = rows(begin, begin + 5, is_binary)
                    self.expect(await client.infer(self.url, request, model_name="digits"), begin, begin + 5)

    async def test_errors_over_rest(self):
        async with self.rest() as client:
            other = rows(0, 1, True)
            other.model_name = "other"
            with self.assertRaisesRegex(httpx.HTTPStatusError, "there is no model 'other'.*404"):
                await client.infer(self.url, other, model_name="other")
            with self.assertRaisesRegex(httpx.HTTPStatusError, "the body is for the model 'other'.*400"):
                await client.infer(self.url, other, model_name="digits")
            for is_binary in False, True:
                with self.assertRaisesRegex(httpx.HTTPStatusError, r"the model takes \[batch, 64\].*400"):
                    await client.infer(self.url, rows(0, 1, is_binary, 63), model_name="digits")
            self.assertTrue(await client.is_model_ready(self.url, "digits"))

    def require_grpc(self):
        if not self.server.has_grpc:
            self.skipTest("this tool was built without gRPC")

    async def test_health_over_grpc(self):
        self.require_grpc()
        async with InferenceGRPCClient(self.server.grpc_address) as client:
            self.assertTrue(await client.is_server_live())
            self.assertTrue(await client.is_server_ready())
            self.assertTrue(await client.is_model_ready("digits"))
            self.assertFalse(await client.is_model_ready("other"))

    async def test_rows_over_grpc(self):
        self.require_grpc()
        async with InferenceGRPCClient(self.server.grpc_address) as client:
            for begin in range(0, 20, 5):
                self.expect(await client.infer(over_grpc(begin, begin + 5)), begin, begin + 5)
            typed = over_grpc(0, 2)
            typed.inputs[0].set_data_from_numpy(numpy.ascontiguousarray(INPUTS[:2], dtype=numpy.float32), binary_data=False)
            self.expect(await client.infer(typed), 0, 2)

    async def test_errors_over_grpc(self):
        self.require_grpc()
        async with InferenceGRPCClient(self.server.grpc_address, retries=0) as client:
            other = over_grpc(0, 1)
            other.model_name = "other"
            with self.assertRaises(grpc.RpcError) as unknown:
                await client.infer(other)
            self.assertEqual(unknown.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertIn("there is no model 'other'", unknown.exception.details())
            with self.assertRaises(grpc.RpcError) as wrong:
                await client.infer(over_grpc(0, 1, 63))
            self.assertEqual(wrong.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("the model takes [batch, 64]", wrong.exception.details())
            self.assertTrue(await client.is_server_ready())


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # the client logs each error that it raises
    unittest.main(argv=sys.argv[:1])
