"""State checks: may this component have the state that it declares, and do the rows of a key come to one task?

    state = KeyedState(key=("user", "day"))      fields_grouping("clicks", "day", "user")   ─► by key ranges
                                                 any other grouping, or other fields        ─► an error
    keyed_output = ("user", "day")               fields_grouping("clicks", "user"), or the like, or one task
    (a sink with a value for each key)           any other grouping                         ─► an error

1. The rows of a bolt with state by key are grouped by its key, and then by key ranges (key_range_inputs.py).
2. A sink that updates values by key outside may be grouped by a part of the key. Its number of tasks is known for good
   when a plan is made: see `keyed_output_problems`.
3. Direct and custom groupings choose the task by the user's own rule: a sink trusts it, state by key does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .names import DEFAULT_STREAM

if TYPE_CHECKING:
    from .components import Component
    from .config import Config
    from .topology import ComponentSpec, Kind, Subscription

_TRUSTED: Final = ("direct", "custom")


def declared_state(kind: Kind, component: Component) -> Any:
    """What a component declares as state; None: nothing. It may be wrong.

    Other attributes of that name belong to the user: those of instances, properties, and those of spouts.
    """
    state = component.state
    if is_declaration(state):
        return state
    of_class: Any = inspect.getattr_static(type(component), "state", None)
    return None if kind == "spout" or hasattr(of_class, "__get__") else of_class


def state_problems(kind: Kind, state: Any, inputs: Sequence[Subscription]) -> list[str]:
    """What is wrong with the declared state of a component, given its subscriptions."""
    if state is None:
        return []
    if kind == "spout":
        return [f"a spout has no state = {state!r:.200}: its position is what snapshot() returns"]
    if not is_declaration(state):
        made = "; write KeyedState(…), not KeyedState" if isinstance(state, type) else ""
        return [f'state must be KeyedState(key="…") or ValueState(…), not {state!r:.200}{made}']
    return [problem for each in inputs if (problem := grouping_problem(state.key_fields, each))]


def keyed_output_problems(specs: Mapping[str, ComponentSpec], config: Config | None) -> list[str]:
    """Sinks with a value for each key whose rows come to several tasks, with the tasks that they have with `config`."""
    cap = None if config is None else config.max_task_parallelism
    problems: list[str] = []
    for spec in specs.values():
        tasks = spec.parallelism if cap is None else min(spec.parallelism, cap)
        if spec.keyed_output and tasks > 1:
            found = [_several_writers(spec.keyed_output, tasks, each) for each in spec.inputs]
            found = [problem for problem in found if problem] or _different_groupings(spec.keyed_output, spec.inputs)
            problems += [f"{spec.kind} {spec.id!r}: {problem}" for problem in found]
    return problems


def is_declaration(state: Any) -> bool:
    """Has it what KeyedState and ValueState have?"""
    return isinstance(getattr(state, "key_fields", None), tuple) and isinstance(getattr(state, "version", None), int)


def grouping_problem(key: Sequence[str], subscription: Subscription) -> str:
    """What is wrong with the grouping of a bolt with state by this key: its fields must be the whole key."""
    if not key or (_is_by(subscription, key) and len(subscription.fields) == len(key)):
        return ""
    return (
        f"its state is by {', '.join(key)}, but it reads {how_it_reads(subscription)}: a task would get rows of keys "
        f"that it does not have. Use {_by(subscription, key)}"
    )


def _several_writers(key: Sequence[str], tasks: int, subscription: Subscription) -> str:
    """What is wrong with the grouping of a sink by this key: its fields may be a part of the key."""
    if subscription.kind in (*_TRUSTED, "global") or _is_by(subscription, key):
        return ""
    return (
        f"it keeps one value for each {', '.join(key)} in another system and has {tasks} tasks, but it reads "
        f"{how_it_reads(subscription)}: rows of one key would come to several tasks, which overwrite each other's "
        f"values. Use {_by(subscription, key)}, or parallelism=1"
    )


def _different_groupings(key: Sequence[str], inputs: Sequence[Subscription]) -> list[str]:
    """Two groupings that each keep a key in one task, but not in the same one."""
    checked = [each for each in inputs if each.kind not in _TRUSTED]
    if len({(each.kind, each.fields) for each in checked}) <= 1:
        return []
    problem = (
        f"it keeps one value for each {', '.join(key)} in another system, and reads "
        f"{' and '.join(map(how_it_reads, checked))}: rows of one key would come to several tasks, which overwrite "
        f"each other's values. Use {' and '.join(_by(each, key) for each in checked)}, or parallelism=1"
    )
    return [problem]


def _is_by(subscription: Subscription, key: Sequence[str]) -> bool:
    """Is it grouped by fields of the key, and nothing else?"""
    return subscription.kind == "fields" and bool(subscription.fields) and set(subscription.fields) <= set(key)


def how_it_reads(subscription: Subscription) -> str:
    """An input and its grouping, for errors."""
    source, fields = subscription.source, subscription.fields
    stream = "" if source.stream == DEFAULT_STREAM else f" stream {source.stream!r}"
    by = f" by {', '.join(map(str, fields))}" if fields else ""
    return f"{source.component!r}{stream} with {subscription.kind} grouping{by}"


def _by(subscription: Subscription, key: Sequence[str]) -> str:
    """The grouping by this key, as code."""
    source = subscription.source
    arguments = ", ".join(map(repr, [source.component, *key]))
    stream = "" if source.stream == DEFAULT_STREAM else f", stream={source.stream!r}"
    return f"fields_grouping({arguments}{stream})"
