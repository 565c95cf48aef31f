#!/usr/bin/env python3
"""Trains the small network in models/digits.safetensors and writes the data it is judged by.

A 64-128-64-10 ReLU network (PyTorch nn.Sequential) learns the UCI handwritten digits that scikit-learn carries:
1,797 images of 8 x 8 pixels, scaled to [0, 1]. A quarter of them, the same share of each digit, is held out.

Written: models/digits.safetensors, and of the held-out images data/digits_inputs.npy (float32 [N, 64]),
data/digits_labels.npy (int64 [N]) and data/digits_logits.npy (float32 [N, 10], the trainer's own output).

Needs torch, scikit-learn, safetensors and numpy; nothing is downloaded. Run from the root of the repository. With
the same versions on the same kind of machine the output is the same, byte for byte.
"""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 7
HELD_OUT = 0.25
EPOCHS = 60
BATCH = 32


def load():
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    return train_test_split(images, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED)


def make_network():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model, images, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    loss_of = nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        schedule.step()


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # sums in one order
    torch.use_deterministic_algorithms(True)

    train_images, test_images, train_labels, test_labels = load()
    model = make_network()
    train(model, torch.from_numpy(train_images), torch.from_numpy(train_labels))
    with torch.no_grad():
        logits = model(torch.from_numpy(test_images)).numpy()
    accuracy = float((logits.argmax(axis=1) == test_labels).mean())
    print(f"held out: {len(test_labels)} images, accuracy {accuracy:.4f}")
    if accuracy < 0.97:
        raise SystemExit("the network is not good enough; nothing was written")

    models, data = pathlib.Path("models"), pathlib.Path("data")
    models.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    save_file(model.state_dict(), models / "digits.safetensors", metadata={"activation": "relu"})
    np.save(data / "digits_inputs.npy", test_images)
    np.save(data / "digits_labels.npy", test_labels)
    np.save(data / "digits_logits.npy", logits)


if __name__ == "__main__":
    main()
