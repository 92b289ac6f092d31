"""Completion: what a component hears when its topology is whole: all spouts have finished, all was processed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """Of one component, `tasks` of it."""

    topology: str
    component: str
    tasks: int
