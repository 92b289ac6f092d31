"""Wanted: what the store says of the processes of one supervisor. Data, for slots.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Assigned:
    """Of one topology: the generation of its assignment, and which of its processes this supervisor runs.

    `submitted_s`: when it was submitted: one that was killed may have had the same name and generation. `renewed`: the
    first generation whose processes are kept; 0: this one.
    """

    generation: int
    here: frozenset[str] = frozenset()
    submitted_s: float = 0.0
    renewed: int = 0

    def has(self, generation: int) -> bool:
        """Are processes of this generation kept?"""
        return (self.renewed or self.generation) <= generation <= self.generation


class Rest(NamedTuple):
    """What a parent that has ended in order has run."""

    generation: int
    submitted_s: float


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent of a topology that is there. `abandoned`: processes that it has given up, as `worker-1@4711`.

    `pid`: its process, if this supervisor has started it; else 0. `renewed`: as that of Assigned.
    """

    generation: int
    abandoned: frozenset[str] = frozenset()
    pid: int = 0
    renewed: int = 0

    def has(self, generation: int) -> bool:
        """Does it go on with processes of this generation?"""
        return (self.renewed or self.generation) <= generation <= self.generation


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the store says. `killed`: topologies that are to be killed; `unread`: those whose records cannot be read."""

    assigned: Mapping[str, Assigned] = field(default_factory=dict)
    killed: frozenset[str] = frozenset()
    parents: Mapping[str, Parent] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
