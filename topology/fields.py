"""Fields: the names of the values of a tuple.

1. Names are unique and non-empty within one `Fields`.
2. The order is the order of the values.

Storm: org.apache.storm.tuple.Fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Fields(Sequence[str]):
    """An ordered, immutable list of distinct names: `Fields("word", "count")`, or one iterable of names."""

    __slots__ = ("_names", "_positions")

    def __init__(self, *names: str | Iterable[str]) -> None:
        flat: list[str] = []
        for name in names:
            if isinstance(name, str):
                flat.append(name)
            else:
                flat.extend(name)
        for name in flat:
            if not isinstance(name, str) or not name:  # type: ignore[redundant-expr] # callers may have no type checker
                raise ValueError(f"a field name is a non-empty string, not {name!r}")
        self._names = tuple(flat)
        self._positions = {name: i for i, name in enumerate(flat)}
        if len(self._positions) != len(flat):
            twice = sorted({name for name in flat if flat.count(name) > 1})
            raise ValueError(f"field names must be distinct; given twice: {', '.join(twice)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return self._names

    def position(self, name: str) -> int:
        """The position of a name; KeyError that lists the names there are."""
        try:
            return self._positions[name]
        except KeyError:
            raise KeyError(f"no field {name!r}; the fields are: {', '.join(self._names) or '(none)'}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return self._names[at]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and other._names == self._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"Fields({', '.join(map(repr, self._names))})"
