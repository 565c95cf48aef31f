"""A runtime of MLServer with ONNX Runtime, by the Open Inference Protocol. serve_peers.py writes its settings."""

import mlserver
import numpy
import onnxruntime
from mlserver.codecs import NumpyCodec


class Network(mlserver.MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options,
                                                    providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        return True

    async def predict(self, payload):
        row = NumpyCodec.decode_input(payload.inputs[0]).astype(numpy.float32)
        output = self.session.run(None, {self.input: row})[0]
        return mlserver.types.InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("output", output)])
