"""Topology: the checked, frozen graph of components. Running topologies are made from it and never change it.

1. A `Topology` from a `TopologyBuilder` has been checked: ids, streams, fields and groupings exist and fit.
2. Nothing in it runs: its component instances are templates, copied for each task.
3. It is data: `dataclasses.replace(topology, components=…)` makes a changed one (which is not checked).

Storm: StormTopology, ComponentCommon, StreamInfo.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from .components import Component
from .errors import TopologyError
from .names import DEFAULT_STREAM
from .resources import Resource
from .streams import StreamDecl
from .time_flow import NO_ROLE, TimeRole
from .values import Result, Setting

if TYPE_CHECKING:
    from .config import Config
    from .context import StateDeclaration
    from .groupings import Grouping
    from .snapshot_config import Guarantee
    from .streams import StreamId

Kind = Literal["spout", "bolt"]
Summary = Callable[[dict[str, list[Result]]], Mapping[str, Result] | str]
"""From the results of all tasks, by component, to what `aiostorm run` prints at the end: names and values, or text."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A bolt's subscription to a stream. `kind` names the grouping, `make` makes one for an emitting task."""

    source: StreamId
    consumer: str
    kind: str
    fields: tuple[str, ...]
    make: Callable[[], Grouping]


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """One component: its template, number of tasks, inputs, outputs and own settings.

    `outputs` of a spout include the dead-letter stream. `template` is an instance, or a factory that makes one. `time`
    is its role in event time. `on_driver`, `state`, `keyed_output`: see Component. `refused`: why it cannot run with a
    guarantee.
    """

    id: str
    kind: Kind
    template: Component | Callable[[], Component]
    parallelism: int = 1
    inputs: tuple[Subscription, ...] = ()
    outputs: Mapping[str, StreamDecl] = field(default_factory=dict[str, StreamDecl])
    config: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    time: TimeRole = NO_ROLE
    on_driver: bool = False
    state: StateDeclaration | None = None
    refused: Mapping[Guarantee, tuple[str, ...]] = field(default_factory=dict["Guarantee", tuple[str, ...]])
    keyed_output: tuple[str, ...] = ()

    def create(self) -> Component:
        """A new instance for one task: a deep copy of the instance, or one made by the factory.

        Raises TopologyError if the instance cannot be copied.
        """
        if not isinstance(self.template, Component):
            return self.template()
        try:
            return copy.deepcopy(self.template)
        except Exception as error:
            problem = (
                f"{self.kind} {self.id!r}: its {type(self.template).__name__} cannot be copied for a task "
                f"({type(error).__name__}: {error}); give a factory instead (a class, or lambda: …), or open "
                f"files, locks and connections in {'open' if self.kind == 'spout' else 'prepare'}"
            )
            raise TopologyError([problem]) from error


@dataclass(frozen=True, slots=True)
class Topology:
    """A checked graph of components. Make one with `TopologyBuilder`.

    `summary` makes what `aiostorm run` prints at the end, `config` are the topology's own settings, `resources` are
    shared by the tasks of each worker, by name, in the order in which they are opened.
    """

    components: Mapping[str, ComponentSpec]
    name: str | None = None
    summary: Summary | None = None
    config: Config | None = None
    resources: Mapping[str, Resource] = field(default_factory=dict[str, Resource])
    _consumers: Mapping[StreamId, tuple[Subscription, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        consumers: dict[StreamId, tuple[Subscription, ...]] = {}
        for spec in self.components.values():
            for subscription in spec.inputs:
                consumers[subscription.source] = (*consumers.get(subscription.source, ()), subscription)
        object.__setattr__(self, "components", MappingProxyType(dict(self.components)))
        object.__setattr__(self, "resources", MappingProxyType(dict(self.resources)))
        object.__setattr__(self, "_consumers", consumers)

    @property
    def spouts(self) -> tuple[ComponentSpec, ...]:
        """The spouts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "spout")

    @property
    def bolts(self) -> tuple[ComponentSpec, ...]:
        """The bolts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "bolt")

    def consumers_of(self, stream: StreamId) -> tuple[Subscription, ...]:
        """The subscriptions to a stream, in the order of declaration."""
        return self._consumers.get(stream, ())

    def with_parallelism(self, parallelism: Mapping[str, int]) -> Topology:
        """The same graph with other numbers of tasks: component → tasks. TopologyError for what cannot be so."""
        problems: list[str] = []
        for name, count in parallelism.items():
            if name not in self.components:
                problems.append(f"there is no component {name!r}: there are {', '.join(self.components)}")
            elif count < 1:
                problems.append(f"{name!r} has 1 task or more, not {count}")
        if problems:
            raise TopologyError(problems)
        components = {
            name: replace(spec, parallelism=parallelism[name]) if name in parallelism else spec
            for name, spec in self.components.items()
        }
        return replace(self, components=components)

    def describe(self) -> str:
        """The graph as text, a line for each resource, each component and each subscription."""
        from .pictures import grouping_text
        from .text import printable

        lines = [f"topology {self.name}" if self.name else "topology"]
        lines += [f"  resource {name}" for name in self.resources]
        for spec in self.components.values():
            streams = ", ".join(
                f"{'' if name == DEFAULT_STREAM else name + ' '}({', '.join(decl.fields)}){' direct' * decl.direct}"
                for name, decl in spec.outputs.items()
                if not name.startswith("__")
            )
            tasks = "1 task" if spec.parallelism == 1 else f"{spec.parallelism} tasks"
            lines.append(f"  {spec.kind} {spec.id}: {tasks}{', emits ' + streams if streams else ''}")
            lines += [f"    <- {s.source}, {grouping_text(s)}" for s in spec.inputs]
        return "\n".join(map(printable, lines))

    def to_mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        from .pictures import mermaid

        return mermaid(self)

    def to_dot(self) -> str:
        """The graph in the language of Graphviz."""
        from .pictures import dot

        return dot(self)

    def to_json(self) -> str:
        """The graph as a JSON document: components, their streams, and what they read."""
        from .pictures import json_text

        return json_text(self)

    def to_svg(self) -> str:
        """The graph as a picture. It needs no other program."""
        from .pictures import picture

        return picture(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """What a notebook shows: the picture, or the text where pictures cannot be shown."""
        from .pictures import MERMAID_TYPE

        make = {"text/plain": self.describe, "image/svg+xml": self.to_svg, MERMAID_TYPE: self.to_mermaid}
        wanted = set(make if include is None else include) - set(exclude or ())
        return {kind: text() for kind, text in make.items() if kind in wanted}
