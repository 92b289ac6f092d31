"""Health: whether a topology works, for those who restart programs and route traffic: decisions only.

| | answers | no means |
|---|---|---|
| live | can it still do its work, without help from outside? | restart the program |
| ready | does it do its work now? | wait, and look again |

A topology that has failed is not live: a task was given up, and nothing in this program starts it again. One that was
killed, or has finished, is live: it ended as it was asked to. A worker that died is started again: not ready meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .runtimes import WorkerStatus

_NOT_READY: Final = {
    "STARTING": "it starts",
    "INACTIVE": "it is deactivated",
    "KILLED": "it has ended",
    "FAILED": "it has failed: a task was given up",
}


@dataclass(frozen=True, slots=True)
class Health:
    """Whether it is live and ready, and why not: `problems`."""

    live: bool = True
    ready: bool = True
    problems: tuple[str, ...] = ()


def health_of(state: str, workers: Sequence[WorkerStatus] = (), degraded: str = "") -> Health:
    """The health of one topology: its state (see State), its workers, and why it is degraded."""
    problems = [text] if (text := _NOT_READY.get(state)) else []
    if state in ("ACTIVE", "INACTIVE"):
        problems += [f"{one.name} is {one.phase}" for one in workers if one.phase != "RUNNING"]
        problems += [degraded] if degraded else []
    return Health(state != "FAILED", not problems, tuple(problems))


def health_of_all(topologies: Mapping[str, Health]) -> Health:
    """The health of a program with these topologies: as good as that of the worst. Without one it is not ready."""
    if not topologies:
        return Health(ready=False, problems=("no topology was submitted",))
    problems = tuple(f"{name}: {text}" for name, health in topologies.items() for text in health.problems)
    each = topologies.values()
    return Health(all(health.live for health in each), all(health.ready for health in each), problems)
