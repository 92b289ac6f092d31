"""The page: running topologies in a browser, and as REST. It reads only while it is watched.

    RunningTopology ─► reading ─► model ─┬─ feed (1 Hz while there is a listener) ─► stream ─┐
                                         └─ routes (REST) ──────────── guard ─ app ──────────┴─► static: the page

asgi: the same application behind an ASGI server.
cluster_routes, managed: a cluster with nodes (`aiostorm ui`).
Pure: cause (why a spout waits), history (the past), error_groups, settings, guard, openapi, text.
`aiohttp` is imported with the first name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import Dashboard, subapp
    from .asgi import asgi_app
    from .managed import ManagedCluster

__all__ = ["Dashboard", "ManagedCluster", "asgi_app", "subapp"]

_MODULES = {"ManagedCluster": ".managed", "asgi_app": ".asgi"}


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, ".app"), __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
