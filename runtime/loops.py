"""Which event loop to run: uvloop if it is installed, else asyncio's own. For programs, never for libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory(choice: str = "auto") -> Callable[[], asyncio.AbstractEventLoop]:
    """A factory for `asyncio.Runner`: `auto` (uvloop if installed), `uvloop` (ImportError if not) or `asyncio`."""
    if choice not in ("auto", "uvloop", "asyncio"):
        raise ValueError(f"a loop must be auto, uvloop or asyncio, not {choice!r}")
    if choice != "asyncio":
        try:
            import uvloop
        except ImportError:
            if choice == "uvloop":
                raise
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop
