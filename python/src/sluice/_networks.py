# SPDX-License-Identifier: Apache-2.0
"""What Python's own modules ask of a network: its signature, and how to pickle it."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    import inspect
    from collections.abc import Callable

    from ._sluice import Network


class Signature:
    """Network.__signature__, which inspect.signature(net) asks for: the parameters of net(...)."""

    def __get__(self, network: Network | None, owner: type | None = None) -> inspect.Signature:
        if network is None:
            raise AttributeError("__signature__")  # the class itself is not made by calling it
        import inspect

        names = [each.name for each in network.inputs]
        parameters: list[inspect.Parameter] = []
        has_name = True
        for i in reversed(range(len(names))):
            name = names[i]
            if not name.isidentifier() or name in names[:i]:
                # No name of Python's: given by position, and so are those before it. Or by **{name: array}.
                has_name, name = False, f"input_{i}"
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if has_name else inspect.Parameter.POSITIONAL_ONLY
            parameters.insert(0, inspect.Parameter(name, kind))
        for name in ("out", "outputs"):
            if name not in names:
                parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
        return inspect.Signature(parameters)


def load_again(function: str, source: bytes, device: str, named: dict[str, typing.Any]) -> Network:
    """The network of a pickle: loaded by sluice.load or sluice.loads, on the default runtime of this process."""
    import sluice

    return getattr(sluice, function)(source, device, **named)


def reduced(network: Network) -> tuple[Callable[..., Network], tuple[typing.Any, ...]]:
    """For pickle: what loads the network again. The file itself is not in the pickle; the bytes of loads are."""
    if network._made_by is None:
        raise TypeError("a network that was written node by node cannot be pickled: pickle the function that writes it")
    return load_again, network._made_by
