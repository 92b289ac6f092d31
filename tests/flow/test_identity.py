"""Identity from end to end: bolts of columns and of rows, splits, replays; and bolts that ack a whole batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, Fields, LocalCluster, TopologyBuilder

from .columns_parts import Batches, batch

pa: Any = pytest.importorskip("pyarrow")


class Named(Batches):
    """Chunks of 3000 rows, which know what they are."""

    def next_tuple(self) -> None:
        if self.next < self.count:
            self.collector.emit_arrow(self.named(self.next), message_id=self.next)
            self.next += 1
        elif len(self.acked) == self.count:
            self.collector.finish()

    def named(self, chunk: int) -> Any:
        return batch(chunk * 3000).replace_schema_metadata({"aiostorm.chunk": f"s/0/{chunk}", "aiostorm.batch": "5"})

    def fail(self, message_id: Any, failure: Any) -> None:
        self.failed.append(message_id)
        self.collector.emit_arrow(self.named(message_id), message_id=message_id)


class Halves(BasicBolt):
    """Two outputs of each input, one made anew (no metadata), one by pyarrow (which keeps the input's)."""

    outputs = Fields("n")

    def execute_arrow(self, given: Any, collector: Any) -> None:
        collector.emit_arrow(pa.record_batch({"n": given.column("n").slice(0, 1)}))
        collector.emit_arrow(given.select(["n"]).slice(0, 1))


class OfRows(BasicBolt):
    """A row bolt that emits batches, for one row in a thousand."""

    outputs = Fields("n")

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["n"] % 1000 == 7:
            for _ in range(2):
                collector.emit_arrow(pa.record_batch({"n": [tup["n"]]}))


class Seen(BasicBolt):
    """What comes, by chunk and part."""

    failing = True

    def prepare(self, context: Any) -> None:
        self.seen: list[tuple[str, str, int]] = []
        self.failed = not self.failing

    def execute_arrow(self, given: Any, collector: Any) -> None:
        found = {key.decode(): value.decode() for key, value in (given.schema.metadata or {}).items()}
        self.seen.append((found["aiostorm.chunk"], found.get("aiostorm.part", ""), given.num_rows))
        assert found["aiostorm.batch"] == "5"
        if not self.failed and len(self.seen) > 3:
            self.failed = True
            raise ValueError("once more")

    def result(self) -> Any:
        return self.seen


class SeenRows(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.seen: Counter[str] = Counter()

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen[f"{tup.metadata['chunk']} {tup.metadata['batch']}"] += 1

    def result(self) -> Any:
        return dict(self.seen)


async def results_of(builder: TopologyBuilder) -> dict[str, list[Any]]:
    async with LocalCluster() as cluster:
        running = await cluster.submit("named", builder.create_topology(), Config())
        await running.wait_idle(timeout_s=600)
        return await running.results()


@pytest.mark.parametrize("bolt", [Halves, OfRows])
@pytest.mark.parametrize("split", [True, False])
async def test_outputs_know_their_chunk_and_a_replay_gives_the_same_parts(bolt: Any, split: bool) -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Named(4))
    declarer = builder.set_bolt("bolt", bolt(), parallelism=3)
    declarer = declarer.fields_grouping("source", "word") if split else declarer.shuffle_grouping("source")
    builder.set_bolt("seen", Seen()).global_grouping("bolt")
    results = await results_of(builder)
    assert results["source"][0][1], "none was replayed"
    seen = results["seen"][0]
    distinct = set(seen)
    assert len({(chunk, part) for chunk, part, _ in seen}) == len(distinct), "one part, other rows"
    outputs = 6 if (bolt, split) != (Halves, False) else 2
    assert Counter(chunk for chunk, _, _ in distinct) == {f"s/0/{chunk}": outputs for chunk in range(4)}


async def test_row_bolts_read_the_identity_as_metadata() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Named(2))
    builder.set_bolt("rows", SeenRows(), parallelism=2).fields_grouping("source", "word")
    found: Counter[str] = Counter()
    for seen in (await results_of(builder))["rows"]:
        found.update(seen)
    assert found == {"s/0/0 5": 3000, "s/0/1 5": 3000}


class Holds(Bolt):
    """Acks all of what it was given at once, fails the first of it once, and emits to another bolt."""

    outputs = Fields("rows")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.refused, self.held = collector, 0, []

    def execute_batch(self, tuples: Any) -> None:
        if not self.refused:
            self.refused = len(tuples.segments)
            self.collector.ack(tuples[0])  # the rest with the others
            self.collector.fail(tuples, ValueError("not now"))
            self.collector.fail(tuples)
            return
        self.held.append(tuples)
        self.collector.emit((len(tuples),), anchors=tuples)
        for one in self.held[-2:]:  # twice is harmless
            self.collector.ack(one)

    def result(self) -> Any:
        return self.refused


class Sums(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.rows = 0

    def execute(self, tup: Any, collector: Any) -> None:
        self.rows += tup["rows"]

    def result(self) -> Any:
        return self.rows


@pytest.mark.parametrize("source", [Named, Batches])
async def test_a_rich_bolt_acks_and_fails_whole_batches(source: Any) -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", source(5, again=True))
    builder.set_bolt("holds", Holds()).shuffle_grouping("source")
    builder.set_bolt("sums", Sums()).shuffle_grouping("holds")
    async with LocalCluster() as cluster:
        running = await cluster.submit("named", builder.create_topology(), Config())
        await running.wait_idle(timeout_s=600)
        results, metrics = await running.results(), running.metrics()
    acked, failed = results["source"][0]
    assert sorted(acked) == list(range(5))
    [refused] = results["holds"]
    assert len(failed) == refused
    assert results["sums"] == [15_000]
    assert metrics["holds"].acked == 15_001
    assert metrics["holds"].failed == 3000 * refused - 1
