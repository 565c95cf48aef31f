"""PyTriton with ONNX Runtime, by the Open Inference Protocol: Triton's server, and the model in Python.

Arguments: MODEL.onnx PORT PORT_OF_GRPC PORT_OF_METRICS FOLDER. FOLDER is for its files.
"""

import sys

import numpy
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def network(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    @batch
    def infer(**inputs):
        return {"output": session.run(None, {name: inputs["input"]})[0]}

    return infer


if __name__ == "__main__":
    model, port, grpc_port, metrics_port, folder = sys.argv[1:]
    config = TritonConfig(http_address="127.0.0.1", http_port=int(port), grpc_address="127.0.0.1",
                          grpc_port=int(grpc_port), metrics_port=int(metrics_port))
    with Triton(config=config, workspace=folder) as triton:
        triton.bind(model_name="digits", infer_func=network(model),
                    inputs=[Tensor(name="input", dtype=numpy.float32, shape=(64,))],
                    outputs=[Tensor(name="output", dtype=numpy.float32, shape=(10,))],
                    config=ModelConfig(max_batch_size=64, batcher=DynamicBatcher(max_queue_delay_microseconds=0)))
        triton.serve()
