"""Errors of the nouns: topologies that cannot be built, configuration that cannot be read, emits that are refused."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime import AiostormError


class TopologyError(AiostormError):
    """A topology that cannot be built: every mistake at once, in `problems`, each naming its component."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(f"the topology has {head}:\n" + "\n".join(f"  - {p}" for p in self.problems))


class ResourceError(AiostormError):
    """A resource that is not there, or cannot be one. (What its own code raises stays what it is.)"""

    final = True  # the same name is as wrong the second time


class ConfigError(AiostormError):
    """Configuration that cannot be read or is not allowed: every mistake in `problems`, each naming key and source."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(
            problems[0]
            if len(problems) == 1
            else f"the configuration has {len(problems)} mistakes:\n" + "\n".join(f"  - {p}" for p in problems)
        )


class EmitError(AiostormError):
    """An emit that is refused: wrong arity, undeclared stream, not a row, emitted after close, …

    `row` is the place of the refused row in the batch that was split, where one row is to blame; else None.
    """

    row: int | None = None


class ColumnsError(EmitError):
    """Columns that cannot be made rows, rows that cannot be made columns, or no pyarrow to do either."""


class UnhashableKeyError(EmitError):
    """A grouping key whose value cannot be hashed the same way on every machine; `culprit` is the value to blame."""

    def __init__(self, culprit: object, where: str = "the key") -> None:
        self.culprit = culprit
        super().__init__(
            f"{where} holds a {type(culprit).__qualname__}, which has no hash that is the same in every process; "
            "emit a key of None, str, bytes, numbers, dates, UUID, Enum, tuples, frozensets or frozen dataclasses of "
            "these (a list: tuple(x); a dict: tuple(sorted(x.items())); an object: its id), or use another grouping"
        )
