"""Errors of topologies: a topology cannot be built, a configuration cannot be read, an emit is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime import AiostormError


class TopologyError(AiostormError):
    """A topology cannot be built: all mistakes are in `problems`, each with its component."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(f"the topology has {head}:\n" + "\n".join(f"  - {p}" for p in self.problems))


class ResourceError(AiostormError):
    """There is no such resource, or it cannot be one. (Errors of the resource's own code are not changed.)"""

    final = True  # a restart would use the same name


class ConfigError(AiostormError):
    """A configuration cannot be read or is not allowed: all mistakes are in `problems`, each with key and source."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(
            problems[0]
            if len(problems) == 1
            else f"the configuration has {len(problems)} mistakes:\n" + "\n".join(f"  - {p}" for p in problems)
        )


class EmitError(AiostormError):
    """A refused emit: wrong number of values, undeclared stream, not a row, emitted after close, …

    `row` is the position of the refused row in its batch if one row is the cause; else None.
    """

    row: int | None = None


class ColumnsError(EmitError):
    """Columns cannot be made rows, rows cannot be made columns, or pyarrow is missing."""


class UnhashableKeyError(EmitError):
    """A grouping key cannot be hashed the same way on every machine; `culprit` is the value that cannot be hashed."""

    def __init__(self, culprit: object, where: str = "the key") -> None:
        self.culprit = culprit
        super().__init__(
            f"{where} holds a {type(culprit).__qualname__}, which has no hash that is the same in every process; "
            "emit a key of None, str, bytes, numbers, dates, UUID, Enum, tuples, frozensets or frozen dataclasses of "
            "these (a list: tuple(x); a dict: tuple(sorted(x.items())); an object: its id), or use another grouping"
        )
