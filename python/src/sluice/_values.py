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


class ProfileRow(NamedTuple):
    """What the device does at once: a node, or several in one kernel."""

    operators: str
    """"Conv + Relu"; of commands that belong to no node their kind, "(upload)"."""
    node: str
    """Their names, "conv1, relu1"."""
    commands: str
    """"2 x gemm, bias"."""
    microseconds: float
    """The mean of the runs, by the device's clock."""
    share: float
    """Of all rows, from 0 to 1."""


class Profile(NamedTuple):
    """The time of each node of a network. str(profile) is a table."""

    rows: tuple[ProfileRow, ...]
    """The longest first."""
    microseconds: float
    """Of a run: the sum of all rows."""
    span_microseconds: float
    """Of a run: from the first command's start to the last one's end."""
    runs: int
    on_host: int
    """Steps that are computed on the host, before the device's."""
    without_commands: int
    """Steps of the device that need none, such as a change of the shape."""

    def __str__(self) -> str:
        lines = [("us", "share", "operator", "node", "commands")]
        lines += [(f"{row.microseconds:.1f}", f"{100 * row.share:.1f} %", row.operators, row.node, row.commands)
                  for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        table = [f"{line[0]:>{widths[0]}}  {line[1]:>{widths[1]}}  " +
                 "  ".join(f"{text:<{width}}" for text, width in zip(line[2:], widths[2:])) for line in lines]
        table.append(f"all commands: {self.microseconds:.1f} us a run; from the first one's start to the last one's end "
                     f"{self.span_microseconds:.1f} us; the mean of {self.runs} runs")
        return "\n".join(line.rstrip() for line in table)


for _each in (Device, Profile, ProfileRow, Rounding, Value):
    _each.__module__ = "sluice"
