"""Ingress exactly once: what is written again after a restart counts once, and is acknowledged when it is durable."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, LocalCluster, Topology, TopologyBuilder
from aiostorm.spark import SparkIngressSpout
from aiostorm.spark.datasource.ingress_ledger import ActionKind, IngressLedger, LedgerAction
from aiostorm.transport import pack_value, unpack_value
from tests.cluster.snapshots.exact import Committed

from .lines import FIELDS, batch, into, until, write
from .test_ingress_ledger import asked

DIGEST = b"d" * 16


class Numbers(Committed):
    """Commits the numbers of the rows."""

    def execute(self, tup: Any, collector: Any) -> None:
        self.kept.append((tup["n"], 1))


def copying(folder: Path, *, interval_ms: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", SparkIngressSpout(FIELDS, endpoints=str(folder / "in"), max_bytes=2_000), 2)
    builder.set_bolt("out", Numbers(str(folder / "out"))).shuffle_grouping("in")
    settings: dict[str, Any] = {"state_dir": str(folder / "state"), "snapshot_interval_ms": interval_ms}
    return builder.create_topology(config=Config(guarantee="exactly-once", **settings))


def written(folder: Path) -> list[int]:
    files = [file for file in (folder / "out").iterdir() if not file.suffix]
    return sorted(row[0] for file in files for row in json.loads(file.read_text()))


@pytest.mark.sockets
async def test_a_task_of_spark_that_writes_again_after_a_restart_adds_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    batches = [batch(at * 10) for at in range(40)]
    writing: list[asyncio.Task[int]] = []
    for kill_at in (1, 150, None):
        async with LocalCluster() as cluster:
            running = await cluster.submit("job", copying(tmp_path, interval_ms=40))
            if not writing:
                where = into(tmp_path / "in", patience_s=30)
                writing = [asyncio.create_task(asyncio.to_thread(write, where, batches[p::2], p)) for p in range(2)]
            if kill_at is not None:
                await until(lambda at=kill_at: len(written(tmp_path)) >= at)  # type: ignore[misc]
                await running.kill(0)
                assert len(written(tmp_path)) == len(set(written(tmp_path)))
                continue
            assert await asyncio.gather(*writing) == [20, 20]
            assert written(tmp_path) == list(range(400)), "what was acknowledged is committed"
            assert await asyncio.to_thread(write, where, batches[::2], 0) == 20  # Spark tries the task again
            await running.kill(0)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", copying(tmp_path, interval_ms=40))
        assert await asyncio.to_thread(write, where, batches[1::2], 1) == 20
        await running.snapshot()
        await running.kill(0)
    assert written(tmp_path) == list(range(400))


@given(st.integers(1, 4), st.integers(0, 4), st.data())
def test_each_chunk_counts_once_and_is_done_when_it_counts(chunks: int, kills: int, data: Any) -> None:
    """A writer offers chunks again and again, until each is done; the spout is killed at any step."""
    position: Any = None
    counts: Counter[str] = Counter()
    done: set[str] = set()
    names = [f"w/{n}/0" for n in range(chunks)]
    for life in range(kills + 1):
        ledger, emitted, taken = IngressLedger(max_bytes=25, retries=0), counts.copy(), None
        if position is not None:
            ledger.restore(position)
        ready: list[str] = []
        sends: list[LedgerAction] = []
        seq = 0

        def take(actions: list[LedgerAction], sends: list[LedgerAction] = sends, counts: Counter[str] = counts) -> None:
            for action in actions:
                if action.kind is ActionKind.SEND:
                    sends.append(action)
                else:
                    assert action.kind is ActionKind.DONE
                    assert counts[action.chunk] == 1
                    done.add(action.chunk)

        for _ in range(data.draw(st.integers(0, 30)) if life < kills else 0):
            what = data.draw(st.sampled_from(["offer", "send", "emit", "snapshot", "durable", "lost"]))
            if what == "offer":
                seq += 1
                take(ledger.offer("a", seq, asked(data.draw(st.sampled_from(names)), digest=DIGEST)), sends, counts)
            elif what == "lost":
                sends.clear()
                take(ledger.writer_lost("a"), sends, counts)
            elif what == "send" and sends:
                sent = sends.pop(0)
                ledger.arrived(sent.writer, sent.seq, sent.chunk)
                ready.append(sent.chunk)
            elif what == "emit" and ready:
                emitted[ready[0]] += 1
                take(ledger.kept(ready.pop(0)), sends, counts)
            elif what == "snapshot":
                taken = unpack_value(pack_value(ledger.position())), emitted.copy()
            elif what == "durable" and taken is not None:
                (position, counts), taken = taken, None
                if data.draw(st.booleans()):
                    break
                take(ledger.durable(), sends, counts)
        assert max(counts.values(), default=1) == 1
        assert done <= set(counts)
    last = IngressLedger(max_bytes=25, retries=0)
    if position is not None:
        last.restore(position)
    for seq, name in enumerate(names):
        [action] = last.offer("a", seq, asked(name, digest=DIGEST, size=1))
        assert (action.kind is ActionKind.DONE) == (counts[name] == 1)


@pytest.mark.parametrize(
    "wrong", [5, {}, {"version": 9}, {"version": 1, "chunks": "a", "digests": b"", "committed": {}}]
)
def test_a_position_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"it is no position|version|differ in number"):
        IngressLedger(max_bytes=1, retries=0).restore(wrong)


def test_other_contents_are_refused_after_a_restart() -> None:
    ledger = IngressLedger(max_bytes=25, retries=0)
    ledger.offer("a", 1, asked(digest=DIGEST))
    ledger.arrived("a", 1, "w/0/0")
    ledger.kept("w/0/0")
    again = IngressLedger(max_bytes=25, retries=0)
    again.restore(ledger.position())
    assert again.offer("b", 1, asked(digest=b"o" * 16))[0].kind is ActionKind.FAILED
