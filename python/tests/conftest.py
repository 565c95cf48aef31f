# SPDX-License-Identifier: Apache-2.0
"""The networks and the data of the repository. All tests run on a CPU device, except those of test_gpu.py."""

import pathlib

import numpy
import pytest

import sluice

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = ROOT / "tests/c/networks"


@pytest.fixture(scope="session")
def runtime():
    return sluice.Runtime(cuda=False)


@pytest.fixture(scope="session")
def digits(runtime):
    return runtime.load(ROOT / "models/digits.onnx")


@pytest.fixture(scope="session")
def digits_cnn(runtime):
    return runtime.load(ROOT / "models/digits_cnn.onnx")


@pytest.fixture(scope="session")
def tokens(runtime):
    return runtime.load(NETWORKS / "tokens.onnx")


@pytest.fixture(scope="session")
def types(runtime):
    return runtime.load(NETWORKS / "types.onnx")


@pytest.fixture(scope="session")
def pixels():
    return numpy.load(ROOT / "data/digits_inputs.npy")


@pytest.fixture(scope="session")
def logits():
    return numpy.load(ROOT / "data/digits_logits.npy")


class OnlyDLPack:
    """An array that shows itself through DLPack only, as PyTorch's do. Counts the capsules that it gives."""

    def __init__(self, array, knows_versions=True, device=None):
        self.array, self.knows_versions, self.device, self.given = array, knows_versions, device, 0

    def __dlpack__(self, **options):
        if "max_version" in options and not self.knows_versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.given += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class LikePyTorch(OnlyDLPack):
    """The same with what a tensor of PyTorch has: dtype, shape, and a method named size."""

    def __init__(self, array):
        super().__init__(array)
        self.dtype, self.shape = f"torch.{array.dtype}", array.shape

    def size(self):
        return self.shape


class CudaArray:
    """An object with __cuda_array_interface__, as CuPy's arrays have it. The address is never read here."""

    def __init__(self, **entries):
        self.__cuda_array_interface__ = {"shape": (1, 64), "typestr": "<f4", "data": (0x7F0000000000, False),
                                         "version": 3, "stream": None} | entries
        for name in [name for name, value in entries.items() if value is ...]:
            del self.__cuda_array_interface__[name]
