"""Errors of the simulation: what makes a seed fail."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime import AiostormError


class InvariantError(AiostormError, AssertionError):
    """A promise was broken in a simulated world: `problems` says which, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class SimulatedError(Exception):
    """What user code raises because a fault script says so."""
