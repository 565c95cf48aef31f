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


Device.__module__ = Value.__module__ = "sluice"
