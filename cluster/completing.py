"""Completing: when a topology has ended, and all of it was processed, its components hear so, one by one.

    wait_finished: finished ─► the tasks end ─► nothing failed? ─► component.completed(…), in a thread

What a component raises there is a problem of the topology, and keeps no other from hearing it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ..metrics import TopologyMetrics
from ..topology import Completion, Component, ComponentSpec
from .errors import NotCompletedError

log = logging.getLogger("aiostorm.cluster")


def is_whole(metrics: TopologyMetrics) -> bool:
    """Was every message processed in the end? Asked of a topology that has finished."""
    spouts = [c for c in metrics.values() if c.kind == "spout"]
    given_up = sum(c.failed - c.replayed - c.forgotten for c in spouts)  # dead letters are among these
    return given_up <= 0 and not sum(c.pending for c in spouts)


async def complete(name: str, specs: Iterable[ComponentSpec]) -> list[NotCompletedError]:
    """Tell those that want to hear it; what went wrong."""
    problems = []
    for spec in specs:
        if isinstance(spec.template, Component) and not _hears(spec.template):
            continue
        try:
            component = spec.create()
            if _hears(component):
                await asyncio.to_thread(component.completed, Completion(name, spec.id, spec.parallelism))
        except Exception as error:  # the user's code
            log.error("topology %s: %s: %s", name, spec.id, error, exc_info=log.isEnabledFor(logging.DEBUG))
            problems.append(NotCompletedError(f"{spec.kind} {spec.id!r}: {error}"))
    return problems


def _hears(component: Component) -> bool:
    return type(component).completed is not Component.completed
