"""Key range inputs: how a bolt with state by key is grouped.

1. Fields groupings by the whole key are by key ranges, whatever the guarantee: so a snapshot can be restored with
   another number of tasks.
2. Other groupings stay as they are: state_checks.py refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .groupings.key_range import KeyRangeGrouping
from .state_checks import grouping_problem, is_declaration

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
