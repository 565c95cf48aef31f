# SPDX-License-Identifier: Apache-2.0
"""What networks and runtimes say of themselves."""

from collections import namedtuple

Device = namedtuple("Device", "name kind description compute_units memory_bytes", module="sluice")
Device.__doc__ = """A device: name "cuda:0", kind "cuda" or "cpu", description the processor's model."""

Value = namedtuple("Value", "name dtype shape", module="sluice")
Value.__doc__ = """An input or an output of a network.

dtype is NumPy's name, "float32"; or "bfloat16". shape is None when not even the number of dimensions is known; a
dimension is an int, or the name of one that each run decides, "batch", or None.
"""
