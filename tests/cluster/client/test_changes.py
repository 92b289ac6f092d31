"""Changes of a topology by a client: a rebalance that is taken back, and other code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aiostorm import Config
from aiostorm.cluster import CheckError, NotRunningError
from aiostorm.cluster.client.checking import CheckedTarget
from aiostorm.cluster.client.submission import settled_pins
from aiostorm.cluster.nimbus import OrderError, ParentRecord, take_back
from aiostorm.topology import ConfigError

from .test_cluster import SOON_S, code, world

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_rebalance_that_is_taken_back_is_said_when_it_runs_as_before(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await cluster.submit("words", "words:topology", workers=2, parallelism={"split": 2}, check=False)
        await asyncio.sleep(SOON_S)
        await made.parent("words", ParentRecord("a", 1, state="ACTIVE"))
        generation = await cluster.rebalance("words", 3, parallelism={"count": 3}, drain_s=5.0, check=False)
        assert generation == 2
        record = (await cluster.topology("words")).record
        assert (record.workers, record.parallelism, record.wait_s) == (3, {"split": 2, "count": 3}, 5.0)
        assert record.former is not None
        assert (record.former.generation, record.former.workers, record.former.parallelism) == (1, 2, {"split": 2})
        waiting = asyncio.create_task(cluster.wait_running("words", generation=generation))
        await made.parent("words", ParentRecord("a", 2, state="FAILED", degraded="no component 'count'"))
        async with made.store.client() as client:
            await take_back(client, "words", 2, "no component 'count'", 1.0)
        await asyncio.sleep(SOON_S)
        assert not waiting.done(), "it does not run as before yet"
        await made.parent("words", ParentRecord("a", 3, state="ACTIVE"))
        with pytest.raises(NotRunningError, match="did not run, and was taken back: no component"):
            await waiting
        found = await cluster.topology("words")
        assert (found.workers, found.record.parallelism, found.runs) == (2, {"split": 2}, True)
        assert await cluster.wait_running("words") is not None
        await cluster.rebalance("words")
        assert (await cluster.topology("words")).record.refused is None, "there is another order"


async def test_code_is_replaced_and_the_rest_is_as_before(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        before = code(tmp_path / "before")
        given = {"max_spout_pending": 5, "debug": True}
        await cluster.submit("words", "words:topology", given, code=before, workers=3, labels=["x"], check=False)
        first = (await cluster.topology("words")).record
        await cluster.deactivate("words")
        after = code(tmp_path / "after", "other = 1\n")
        await cluster.submit("words", "words:other", {"debug": False}, code=after, replace=True, check=False)
        second = (await cluster.topology("words")).record
        assert (second.target, second.workers, second.labels, second.wanted) == (
            "words:other",
            3,
            frozenset({"x"}),
            "INACTIVE",
        )
        assert second.config == {"topology.max.spout.pending": 5, "topology.debug": False}
        assert (second.generation, second.renewed, second.submitted_s) == (2, 2, first.submitted_s)
        assert second.former is not None
        assert (second.former.target, second.former.blob, second.former.config) == (
            first.target,
            first.blob,
            first.config,
        )
        assert second.blob != first.blob
        with pytest.raises(OrderError, match="no topology 'wrods': did you mean 'words'"):
            await cluster.submit("wrods", "words:topology", replace=True, check=False)
        with pytest.raises(ValueError, match="is named, and stays active or inactive"):
            await cluster.submit("words", "words:topology", replace=True, initial="INACTIVE", check=False)


async def test_settings_are_changed_and_kept_until_others_are_submitted(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        given = {"max_spout_pending": 5, "debug": True, "my.key": "x"}
        await cluster.submit("words", "words:topology", given, code=code(tmp_path / "before"), check=False)
        assert await cluster.update("words", {"max_spout_pending": 7, "topology.debug": True}) == 1
        assert await cluster.update("words", Config(stall_report_s=9, max_spout_pending=7)) == 2
        assert await cluster.update("words", {"my.key": "x", "stall_report_s": 9.0}) == 2, "nothing is another one"
        record = (await cluster.topology("words")).record
        assert record.updates == {"topology.max.spout.pending": 7, "topology.stall.report.secs": 9.0}
        assert record.config["topology.max.spout.pending"] == 5
        for wrong in ({"topology.workers": 3}, {"my.key": "y"}, {"max_spout_pending": -1}, {"tpology.debug": True}):
            with pytest.raises(ConfigError):
                await cluster.update("words", wrong)
        with pytest.raises(OrderError, match="no topology 'wrods': did you mean 'words'"):
            await cluster.update("wrods", {"debug": False})
        after = code(tmp_path / "after", "other = 1\n")
        await cluster.submit("words", "words:other", {"max_spout_pending": 6}, code=after, replace=True, check=False)
        record = (await cluster.topology("words")).record
        assert record.config["topology.max.spout.pending"] == 6, "what was submitted last holds"
        assert record.updates == {"topology.stall.report.secs": 9.0}
        await take_back(cluster._client, "words", 2, "it does not run", 0.0)
        record = (await cluster.topology("words")).record
        assert record.config["topology.max.spout.pending"] == 7, "as before"
        await cluster.kill("words")
        with pytest.raises(OrderError, match="is being killed"):
            await cluster.update("words", {"debug": False})


async def test_pins_are_kept_changed_and_ended(tmp_path: Path) -> None:
    gpu, disk = frozenset({"gpu"}), frozenset({"disk"})
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await made.supervisor("b", 4, gpu | disk)
        await cluster.submit("words", "words:topology", workers=2, pins={"split": {"gpu"}, "no": ()}, check=False)
        await asyncio.sleep(SOON_S)
        found = await cluster.topology("words")
        assert found.record.pins == {"split": gpu}
        assert "b" in {on for process, on in found.where.items() if process != "parent"}
        await cluster.rebalance("words", pins={"count": "disk"}, check=False)
        record = (await cluster.topology("words")).record
        assert record.pins == {"split": gpu, "count": disk}
        assert record.former is not None
        assert record.former.pins == {"split": gpu}, "for the case that it does not run so"
        await cluster.submit("words", "words:other", replace=True, pins={"split": ()}, check=False)
        assert (await cluster.topology("words")).record.pins == {"count": disk}
        await cluster.rebalance("words", 3)
        assert (await cluster.topology("words")).record.pins == {"count": disk}
        with pytest.raises(ValueError, match="at most 8 different sets of labels"):
            await cluster.rebalance("words", pins={str(i): {str(i)} for i in range(8)}, check=False)
        with pytest.raises(ValueError, match="at most 8 different sets of labels"):
            await cluster.submit("x", "x:y", pins={str(i): {str(i)} for i in range(9)}, check=False)


async def test_it_is_said_that_a_lost_node_with_the_label_is_missed(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await made.supervisor("b", 4, frozenset({"gpu"}))
        await cluster.submit("words", "words:topology", workers=2, pins={"split": "gpu"}, check=False)
        await asyncio.sleep(SOON_S)
        before = (await cluster.topology("words")).where
        await made.end("b")
        await asyncio.sleep(30)
        found = await cluster.topology("words")
        pinned = [process for process, on in before.items() if on == "b" and process != "parent"]
        assert {process for process, on in found.where.items() if on == "b"} == set(pinned), "nothing runs elsewhere"
        assert found.waiting == (
            "1 of 2 workers were on supervisors that are lost, and no slot is free on a node with the labels that "
            "their tasks need (gpu): start a supervisor --label gpu, or kill a topology"
        )
        await made.supervisor("c", 1, frozenset({"gpu"}))
        await asyncio.sleep(SOON_S)
        found = await cluster.topology("words")
        assert [found.where[process] for process in pinned] == ["c"]
        assert found.waiting == ""


async def test_nodes_say_whose_they_are(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await made.supervisor("a", 4)
        await made.supervisor("b", 4)
        alone = {"topology.isolate.machines": 1}
        await cluster.submit("words", "words:topology", alone, workers=2, check=False)
        await asyncio.sleep(SOON_S)
        await cluster.submit("more", "words:topology", workers=2, check=False)
        await cluster.submit("third", "words:topology", {"isolate_machines": 1}, workers=1, check=False)
        await asyncio.sleep(SOON_S)
        nodes = {node.name: node.isolated for node in await cluster.nodes()}
        (own,) = {*(await cluster.topology("words")).where.values()}
        assert nodes == {"a": "", "b": "", own: "words"}
        assert own not in (await cluster.topology("more")).where.values()
        assert "1 nodes of its own are needed" in (await cluster.topology("third")).waiting


def test_pins_of_components_that_are_not_there() -> None:
    checked = CheckedTarget("words", 3, {"split": {}, "count": {}})
    gpu = frozenset({"gpu"})
    assert settled_pins({"split": gpu}, {"count": gpu}, checked) == {"split": gpu}
    assert settled_pins({}, {"former": gpu}, checked) == {"former": frozenset()}, "its pin ends with it"
    assert settled_pins({"former": frozenset()}, {}, checked) == {"former": frozenset()}, (
        "it may be ended by order, too"
    )
    assert settled_pins({"any": gpu}, {}, None) == {"any": gpu}
    with pytest.raises(CheckError, match="no component 'splt' to be pinned: there are split, count"):
        settled_pins({"splt": gpu}, {}, checked)
