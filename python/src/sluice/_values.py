# SPDX-License-Identifier: Apache-2.0
"""What networks and runtimes say of themselves."""

from __future__ import annotations

from typing import NamedTuple


class Device(NamedTuple):
    """A device of a runtime."""

    name: str
    """ "cuda:0", "cpu:1" """
    kind: str
    """ "cuda" or "cpu" """
    description: str
    """The processor's model."""
    compute_units: int
    """Multiprocessors, or worker threads."""
    memory_bytes: int


class Value(NamedTuple):
    """An input or an output of a network."""

    name: str
    dtype: str
    """NumPy's name, "float32"; or "bfloat16"."""
    shape: tuple[int | str | None, ...] | None
    """None when not even the number of dimensions is known. A dimension is a length, or the name of one that each run
    decides, "batch", or None."""


class Rounding(NamedTuple):
    """What a precision made of a network's products and convolutions."""

    precision: str
    """That was asked for, "bf16"."""
    rounded: int
    """Products and convolutions that are computed in it."""
    quantized: int
    """Those that are computed with the integers of the file."""
    kept: tuple[str, ...]
    """Those that are not rounded: the node, a colon, why."""
    how: str
    """How the device multiplies these numbers, "AVX-512-BF16"."""
    is_native: bool
    """It has instructions for them; else they are widened first, which saves no time."""


Device.__module__ = Rounding.__module__ = Value.__module__ = "sluice"
