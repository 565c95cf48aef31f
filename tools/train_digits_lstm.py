#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the recurrent network in models/digits_lstm.onnx.

An image of a digit is a series of eight steps, its rows from top to bottom. A bidirectional LSTM reads it, and a layer
gives the ten classes. The images are those of tools/train_digits.py, with the same quarter of them held out.

Written: models/digits_lstm.onnx by PyTorch's exporter, and data/digits_lstm_logits.npy (float32 [N, 10], the trainer's
own output for the images in data/digits_inputs.npy).

Needs torch, onnx, onnxscript, scikit-learn, safetensors and numpy; nothing is downloaded. Run from the root of the
repository.
"""

import pathlib

import numpy as np
import torch
from torch import nn

from train_digits import SEED, load, train

NEEDED_ACCURACY = 0.95
STEPS, FEATURES, HIDDEN = 8, 8, 48


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, 10)

    def forward(self, images):
        _, (last, _) = self.lstm(images.reshape(-1, STEPS, FEATURES))
        return self.head(torch.cat([last[0], last[1]], 1))


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # sums in one order
    torch.use_deterministic_algorithms(True)

    train_images, test_images, train_labels, test_labels = load()
    if not np.array_equal(test_images, np.load("data/digits_inputs.npy")):
        raise SystemExit("data/digits_inputs.npy holds other images than were held out here; nothing was written")
    model = Reader()
    train(model, torch.from_numpy(train_images), torch.from_numpy(train_labels))
    with torch.no_grad():
        logits = model(torch.from_numpy(test_images)).numpy()
    accuracy = float((logits.argmax(axis=1) == test_labels).mean())
    print(f"held out: {len(test_labels)} images, accuracy {accuracy:.4f}")
    print(f"parameters: {sum(each.numel() for each in model.parameters())}")
    if accuracy < NEEDED_ACCURACY:
        raise SystemExit("the network is not good enough; nothing was written")

    batch = torch.export.Dim("batch")
    program = torch.onnx.export(model.eval(), (torch.zeros(2, STEPS * FEATURES),), dynamo=True, verbose=False,
                                input_names=["input"], output_names=["logits"], dynamic_shapes=({0: batch},))
    exported = program.model_proto
    for node in exported.graph.node:  # where in PyTorch a node comes from, in paths of this machine
        del node.metadata_props[:]
    path = pathlib.Path("models/digits_lstm.onnx")
    path.write_bytes(exported.SerializeToString(deterministic=True))
    np.save(pathlib.Path("data") / "digits_lstm_logits.npy", logits)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
