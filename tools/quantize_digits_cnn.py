#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes models/digits_cnn_int8.onnx: the convolutional network of the digits with 8-bit weights and activations.

ONNX Runtime's quantization puts a QuantizeLinear and a DequantizeLinear before each product (QDQ). It measures the
ranges of the activations with 256 of the images that the network was trained with.

Written: the model, and data/digits_cnn_int8_logits.npy (float32 [N, 10]): what ONNX Runtime gives for the images in
data/digits_inputs.npy, node by node, without its own fusions.

Needs onnx, onnxruntime, scikit-learn and numpy; nothing is downloaded. Run from the root of the repository.
"""

import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED, HELD_OUT = 7, 0.25  # of tools/train_digits.py
NEEDED_ACCURACY = 0.975


class Images(quantization.CalibrationDataReader):
    def __init__(self, images):
        self.batches = iter(np.split(images, 8))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"input": batch}


def logits_of(path, images):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options).run(None, {"input": images})[0]


def main():
    digits = load_digits()
    train, test, _, labels = train_test_split((digits.data / 16).astype(np.float32), digits.target,
                                              test_size=HELD_OUT, stratify=digits.target, random_state=SEED)
    if not np.array_equal(test, np.load("data/digits_inputs.npy")):
        raise SystemExit("data/digits_inputs.npy holds other images than were held out here; nothing was written")
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "int8.onnx"
        quantization.quantize_static("models/digits_cnn.onnx", made, Images(train[:256]), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ,
                                     activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)
        exported = onnx.load(made)
        logits = logits_of(made, test)
    accuracy = float((logits.argmax(1) == labels).mean())
    print(f"held out: {len(labels)} images, accuracy {accuracy:.4f}")
    print(f"largest difference from f32: {np.abs(logits - np.load('data/digits_cnn_logits.npy')).max():.3f}")
    if accuracy < NEEDED_ACCURACY:
        raise SystemExit("the network is not good enough; nothing was written")
    onnx.checker.check_model(exported, full_check=True)
    path = pathlib.Path("models/digits_cnn_int8.onnx")
    path.write_bytes(exported.SerializeToString(deterministic=True))
    np.save(pathlib.Path("data") / "digits_cnn_int8_logits.npy", logits)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
