"""Errors of the nouns: a topology that cannot be built, a configuration that cannot be read, an emit that is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ..actors import AiostormError


class TopologyError(AiostormError):
    """A topology that cannot be built: every mistake at once, in `problems`, each naming its component."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(f"the topology has {head}:\n" + "\n".join(f"  - {p}" for p in self.problems))


class ConfigError(AiostormError):
    """Configuration that cannot be read or does not validate; the message names key and source."""


class EmitError(AiostormError):
    """An emit that is refused: wrong arity, undeclared stream, not a row, emitted after close, …"""


class UnhashableKeyError(EmitError):
    """A grouping key whose value cannot be hashed the same way on every machine."""
