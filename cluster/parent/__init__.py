"""The process that runs one topology on workers.

workforce.py is the topology as one runtime: it places tasks, starts them in order and asks all workers (questions.py)
how they are. station.py is one worker as its parent handles it, worker_life.py (pure) what is known of it; chief.py is
what they report to. headquarters.py is where workers come from and report; a site.py starts them. assignment.py is
what is to run, troubles.py what workers could not do, as errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assignment import Assignment
    from .headquarters import Headquarters, Site
    from .site import ProcessSite
    from .worker_life import LifeTimings
    from .workforce import Workforce

__all__ = [
    "Assignment",
    "Headquarters",
    "LifeTimings",
    "ProcessSite",
    "Site",
    "Workforce",
]

_LATER = {
    "assignment": "Assignment",
    "headquarters": "Headquarters Site",
    "site": "ProcessSite",
    "worker_life": "LifeTimings",
    "workforce": "Workforce",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
