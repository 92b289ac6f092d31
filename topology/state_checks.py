"""State checks: may this component have the state that it declares, and do its rows come to the task that has it?

    state = KeyedState(key=("user", "day"))      fields_grouping("clicks", "day", "user")   ─► by key ranges
                                                 any other grouping, or other fields        ─► an error

A bolt with state by key is grouped by key ranges, whatever the guarantee: so a snapshot can be restored with another
number of tasks.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .groupings import KeyRangeGrouping
from .tuples import DEFAULT_STREAM

if TYPE_CHECKING:
    from .components import Component
    from .topology import Kind, Subscription


def declared_state(kind: Kind, component: Component) -> Any:
    """What a component declares as state; None: nothing. It may be wrong.

    Other attributes of that name belong to the user: those of instances, properties, and those of spouts.
    """
    state = component.state
    if _is_declaration(state):
        return state
    of_class: Any = inspect.getattr_static(type(component), "state", None)
    return None if kind == "spout" or hasattr(of_class, "__get__") else of_class


def state_problems(kind: Kind, state: Any, inputs: Sequence[Subscription]) -> list[str]:
    """What is wrong with the declared state of a component, given its subscriptions."""
    if state is None:
        return []
    if kind == "spout":
        return [f"a spout has no state = {state!r:.200}: its position is what snapshot() returns"]
    if not _is_declaration(state):
        made = "; write KeyedState(…), not KeyedState" if isinstance(state, type) else ""
        return [f'state must be KeyedState(key="…") or ValueState(…), not {state!r:.200}{made}']
    return [problem for each in inputs if (problem := _grouping_problem(state.key_fields, each))]


def by_key_ranges(state: Any, inputs: Sequence[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions of a bolt with this state: fields groupings by its key are by key ranges."""
    if state is None or not _is_declaration(state) or not state.key_fields:
        return tuple(inputs)
    key = tuple(state.key_fields)
    make = partial(KeyRangeGrouping, key)
    return tuple(
        each if _grouping_problem(key, each) else replace(each, fields=key, make=make)  # the key in its own order
        for each in inputs
    )


def _is_declaration(state: Any) -> bool:
    return isinstance(getattr(state, "key_fields", None), tuple) and isinstance(getattr(state, "version", None), int)


def _grouping_problem(key: Sequence[str], subscription: Subscription) -> str:
    fields = subscription.fields
    if not key or (subscription.kind == "fields" and len(fields) == len(key) and set(fields) == set(key)):
        return ""
    source = subscription.source
    read = f"{source.component!r}" + ("" if source.stream == DEFAULT_STREAM else f" stream {source.stream!r}")
    found = f"{subscription.kind} grouping" + (f" by {', '.join(map(str, fields))}" if fields else "")
    arguments = ", ".join(map(repr, [source.component, *key]))
    stream = "" if source.stream == DEFAULT_STREAM else f", stream={source.stream!r}"
    return (
        f"its state is by {', '.join(key)}, but it reads {read} with {found}: a task would get rows of keys that it "
        f"does not have. Use fields_grouping({arguments}{stream})"
    )
