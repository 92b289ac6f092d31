"""Completing: when a topology has ended with all messages processed, its components are notified, one by one.

    wait_finished: finished ─► the tasks end ─► nothing failed? ─► component.completed(…), in a thread

If a component raises, that is a problem of the topology, and the other components are still notified.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..topology import Completion, Component, ComponentSpec
from .errors import NotCompletedError

if TYPE_CHECKING:
    from ..metrics import TopologyMetrics

log = logging.getLogger("aiostorm.cluster")


def is_whole(metrics: TopologyMetrics) -> bool:
    """Were all messages of a finished topology processed?"""
    spouts = [c for c in metrics.values() if c.kind == "spout"]
    given_up = sum(c.failed - c.replayed - c.forgotten for c in spouts)  # includes dead letters
    return given_up <= 0 and not sum(c.pending for c in spouts)


async def complete(name: str, specs: Iterable[ComponentSpec]) -> list[NotCompletedError]:
    """Notify the components that have `on_complete`; returns the errors."""
    problems = []
    for spec in specs:
        if isinstance(spec.template, Component) and not _knows(spec.template):
            continue
        try:
            component = spec.create()
            if _knows(component):
                await asyncio.to_thread(component.completed, Completion(name, spec.id, spec.parallelism))
        except Exception as error:  # of user code
            log.error("topology %s: %s: %s", name, spec.id, error, exc_info=log.isEnabledFor(logging.DEBUG))
            problems.append(NotCompletedError(f"{spec.kind} {spec.id!r}: {error}"))
    return problems


def _knows(component: Component) -> bool:
    return type(component).completed is not Component.completed
