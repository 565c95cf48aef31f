#!/usr/bin/env python3
"""Trains the small convolutional network in models/digits_cnn.safetensors, which examples/cnn_on_one_stream runs.

Two 3 x 3 convolutions with ReLU, 16 and 32 filters, each followed by 2 x 2 max pooling, and a layer to ten classes
learn the same images as tools/train_digits.py, with the same quarter of them held out.

Written: models/digits_cnn.safetensors, and data/digits_cnn_logits.npy (float32 [N, 10], the trainer's own output for
the images in data/digits_inputs.npy).

Needs torch, scikit-learn, safetensors and numpy; nothing is downloaded. Run from the root of the repository. With
the same versions on the same kind of machine the output is the same, byte for byte.
"""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from train_digits import SEED, load, train

NEEDED_ACCURACY = 0.98


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, 10),
    )


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # sums in one order
    torch.use_deterministic_algorithms(True)

    train_images, test_images, train_labels, test_labels = load()
    if not np.array_equal(test_images, np.load("data/digits_inputs.npy")):
        raise SystemExit("data/digits_inputs.npy holds other images than were held out here; nothing was written")

    def as_images(rows):
        return torch.from_numpy(rows).reshape(-1, 1, 8, 8)

    model = make_network()
    train(model, as_images(train_images), torch.from_numpy(train_labels))
    with torch.no_grad():
        logits = model(as_images(test_images)).numpy()
    best = np.sort(logits, axis=1)
    accuracy = float((logits.argmax(axis=1) == test_labels).mean())
    print(f"held out: {len(test_labels)} images, accuracy {accuracy:.4f}")
    print(f"parameters: {sum(each.numel() for each in model.parameters())}")
    print(f"closest decision: {float((best[:, -1] - best[:, -2]).min()):.4f}")
    if accuracy < NEEDED_ACCURACY:
        raise SystemExit("the network is not good enough; nothing was written")

    names = {"0": "convolution_1", "3": "convolution_2", "7": "linear"}
    tensors = {}
    for name, value in model.state_dict().items():
        layer, part = name.split(".")
        tensors[f"{names[layer]}.{part}"] = value
    save_file(tensors, pathlib.Path("models") / "digits_cnn.safetensors")
    np.save(pathlib.Path("data") / "digits_cnn_logits.npy", logits)


if __name__ == "__main__":
    main()
