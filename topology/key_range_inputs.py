"""Key range inputs: how a bolt with state by key, or with windows by key, is grouped.

1. Fields groupings by the whole key of a state are by key ranges, whatever the guarantee: so a snapshot can be restored
   with another number of tasks. Other groupings stay as they are: state_checks.py refuses them.
2. So are fields groupings by fields of the key of windows, if the windows can be divided by them (window_keys.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .groupings.key_range import KeyRangeGrouping
from .state_checks import grouping_problem, is_declaration
from .window_keys import WindowKey, window_division

if TYPE_CHECKING:
    from .topology import Subscription


def by_key_ranges(state: Any, inputs: Sequence[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions of a bolt with this state: fields groupings by its key are by key ranges."""
    if state is None or not is_declaration(state) or not state.key_fields:
        return tuple(inputs)
    key = tuple(state.key_fields)
    make = partial(KeyRangeGrouping, key)
    return tuple(
        each if grouping_problem(key, each) else replace(each, fields=key, make=make)  # the key in its own order
        for each in inputs
    )


def by_window_key(key: WindowKey | None, inputs: Sequence[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions of a bolt with these windows: if they can be divided by key, they are by key ranges."""
    if key is None or key.problem:
        return tuple(inputs)
    ordered = tuple(_in_order(key, each) for each in inputs)
    if window_division(key, ordered).problem:
        return tuple(inputs)
    return tuple(replace(each, make=partial(KeyRangeGrouping, each.fields)) for each in ordered)


def _in_order(key: WindowKey, each: Subscription) -> Subscription:
    of_input = key.of_input.get(each.source, ()) if key.of_input else key.fields
    if any(name not in of_input for name in each.fields):
        return each
    return replace(each, fields=tuple(sorted(each.fields, key=of_input.index)))
