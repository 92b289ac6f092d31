"""Assignment: what is to run on workers."""

from __future__ import annotations

from dataclasses import dataclass

from .worker_life import LifeTimings


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to run on workers: where the topology is imported from, and on how many."""

    target: str
    arguments: tuple[str, ...] = ()
    workers: int = 1
    remote_workers: int = 0
    timings: LifeTimings | None = None
