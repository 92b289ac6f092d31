"""Builder: from a user's declarations to a checked topology.

    set_spout, set_bolt ─▶ declarations (never refused) ─▶ create_topology ─▶ Topology, or one error with every mistake

1. Declaring never raises: one run of the program shows all mistakes, not only the first.
2. An instance is a template, copied for each task; a class or factory is called for each task, and once by
   `create_topology`, to check the result.

Storm: TopologyBuilder, SpoutDeclarer, BoltDeclarer, InputDeclarer. Storm checks most of this on nimbus, one mistake at
a time (depart).
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Self

from .errors import TopologyError
from .groupings import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    LocalFirstGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from .guarantees import guarantee_problems
from .names import DEFAULT_STREAM
from .resources import Managed, WorkerContext, check_resources
from .retention import retention_problems
from .streams import StreamId
from .topology import Kind, Subscription, Summary, Topology
from .validation import Declaration, check

if TYPE_CHECKING:
    from .components import Component
    from .config import Config
    from .values import ResourceValue, Setting, Unchecked


class _Declarer:
    """The common base of spout and bolt declarers."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    def set_config(self, settings: Mapping[str, Setting] | None = None, /, **more: Setting) -> Self:
        """Settings of this component only, by Storm's key or field name; the later call wins.

        `settings` may also have keys of your own, which `context.config.get` reads; keywords are settings of aiostorm.
        """
        self._declaration.config.update(settings or {})
        self._declaration.take_keywords(more)
        return self


class SpoutDeclarer(_Declarer):
    """Returned by `set_spout`."""


class BoltDeclarer(_Declarer):
    """Returned by `set_bolt`: declare which streams the bolt reads, with which groupings. Calls can be chained."""

    def shuffle_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """Distribute evenly over the tasks, whatever the values."""
        return self._subscribe(component, stream, "shuffle", ShuffleGrouping)

    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> Self:
        """Equal values of these fields go to the same task."""
        return self._subscribe(component, stream, "fields", partial(FieldsGrouping, _names(fields)), fields)

    def partial_key_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> Self:
        """Equal values of these fields go to one of two tasks, the one that has received less."""
        return self._subscribe(component, stream, "partial_key", partial(PartialKeyGrouping, _names(fields)), fields)

    def local_or_shuffle_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To the tasks in the same worker if there are any, else distribute over all."""
        return self._subscribe(component, stream, "local_or_shuffle", LocalOrShuffleGrouping)

    def local_first_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To the tasks in the same worker while they are below their high mark, else the same node, else all."""
        return self._subscribe(component, stream, "local_first", LocalFirstGrouping)

    def all_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To every task."""
        return self._subscribe(component, stream, "all", AllGrouping)

    def global_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To the task with the lowest id."""
        return self._subscribe(component, stream, "global", GlobalGrouping)

    def none_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To any task."""
        return self._subscribe(component, stream, "none", NoneGrouping)

    def direct_grouping(self, component: str, *, stream: str = DEFAULT_STREAM) -> Self:
        """To the task that the emitter names with `emit_direct`."""
        return self._subscribe(component, stream, "direct", DirectGrouping)

    def custom_grouping(
        self, component: str, grouping: Grouping | type[Grouping], *, stream: str = DEFAULT_STREAM
    ) -> Self:
        """By your own grouping: an instance (copied for each emitting task), or a class or factory."""
        return self._subscribe(component, stream, "custom", partial(_make_custom, grouping))

    def _subscribe(
        self,
        component: str,
        stream: str,
        kind: str,
        make: Callable[[], Grouping],
        fields: tuple[Unchecked, ...] = (),
    ) -> Self:
        declaration = self._declaration
        source = StreamId(component, stream)
        declaration.inputs.append(Subscription(source, declaration.id, kind, _names(fields), make))
        return self


class TopologyBuilder:
    """Declares components and their subscriptions; `create_topology` checks everything."""

    def __init__(self) -> None:
        self._declarations: list[Declaration] = []
        self._resources: list[tuple[str, Unchecked]] = []

    def set_spout(
        self,
        id: str,  # noqa: A002 - Storm's name
        component: Component | Callable[[], Component],
        parallelism: int = 1,
        **config: Setting,
    ) -> SpoutDeclarer:
        """Declare a spout: an instance, a class or other factory without arguments, or an `@spout` function."""
        return SpoutDeclarer(self._declare(id, "spout", component, parallelism, config))

    def set_bolt(
        self,
        id: str,  # noqa: A002 - Storm's name
        component: Component | Callable[[], Component],
        parallelism: int = 1,
        **config: Setting,
    ) -> BoltDeclarer:
        """Declare a bolt: an instance, a class or other factory without arguments, or a `@bolt` function."""
        return BoltDeclarer(self._declare(id, "bolt", component, parallelism, config))

    def resource(
        self,
        name: str,
        function: Callable[[], Managed | Iterator[ResourceValue] | AsyncIterator[ResourceValue]]
        | Callable[[WorkerContext], Managed | Iterator[ResourceValue] | AsyncIterator[ResourceValue]],
    ) -> None:
        """Declare what the tasks of a worker share: `context.resource(name)` in `open` and `prepare` is that object.

        `function` gives a context manager (async or not), or yields once: what stands before the yield opens it, what
        stands behind closes it. It may take the WorkerContext. Each worker opens its own, once: before its tasks open,
        in the order of declaration; it closes them in reverse order, after its tasks. Storm: addWorkerHook.
        """
        self._resources.append((name, function))

    def create_topology(
        self, name: str | None = None, summary: Summary | None = None, config: Config | None = None
    ) -> Topology:
        """Check everything and freeze it. Raises TopologyError with every mistake.

        `summary` makes what `aiostorm run` prints at the end, from the results of all tasks by component: names and
        values, or text. `config` is the topology's own configuration: below files, environment and command line.
        """
        components, problems = check(self._declarations, config)
        resources, more = check_resources(self._resources)
        given: Unchecked = summary
        if given is not None and not callable(given):
            more.append(f"summary is a function of the results, not a {type(given).__name__}; settings are config=…")
        if problems or more:
            raise TopologyError(problems + more)
        topology = Topology(components, name, summary, config, resources)
        problems = retention_problems(topology, config)
        if config is not None and config.source_of("guarantee") != "default":
            problems += guarantee_problems(topology, config)
        if problems:
            raise TopologyError(problems)
        return topology

    def _declare(
        self, name: str, kind: Kind, template: Unchecked, parallelism: int, config: dict[str, Setting]
    ) -> Declaration:
        declaration = Declaration(name, kind, template, parallelism)
        declaration.take_keywords(config)
        self._declarations.append(declaration)
        return declaration


def _names(fields: tuple[Unchecked, ...]) -> tuple[str, ...]:
    """Field names, also when they came as one list."""
    if len(fields) == 1 and not isinstance(fields[0], str) and hasattr(fields[0], "__iter__"):
        return tuple(fields[0])
    return fields


def _make_custom(grouping: Unchecked) -> Grouping:
    if isinstance(grouping, Grouping):
        return CustomGrouping(copy.deepcopy(grouping))
    if not callable(grouping):
        raise TopologyError([f"{grouping!r} is not a Grouping; derive from aiostorm.Grouping"])
    made = grouping()
    if not isinstance(made, Grouping):
        raise TopologyError([f"{grouping!r} made something of type {type(made).__name__}, not a Grouping"])
    return CustomGrouping(made)
