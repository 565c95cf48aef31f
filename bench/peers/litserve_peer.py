"""LitServe with ONNX Runtime: POST /predict with {"data": [...]}. Arguments: MODEL.onnx PORT."""

import sys

import litserve
import numpy
import onnxruntime


class Network(litserve.LitAPI):
    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def decode_request(self, request):
        return numpy.asarray(request["data"], dtype=numpy.float32).reshape(1, -1)

    def predict(self, row):
        return self.session.run(None, {self.name: row})[0]

    def encode_response(self, output):
        return {"data": output.reshape(-1).tolist()}


if __name__ == "__main__":
    litserve.LitServer(Network(), accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="error")
