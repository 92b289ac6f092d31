"""Completion: passed to a component when its topology is complete: all spouts have finished, all was processed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of one component, with its number of `tasks`."""

    topology: str
    component: str
    tasks: int
