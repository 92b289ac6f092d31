"""The builder: what it makes of declarations that are right."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_STREAM,
    AllGrouping,
    Config,
    CustomGrouping,
    DirectGrouping,
    Fields,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    LocalFirstGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
    StreamDecl,
    StreamId,
    TopologyBuilder,
    TopologyError,
)

from .parts import Count, Lines, Mine, Split


def test_a_topology_is_what_was_declared() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), 2, max_spout_pending=7).set_config({"topology.debug": True}, turn_max_ms=3)
    builder.set_bolt("split", Split, 3).shuffle_grouping("lines").all_grouping("lines", stream="errors")
    builder.set_bolt("count", Count(5), parallelism=4).fields_grouping("split", "word")
    config = Config(workers=2)
    topology = builder.create_topology("wc", summary=lambda results: {"n": len(results)}, config=config)
    assert (topology.name, topology.config, list(topology.components)) == ("wc", config, ["lines", "split", "count"])
    lines, split, count = topology.components.values()
    assert (lines.kind, lines.parallelism, lines.inputs) == ("spout", 2, ())
    assert lines.config == {"max_spout_pending": 7, "topology.debug": True, "turn_max_ms": 3}
    assert lines.outputs == {
        "default": StreamDecl(Fields("line")),
        "errors": StreamDecl(Fields("path", "error")),
        "asked": StreamDecl(Fields("q"), direct=True),
        DEAD_LETTER_STREAM: StreamDecl(DEAD_LETTER_FIELDS),
    }
    assert dict(split.outputs) == {"default": StreamDecl(Fields("word"))}
    assert [(s.source, s.consumer, s.kind, s.fields) for s in split.inputs] == [
        (StreamId("lines"), "split", "shuffle", ()),
        (StreamId("lines", "errors"), "split", "all", ()),
    ]
    assert [(s.source, s.kind, s.fields) for s in count.inputs] == [(StreamId("split"), "fields", ("word",))]
    assert topology.consumers_of(StreamId("split")) == count.inputs
    assert topology.consumers_of(StreamId("count")) == ()
    assert [spec.id for spec in topology.spouts + topology.bolts] == ["lines", "split", "count"]
    assert topology.summary is not None
    assert topology.summary({"a": []}) == {"n": 1}


GROUPINGS: list[tuple[str, tuple[Any, ...], str, type[Grouping]]] = [
    ("shuffle_grouping", (), "shuffle", ShuffleGrouping),
    ("fields_grouping", ("line",), "fields", FieldsGrouping),
    ("fields_grouping", (["line"],), "fields", FieldsGrouping),
    ("fields_grouping", (Fields("line"),), "fields", FieldsGrouping),
    ("partial_key_grouping", ("line",), "partial_key", PartialKeyGrouping),
    ("local_or_shuffle_grouping", (), "local_or_shuffle", LocalOrShuffleGrouping),
    ("local_first_grouping", (), "local_first", LocalFirstGrouping),
    ("all_grouping", (), "all", AllGrouping),
    ("global_grouping", (), "global", GlobalGrouping),
    ("none_grouping", (), "none", NoneGrouping),
    ("custom_grouping", (Mine(),), "custom", CustomGrouping),
    ("custom_grouping", (Mine,), "custom", CustomGrouping),
    ("custom_grouping", (lambda: Mine(1),), "custom", CustomGrouping),
]


@pytest.mark.parametrize(("method", "arguments", "kind", "made"), GROUPINGS)
def test_every_grouping_can_be_declared_on_any_stream(
    method: str, arguments: tuple[Any, ...], kind: str, made: type[Grouping]
) -> None:
    for stream, names in (("default", "line"), ("errors", "path")):
        builder = TopologyBuilder()
        builder.set_spout("lines", Lines)
        given = [names if argument == "line" else argument for argument in arguments]
        if kind in ("fields", "partial_key"):
            given = [names]
        declarer = builder.set_bolt("count", Count)
        assert getattr(declarer, method)("lines", *given, stream=stream) is declarer
        (subscription,) = builder.create_topology().components["count"].inputs
        assert (subscription.source, subscription.kind) == (StreamId("lines", stream), kind)
        assert type(subscription.make()) is made
        assert subscription.make() is not subscription.make()
        assert subscription.fields == ((names,) if kind in ("fields", "partial_key") else ())


@pytest.mark.parametrize("fields", [("line",), (["line"],), (Fields("line"),), (("line",),)], ids=str)
def test_fields_may_come_as_a_list(fields: tuple[Any, ...]) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("count", Count).fields_grouping("lines", *fields)
    (subscription,) = builder.create_topology().components["count"].inputs
    assert subscription.fields == ("line",)
    grouping = subscription.make()
    assert isinstance(grouping, FieldsGrouping)
    assert grouping.key_fields == ("line",)


def test_a_direct_stream_is_read_directly() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("count", Count).direct_grouping("lines", stream="asked")
    (subscription,) = builder.create_topology().components["count"].inputs
    assert isinstance(subscription.make(), DirectGrouping)


def test_dead_letters_of_a_spout_can_be_read() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("count", Count).fields_grouping("lines", "reason", stream=DEAD_LETTER_STREAM)
    assert builder.create_topology().consumers_of(StreamId("lines", DEAD_LETTER_STREAM))


def test_a_custom_grouping_is_copied_for_each_emitting_task() -> None:
    mine = Mine()
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("count", Count).custom_grouping("lines", mine)
    (subscription,) = builder.create_topology().components["count"].inputs
    first, second = subscription.make(), subscription.make()
    assert len({id(mine), id(vars(first)["_inner"]), id(vars(second)["_inner"])}) == 3


def test_cycles_that_a_spout_reaches_are_right() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split).shuffle_grouping("lines").shuffle_grouping("split")
    assert len(builder.create_topology().components["split"].inputs) == 2


def test_settings_of_the_class_lie_below_those_of_the_declaration() -> None:
    class Busy(Lines):
        config = {"max_spout_pending": 1, "turn_max_ms": 2}  # noqa: RUF012

    builder = TopologyBuilder()
    builder.set_spout("lines", Busy).set_config(max_spout_pending=5)
    assert builder.create_topology().components["lines"].config == {"max_spout_pending": 5, "turn_max_ms": 2}


def test_settings_that_are_given_as_the_summary_are_a_mistake() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    with pytest.raises(TopologyError, match="summary is a function of the results, not a Config; settings are config="):
        builder.create_topology("words", Config())  # type: ignore[arg-type]
