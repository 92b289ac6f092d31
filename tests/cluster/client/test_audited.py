"""Orders over the store are in the audit log of the home folder, as those that a nimbus is asked for are in its own."""

from __future__ import annotations

import json
import os
import platform
import stat
from typing import TYPE_CHECKING, Any

import pytest

from aiostorm import Cluster
from aiostorm.cluster import NoClusterError
from aiostorm.cluster.access import AuditError
from aiostorm.cluster.client import OrderedBy
from aiostorm.cluster.nimbus import OrderError

from .test_cluster import World, code, world

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-5f1c"


def lines(made: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.home / "audit.log").read_text().splitlines()]


async def test_every_order_is_a_line(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        given = {"db.password": CANARY, "topology.debug": True}
        folder = code(tmp_path / "in")
        await cluster.submit("words", "words:topology", given, code=folder, workers=3, labels=["ssd"], check=False)
        await cluster.deactivate("words")
        await cluster.activate("words")
        await cluster.rebalance("words", 2, parallelism={"split": 4}, drain_s=5.0, check=False)
        await cluster.submit("words", "words:other", code=folder, replace=True, check=False)
        await cluster.update("words", {"topology.max.spout.pending": 9})
        await cluster.kill("words", 7.5)
        await cluster.topologies()
        await cluster.topology("words")
        found = lines(made)
        assert [line["what"] for line in found] == [
            "submit",
            "deactivate",
            "activate",
            "rebalance",
            "submit",
            "update",
            "kill",
        ], "what only looks is not there"
        for line in found:
            assert line["who"].endswith(f"@{platform.node()}")
            assert (line["role"], line["from"], line["result"]) == ("home", f"process {os.getpid()}", "done")
            assert line["arguments"]["name"] == "words"
        submitted = found[0]["arguments"]
        assert (submitted["target"], submitted["workers"], submitted["labels"]) == ("words:topology", 3, ["ssd"])
        assert (submitted["code"], submitted["replace"]) == (True, False)
        assert submitted["config"] == {"db.password": "***", "topology.debug": True}
        assert found[3]["arguments"] == {"name": "words", "workers": 2, "parallelism": {"split": 4}, "drain_s": 5.0}
        assert (found[4]["arguments"]["target"], found[4]["arguments"]["replace"]) == ("words:other", True)
        assert found[5]["arguments"] == {"name": "words", "config": {"topology.max.spout.pending": 9}}
        assert found[6]["arguments"] == {"name": "words", "wait_s": 7.5}
        assert CANARY not in (made.home / "audit.log").read_text()
        assert stat.S_IMODE((made.home / "audit.log").stat().st_mode) == 0o600
        assert stat.S_IMODE(made.home.stat().st_mode) == 0o700


async def test_an_order_that_is_not_done_is_there_with_its_reason(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        await cluster.submit("words", "words:topology", check=False)
        with pytest.raises(OrderError):
            await cluster.kill("wrods")
        with pytest.raises(OrderError):
            await cluster.submit("words", "words:topology", check=False)
        results = [line["result"] for line in lines(made)]
        assert results[0] == "done"
        assert results[1].startswith("failed: no topology 'wrods'")
        assert results[2].startswith("failed: topology 'words' is there already")


async def test_nothing_is_ordered_where_no_line_can_be_written(tmp_path: Path) -> None:
    async with world(tmp_path) as made, made.cluster() as cluster:
        (made.home / "audit.log").mkdir(parents=True)
        for order in (
            cluster.submit("words", "words:topology", code=code(tmp_path / "in"), check=False),
            cluster.kill("words"),
            cluster.rebalance("words"),
        ):
            with pytest.raises(AuditError, match=r"nothing is changed: see to .*audit\.log"):
                await order
        assert await cluster.topologies() == []
        assert not (made.home / "blobs").exists()


async def test_who_orders_can_be_said_and_another_program_may_write_it(tmp_path: Path) -> None:
    async with world(tmp_path) as made:
        for by in (OrderedBy("ann", "operator", "the page"), None):
            async with Cluster(
                "memory:",
                home=made.home,
                ordered_by=by,
                open_store=lambda url, clock: made.store.client(session_s=3600),
            ) as cluster:
                await cluster.submit(f"words-{by is None}", "words:topology", check=False)
        (line,) = lines(made)
        assert (line["who"], line["role"], line["from"]) == ("ann", "operator", "the page")


async def test_where_there_is_no_cluster_nothing_is_written(tmp_path: Path) -> None:
    async with world(tmp_path, nimbus=False) as made, made.cluster() as cluster:
        with pytest.raises(NoClusterError):
            await cluster.kill("words")
        assert not made.home.exists()
