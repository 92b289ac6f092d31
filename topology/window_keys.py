"""Window keys: can the windows of a bolt be divided among another number of tasks? Only by the key of their rows.

    key = ("user", "page")    fields_grouping("clicks", "user")    ─► by key ranges of "user": each key has one task
                              any other grouping, or other fields  ─► they belong to their tasks: a reason is given

1. The fields of the grouping are fields of the key: all rows of a key come to the same task, at any parallelism.
2. All inputs are grouped by the same fields of the key, in the same order: equal keys of two inputs have one task.
3. Such a bolt is grouped by key ranges, whatever the guarantee, as a bolt with state by key is (key_range_inputs.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .state_checks import how_it_reads

if TYPE_CHECKING:
    from .streams import StreamId
    from .topology import Subscription


@dataclass(frozen=True, slots=True)
class WindowKey:
    """What decides which rows share windows. `fields`: the key; `single`: it is one value, and no tuple.

    `of_input`: of a join: by which fields each input is joined; its windows keep the rows of all keys together.
    `problem`: why there is no key by which the windows could be divided.
    """

    fields: tuple[str, ...] = ()
    single: bool = False
    of_input: Mapping[StreamId, tuple[str, ...]] = field(default_factory=dict["StreamId", tuple[str, ...]])
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WindowDivision:
    """By what windows are divided. `places`: of the fields of the grouping in the key; `fields`: those of each input.

    `problem`: why they cannot be divided.
    """

    places: tuple[int, ...] = ()
    fields: Mapping[StreamId, tuple[str, ...]] = field(default_factory=dict["StreamId", tuple[str, ...]])
    problem: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The fields by which the first input is grouped."""
        return next(iter(self.fields.values()), ())


def window_division(key: WindowKey, inputs: Sequence[Subscription]) -> WindowDivision:
    """By what the windows of a bolt with these subscriptions are divided."""
    if key.problem:
        return WindowDivision(problem=key.problem)
    fields: dict[StreamId, tuple[str, ...]] = {}
    places: dict[tuple[int, ...], Subscription] = {}
    for each in inputs:
        of_input = key.of_input.get(each.source, ()) if key.of_input else key.fields
        if each.kind != "fields" or not each.fields or any(name not in of_input for name in each.fields):
            return WindowDivision(problem=f"its windows are by {_names(of_input)}, but it reads {how_it_reads(each)}")
        places[tuple(of_input.index(name) for name in each.fields)] = each
        fields[each.source] = each.fields
    if len(places) > 1:
        return WindowDivision(
            problem=f"it reads {' and '.join(map(how_it_reads, places.values()))}: not by the same fields"
        )
    return WindowDivision(next(iter(places), ()), fields)


def _names(fields: Sequence[str]) -> str:
    return ", ".join(map(str, fields)) or "no fields"
