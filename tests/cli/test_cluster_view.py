"""What the commands of a cluster print of it: nodes, the leader, what workers may have."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from aiostorm.cli.cluster_view import list_text, nodes_document, nodes_text, show_text, topology_document
from aiostorm.cluster import NodeInfo, TopologyInfo
from aiostorm.cluster.nimbus import RefusedPlan, TopologyRecord
from aiostorm.ui.managed import topology_row


def test_what_workers_may_have_is_shown() -> None:
    node = NodeInfo("a", "host-a", "", 4, 0, (), (), "0.1.0", 8 << 30, 2.5)
    assert "8,192 MiB and 2.5 cores" in nodes_text(None, [node])
    assert "did not stay alive" not in nodes_text(None, [node])
    (row,) = nodes_text(None, [replace(node, failed=1)]).splitlines()[-1:]
    assert row.endswith("1 process did not stay alive")
    assert nodes_text(None, [replace(node, failed=3, left_out=True)]).endswith(
        "3 processes did not stay alive: it gets work last"
    )
    record = TopologyRecord("m:t", worker_memory_bytes=512 << 20)
    shown = show_text(TopologyInfo("words", record, "ACTIVE", {}), ())
    assert "each worker  512 MiB" in shown


def test_why_an_order_was_taken_back_is_shown() -> None:
    record = TopologyRecord("m:t", generation=4, refused=RefusedPlan(3, "worker-1 does not start"))
    info = TopologyInfo("words", record, "ACTIVE", {}, running_generation=4)
    why = "generation 3 of words did not run, and was taken back: worker-1 does not start"
    assert f"taken back  {why}" in show_text(info, ())
    assert why[:60] in list_text([info])
    assert topology_row(info, None).taken_back == why
    assert topology_row(replace(info, record=TopologyRecord("m:t")), None).taken_back == ""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"host": "one", "pid": 7, "started": 1.5}', "one (pid 7)"),
        ('{"id": "n1", "host": "one", "pid": 7, "address": "one:6627"}', "n1 (pid 7) at one:6627"),
        ('{"id": "n\\u001b[1m"}', "n\\x1b[1m (pid ?)"),
        ("[3]", "[3]"),
        ("{", "{"),
    ],
)
def test_the_leader_is_named(written: str, said: str) -> None:
    assert nodes_text(written, []).splitlines()[0] == f"nimbus: {said} leads"
    document = nodes_document(written, [])
    assert document["leader"] == (json.loads(written) if written.endswith("}") else written)


def test_pins_and_isolation_are_shown() -> None:
    pins = {"detect": frozenset({"gpu", "eu"}), "save": frozenset({"disk"})}
    record = TopologyRecord("m:t", workers=3, pins=pins, config={"topology.isolate.machines": 2})
    info = TopologyInfo("images", record, "ACTIVE", {})
    shown = show_text(info, ())
    assert "pins        detect on eu+gpu, save on disk" in shown
    assert "nodes       2 of its own, without other topologies" in shown
    document = topology_document(info)
    assert {name: sorted(labels) for name, labels in document["pins"].items()} == {
        "detect": ["eu", "gpu"],
        "save": ["disk"],
    }
    json.dumps(document)
    node = NodeInfo("a", "host-a", "", 4, 0, (), (), "0.1.0", failed=1, isolated="images")
    assert nodes_text(None, [node]).endswith("only for images; 1 process did not stay alive")
    assert nodes_document(None, [node])["nodes"][0]["isolated"] == "images"
