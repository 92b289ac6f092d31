"""Changes of a topology by a client: a rebalance that is taken back, and other code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aiostorm.cluster import NotRunningError
from aiostorm.cluster.nimbus import OrderError, ParentRecord, take_back

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
