"""Combined: several aggregates over the same rows, each with a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .aggregates import Aggregate
from .errors import WindowError
from .values import Result, is_a


class Combined(Aggregate):
    """Several aggregates at once, by name; the result is a dict."""

    def __init__(self, aggregates: Mapping[str, Aggregate] | None = None, /, **named: Aggregate) -> None:
        self._named = {**(aggregates or {}), **named}
        if not self._named:
            raise WindowError("Combined of nothing: give aggregates by name, Combined(total=Sum(), rows=Count())")
        for name, aggregate in self._named.items():
            if not is_a(aggregate, Aggregate):
                raise WindowError(f"Combined: {name} is a {type(aggregate).__qualname__}; give an Aggregate")

    @property
    def merges(self) -> bool:
        return all(aggregate.merges for aggregate in self._named.values())

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for aggregate in self._named.values() for name in aggregate.fields))

    @property
    def whole(self) -> bool:
        return any(aggregate.whole for aggregate in self._named.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._named)

    def bound(self, fields: Sequence[str]) -> Aggregate:
        return Combined({name: aggregate.bound(fields) for name, aggregate in self._named.items()})

    def in_rows(self) -> Aggregate:
        return _InRows(self._named)

    @property
    def parts(self) -> tuple[Aggregate, ...]:
        return tuple(part for aggregate in self._named.values() for part in aggregate.parts)

    def together(self, results: Sequence[Result]) -> Result:
        named: dict[str, Result] = {}
        at = 0
        for name, aggregate in self._named.items():
            count = len(aggregate.parts)
            named[name] = aggregate.together(results[at : at + count])
            at += count
        return named

    def together_batch(self, results: Sequence[Sequence[Result]]) -> Sequence[Result]:
        names = tuple(self._named)
        if all(type(aggregate).together is Aggregate.together for aggregate in self._named.values()):
            return [dict(zip(names, row, strict=True)) for row in zip(*results, strict=True)]
        return [self.together(row) for row in zip(*results, strict=True)]


class _InRows(Combined):
    """A Combined whose result is a tuple."""

    def together(self, results: Sequence[Result]) -> Result:
        return tuple(super().together(results).values())

    def together_batch(self, results: Sequence[Sequence[Result]]) -> Sequence[Result]:
        if all(type(aggregate).together is Aggregate.together for aggregate in self._named.values()):
            return list(zip(*results, strict=True))
        return [self.together(row) for row in zip(*results, strict=True)]
