# SPDX-License-Identifier: Apache-2.0
"""Networks from ONNX files, on CPUs and GPUs.

    import sluice

    net = sluice.load("digits.onnx")
    logits = net(pixels)                   # waits, without the GIL
    logits = await net.submit(pixels)      # does not block the event loop
"""

from __future__ import annotations

import typing

from ._errors import (BY_STATUS, CanceledError, DeviceError, DeviceNotFoundError, Error, FileAccessError, FileError,
                      GraphRefusedError, IndexInDataError, InternalError, InvalidArgumentError, MissingFileError,
                      OutOfMemoryError, RuntimeClosedError, ShapeError, TimedOutError, UnsupportedError)
from ._sluice import Network, Prepared, Run, Runtime, Session, Tensor, __version__, _shut_down, _start
from ._networks import Signature, reduced
from ._values import Device, Profile, ProfileRow, Rounding, Value
from ._waiting import await_run

if typing.TYPE_CHECKING:
    import os

__all__ = ["CanceledError", "Device", "DeviceError", "DeviceNotFoundError", "Error", "FileAccessError", "FileError",
           "GraphRefusedError", "IndexInDataError", "InternalError", "InvalidArgumentError", "MissingFileError",
           "Network", "OutOfMemoryError", "Prepared", "Profile", "ProfileRow", "Rounding", "Run", "Runtime",
           "RuntimeClosedError", "Session", "ShapeError", "Tensor", "TimedOutError", "UnsupportedError", "Value", "__version__", "default_runtime", "devices", "load", "loads"]


def _prepare() -> None:
    import atexit
    import copyreg
    import os

    for each in (Network, Prepared, Run, Runtime, Session, Tensor):
        each.__module__ = "sluice"
    Network.__signature__ = Signature()
    copyreg.pickle(Network, reduced)
    _start(BY_STATUS, MissingFileError, Device, Value, Rounding, Profile, ProfileRow, await_run)
    atexit.register(_shut_down)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forget_default())


_prepare()

_default: Runtime | None = None
_of_parents: list[Runtime] = []  # a child never destroys them: their threads are not there


def _forget_default() -> None:
    """In a child: its own load() makes its own runtime."""
    global _default
    if _default is not None:
        _of_parents.append(_default)
        _default = None


def default_runtime() -> Runtime:
    """The runtime of load, loads and devices: made at the first call, with all GPUs and one CPU device."""
    global _default
    if _default is None:
        made = Runtime()
        if _default is None:  # another thread may have been faster: then this one's is dropped
            _default = made
    return _default


def load(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], device: str = "auto", *,
         runtime: Runtime | None = None, streams: int = 0, hidden_activation: str | None = None,
         output_activation: str | None = None, precision: str = "f32") -> Network:
    """Loads a network and puts its constants on the device.

    path: an ONNX file, or a perceptron in a file *.safetensors.
    device: "cpu", "cuda:1", "auto" (the first GPU, or else the first CPU device).
    runtime: the Runtime that has the device; without it default_runtime().
    streams: how many runs may overlap on the device; 0: four.
    hidden_activation, output_activation: of a *.safetensors file that does not say them.
    precision: of products and convolutions with constant weights: "f32", "bf16", "f16", "int8". net.rounding says what
        was rounded. Inputs and outputs keep their types.
    """
    machine = default_runtime() if runtime is None else runtime
    return machine.load(path, device, streams=streams, hidden_activation=hidden_activation,
                        output_activation=output_activation, precision=precision)


def loads(data: bytes, device: str = "auto", *, name: str = "network", runtime: Runtime | None = None,
          streams: int = 0, precision: str = "f32") -> Network:
    """The same from the bytes of an ONNX file. name is for messages; its folder is where external data is looked for."""
    machine = default_runtime() if runtime is None else runtime
    return machine.loads(data, device, name=name, streams=streams, precision=precision)


def devices() -> tuple[Device, ...]:
    """The devices of default_runtime(): GPUs first."""
    return default_runtime().devices
