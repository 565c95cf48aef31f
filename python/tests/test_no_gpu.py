# SPDX-License-Identifier: Apache-2.0
"""Where there is no GPU, each way to ask for one says why."""

import pytest
from conftest import ROOT

import sluice

pytestmark = pytest.mark.skipif(not sluice.default_runtime().why_no_gpu, reason="there is a GPU: test_gpu.py")


def test_why_there_is_no_gpu():
    why = sluice.default_runtime().why_no_gpu
    assert "NVIDIA driver" in why or "no CUDA backend" in why or "GPU" in why
    for device in ["cuda:0", "cuda"]:
        with pytest.raises(sluice.DeviceNotFoundError) as refused:
            sluice.load(ROOT / "models/digits.onnx", device)
        assert why in str(refused.value) and "cpu:0" in str(refused.value)
    assert sluice.load(ROOT / "models/digits.onnx").device == "cpu:0"
