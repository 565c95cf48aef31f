#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the gradient-boosted trees in models/tumours.onnx.

A pipeline of scikit-learn, which scales 30 features and then asks 60 trees, learns to distinguish malignant tumours (class 0)
from benign ones (class 1) by the cells in an image. A quarter of the 569 cases, the same share of each class, is held
out.

Written: models/tumours.onnx by skl2onnx, and of the held-out cases data/tumours_inputs.npy (float32 [N, 30]),
data/tumours_labels.npy (int64 [N]), and what scikit-learn gives for them: data/tumours_classes.npy (int64 [N]) and
data/tumours_probabilities.npy (float32 [N, 2]).

Needs scikit-learn, skl2onnx, onnx, onnxruntime and numpy; nothing is downloaded. Run from the root of the repository.
"""

import pathlib

import numpy as np
import onnx
import onnxruntime
import skl2onnx
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SEED = 7
HELD_OUT = 0.25
NEEDED_ACCURACY = 0.94


def main():
    cases = load_breast_cancer()
    train, test, train_labels, test_labels = train_test_split(
        cases.data.astype(np.float32), cases.target.astype(np.int64), test_size=HELD_OUT, stratify=cases.target,
        random_state=SEED)
    model = make_pipeline(StandardScaler(),
                          GradientBoostingClassifier(n_estimators=60, max_depth=4, random_state=SEED))
    model.fit(train, train_labels)
    classes, probabilities = model.predict(test), model.predict_proba(test).astype(np.float32)
    accuracy = float((classes == test_labels).mean())
    print(f"held out: {len(test_labels)} cases, accuracy {accuracy:.4f}")
    if accuracy < NEEDED_ACCURACY:
        raise SystemExit("the trees are not good enough; nothing was written")

    exported = skl2onnx.to_onnx(model, train[:1], options={"zipmap": False})
    exported.graph.name = "tumours"
    # The exported model scales with 32 bits. A number next to a threshold could get to its other side.
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    difference = float(np.abs(session.run(["probabilities"], {"X": test})[0] - probabilities).max())
    print(f"probabilities of ONNX Runtime differ by at most {difference:.1e}")
    if difference > 1e-5:
        raise SystemExit("a held-out number is too close to a threshold; nothing was written")
    onnx.checker.check_model(exported, full_check=True)
    path, data = pathlib.Path("models/tumours.onnx"), pathlib.Path("data")
    path.write_bytes(exported.SerializeToString(deterministic=True))
    np.save(data / "tumours_inputs.npy", test)
    np.save(data / "tumours_labels.npy", test_labels)
    np.save(data / "tumours_classes.npy", classes)
    np.save(data / "tumours_probabilities.npy", probabilities)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
