# SPDX-License-Identifier: Apache-2.0
"""await run: waits for a run in asyncio."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Generator

    from ._sluice import Run


def await_run(run: Run) -> Generator[typing.Any, None, typing.Any]:
    """The iterator of `await run`. The event loop runs other tasks meanwhile."""
    from asyncio import get_running_loop

    loop = get_running_loop()
    over = loop.create_future()

    def finish() -> None:
        if not over.done():  # the waiting task may have been cancelled
            over.set_result(None)

    def wake(_: Run) -> None:  # on a thread of the library
        try:
            loop.call_soon_threadsafe(finish)
        except RuntimeError:
            pass  # the loop has been closed: no task waits

    run.add_done_callback(wake)
    yield from over.__await__()
    return run.result()
