"""A topology of which only the graph is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiostorm.topology import Config, Topology, TopologyBuilder, graph_document, make_plan, outlined, plan_with

from .test_topology import Count, Lines, example


def test_an_outline_has_the_same_graph() -> None:
    found = outlined(json.loads(example().to_json()))
    assert found.to_json() == example().to_json()
    assert found.to_svg() == example().to_svg()
    assert found.describe() == example().describe()


def test_a_topology_without_a_name_has_an_outline() -> None:
    assert outlined(graph_document(Topology({}))).name is None


def test_nothing_of_an_outline_can_be_run() -> None:
    found = outlined(graph_document(example()))
    for make in (found.components["lines"].create, found.components["count"].inputs[0].make):
        with pytest.raises(RuntimeError, match="runs in another program"):
            make()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"topology": 3, "components": []},
        {"topology": "t", "components": [{"id": "a"}]},
        {"topology": "t", "components": [{"id": "a", "kind": "pump", "tasks": 1, "outputs": {}, "inputs": []}]},
        {"topology": "t", "components": [{"id": 3, "kind": "bolt", "tasks": 1, "outputs": {}, "inputs": []}]},
        {"topology": "t", "components": [{"id": "a", "kind": "bolt", "tasks": "x", "outputs": {}, "inputs": []}]},
        {"topology": "t", "components": [{"id": "a", "kind": "bolt", "tasks": 1, "outputs": {"s": 1}, "inputs": []}]},
        {"topology": "t", "components": [{"id": "a", "kind": "bolt", "tasks": 1, "outputs": {}, "inputs": [{}]}]},
    ],
)
def test_what_is_no_graph_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="not the graph of a topology"):
        outlined(document)


def test_a_plan_is_made_of_its_tasks_again() -> None:
    topology, plan = example(), make_plan(example(), Config())
    again = plan_with(topology, plan.tasks_of)
    assert (again.tasks, again.tasks_of, again.order) == (plan.tasks, plan.tasks_of, plan.order)
    with pytest.raises(ValueError, match="task ids count from 1"):
        plan_with(topology, {"lines": (2,), "count": (1,)})


def test_a_cycle_is_planned_from_an_outline() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("count", Count).shuffle_grouping("lines").shuffle_grouping("count")
    topology: Topology = outlined(graph_document(builder.create_topology("loop")))
    assert len(plan_with(topology, {"lines": (1,), "count": (2,)}).feedback) == 1


def test_settings_come_back_with_their_sources() -> None:
    config = Config.load(None, {}, ["max_spout_pending=5"], Config(**{"my.key": "x"}))
    fields = {key: getattr(config, key) for key in config.model_fields_set} | dict(config.user)
    again = Config.restored(fields, {key: config.source_of(key) for key in fields})
    assert again == config
    assert again.source_of("max_spout_pending") == config.source_of("max_spout_pending") == "-c"
    assert again.user == {"my.key": "x"}
