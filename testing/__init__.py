"""Testing tools for users' tests and for those of aiostorm: virtual time, scripted spouts, whole topologies, pytest.

    spouts.py    rows that a test scripts ─► spout         virtual_loop.py  a loop whose time jumps
    bolts.py     bolt ─► what a test can read              clock.py         moves that time
    complete.py  a whole topology, run to its end          plugin.py        pytest fixtures and marker
    harness.py   one bolt, run by the real task code       tracked.py       a running topology: is all acked?

The names here are loaded on first use: pytest imports this package in every project that has aiostorm installed, and
must not import a cluster there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assertions import assert_multiset_equal
    from .bolts import Recorder
    from .clock import SimClock
    from .complete import CompletedTopology, complete_topology
    from .errors import DeadlockError, NotAckedError, ScriptError, TimeLimitError, WaitTimeoutError
    from .harness import BoltHarness, bolt_harness
    from .spouts import FeederSpout, FixedSpout, FixedTuple
    from .tracked import FailedMessage, TrackedTopology, track_topology
    from .tuples import make_tuple
    from .virtual_loop import VirtualTimeLoop
    from .waiting import pending_tasks

__all__ = [
    "BoltHarness",
    "CompletedTopology",
    "DeadlockError",
    "FailedMessage",
    "FeederSpout",
    "FixedSpout",
    "FixedTuple",
    "NotAckedError",
    "Recorder",
    "ScriptError",
    "SimClock",
    "TimeLimitError",
    "TrackedTopology",
    "VirtualTimeLoop",
    "WaitTimeoutError",
    "assert_multiset_equal",
    "bolt_harness",
    "complete_topology",
    "make_tuple",
    "pending_tasks",
    "track_topology",
]

_MODULES = {
    "BoltHarness": "harness",
    "CompletedTopology": "complete",
    "DeadlockError": "errors",
    "FailedMessage": "tracked",
    "FeederSpout": "spouts",
    "FixedSpout": "spouts",
    "FixedTuple": "spouts",
    "NotAckedError": "errors",
    "Recorder": "bolts",
    "ScriptError": "errors",
    "SimClock": "clock",
    "TimeLimitError": "errors",
    "TrackedTopology": "tracked",
    "VirtualTimeLoop": "virtual_loop",
    "WaitTimeoutError": "errors",
    "assert_multiset_equal": "assertions",
    "bolt_harness": "harness",
    "complete_topology": "complete",
    "make_tuple": "tuples",
    "pending_tasks": "waiting",
    "track_topology": "tracked",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
