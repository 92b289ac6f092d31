"""The page: running topologies in a browser, and as REST. It reads only while it is watched.

    RunningTopology ─► reading ─► model ─┬─ feed (1 Hz while there is a listener) ─► stream ─┐
                                         └─ routes (REST) ──────────── guard ─ app ──────────┴─► static: the page

Pure: cause (why a spout waits), history (the past), error_groups, settings, guard, openapi, text.
`aiohttp` is imported with the first name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import Dashboard, subapp

__all__ = ["Dashboard", "subapp"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(".app", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
