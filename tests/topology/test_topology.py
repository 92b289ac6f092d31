"""The frozen topology: instances for tasks, pictures, changed copies."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from aiostorm.topology import (
    DEAD_LETTER_STREAM,
    BasicBolt,
    ComponentSpec,
    Fields,
    ShuffleGrouping,
    Spout,
    StreamId,
    Subscription,
    Topology,
    TopologyBuilder,
    TopologyError,
    direct,
)


class Lines(Spout):
    outputs = {"default": "line", "errors": ("path", "error"), "asked": direct("q")}  # noqa: RUF012

    def next_tuple(self) -> None: ...


class Count(BasicBolt):
    outputs = Fields("word", "count")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Any, collector: Any) -> None: ...


class Locked(BasicBolt):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def execute(self, tup: Any, collector: Any) -> None: ...


def example() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    count = builder.set_bolt("count", Count(), 4).fields_grouping("lines", "line")
    count.local_or_shuffle_grouping("lines", stream=DEAD_LETTER_STREAM).direct_grouping("lines", stream="asked")
    return builder.create_topology("example")


def test_each_task_gets_an_instance_of_its_own() -> None:
    template = Count()
    for given in (template, Count, lambda: Count()):
        spec = ComponentSpec("count", "bolt", given)
        first, second = spec.create(), spec.create()
        assert isinstance(first, Count)
        assert isinstance(second, Count)
        first.counts["a"] = 1
        assert second.counts == template.counts == {}


def test_an_instance_that_cannot_be_copied_says_what_to_do() -> None:
    with pytest.raises(TopologyError, match=r"bolt 'locked': its Locked cannot be copied.*give a factory"):
        ComponentSpec("locked", "bolt", Locked()).create()
    assert isinstance(ComponentSpec("locked", "bolt", Locked).create(), Locked)


def test_the_graph_as_text() -> None:
    assert example().describe() == (
        "topology example\n"
        "  spout lines: 1 task, emits (line), errors (path, error), asked (q) direct\n"
        "  bolt count: 4 tasks, emits (word, count)\n"
        "    <- lines, fields (line)\n"
        "    <- lines:__dead_letter, local or shuffle\n"
        "    <- lines:asked, direct"
    )


def test_the_graph_as_mermaid() -> None:
    assert example().to_mermaid() == (
        "flowchart LR\n"
        '  c0(["lines"])\n'
        '  c1["count ×4"]\n'
        '  c0 -- "fields (line)" --> c1\n'
        '  c0 -- "__dead_letter: local or shuffle" --> c1\n'
        '  c0 -- "asked: direct" --> c1'
    )


def test_a_topology_cannot_be_changed_only_copied() -> None:
    topology = example()
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        topology.components["x"] = topology.components["lines"]  # type: ignore[index]
    tap = ComponentSpec(
        "tap", "bolt", Count, inputs=(Subscription(StreamId("count"), "tap", "shuffle", (), ShuffleGrouping),)
    )
    changed = dataclasses.replace(topology, components={**topology.components, "tap": tap})
    assert changed.consumers_of(StreamId("count")) == tap.inputs
    assert topology.consumers_of(StreamId("count")) == ()
    assert (changed.name, list(changed.components)) == ("example", ["lines", "count", "tap"])


def test_a_stream_is_named_by_its_component() -> None:
    assert (str(StreamId("a")), str(StreamId("a", "b"))) == ("a", "a:b")


def test_a_component_has_one_task_and_is_placed_anywhere_unless_more_is_said() -> None:
    spec = ComponentSpec("count", "bolt", Count)
    assert (spec.parallelism, spec.on_driver, spec.inputs, spec.outputs, spec.config) == (1, False, (), {}, {})


def test_the_number_of_tasks_is_shown_if_there_are_several() -> None:
    for tasks, label in ((1, "count"), (2, "count ×2")):
        builder = TopologyBuilder()
        builder.set_spout("lines", Lines)
        declarer = builder.set_bolt("count", Count, tasks)
        declarer.shuffle_grouping("lines")
        assert declarer.set_config({"my.key": 1}) is declarer
        topology = builder.create_topology("example")
        assert f'"{label}"' in topology.to_mermaid() or f"({label})" in topology.to_mermaid(), topology.to_mermaid()
        assert "_consumers" not in repr(topology)
