# SPDX-License-Identifier: Apache-2.0
"""How the networks of this folder are entered: a function that gives a module and its inputs."""

from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn

NETWORKS = {}


@dataclass
class Input:
    name: str
    dims: tuple  # a number, or the name of a dimension whose length is known at run time
    make: Callable  # of a generator and a shape

    def array(self, generator, sizes):
        return self.make(generator, [sizes.get(each, each) for each in self.dims])


def floats(name, *dims):
    return Input(name, dims, lambda g, shape: g.standard_normal(shape, "float32"))


def integers(name, below, *dims):
    return Input(name, dims, lambda g, shape: g.integers(0, below, shape))


# True at the end of each row, as padding is; the first element is never padding.
def padding(name, *dims):
    def make(generator, shape):
        lengths = generator.integers(1, shape[1] + 1, (shape[0], 1))
        return lengths <= torch.arange(shape[1]).numpy()[None]

    return Input(name, dims, make)


def network(function):
    """Enters a function that gives a module and its inputs."""
    NETWORKS[function.__name__] = function
    return function


class Calls(nn.Module):
    """A module whose forward is a function of its own parts."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)
