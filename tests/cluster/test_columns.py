"""Columns between workers: credit for batches of any size comes back, and a chunk is the same parts everywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, Config, Fields, Spout, TopologyBuilder

from .hosted import Workers

pa: Any = pytest.importorskip("pyarrow")

BATCHES = 60


class Batches(Spout):
    """Each until it is acked. `chunks`: they know which they are."""

    outputs = Fields("word", "n")
    acked: ClassVar[Counter[int]] = Counter()
    failed: ClassVar[list[Any]] = []

    def __init__(self, rows: int, chunks: bool) -> None:
        self.rows, self.chunks = rows, chunks

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.left = list(range(BATCHES))

    def next_tuple(self) -> None:
        if self.left:
            number = self.left.pop(0)
            words = [f"word {i % 11}" for i in range(self.rows)]
            made = pa.record_batch({"word": words, "n": [number] * self.rows})
            if self.chunks:
                made = made.replace_schema_metadata({"aiostorm.chunk": f"s/0/{number}"})
            self.collector.emit_arrow(made, message_id=number)

    def ack(self, message_id: int) -> None:
        self.acked[message_id] += 1

    def fail(self, message_id: int, failure: Any) -> None:
        self.failed.append(failure)


class Pass(BasicBolt):
    outputs = Fields("word", "n")

    def execute_arrow(self, batch: Any, collector: Any) -> None:
        collector.emit_arrow(batch)


class Seen(BasicBolt):
    rows: ClassVar[list[int]] = []
    parts: ClassVar[Counter[tuple[str, str]]] = Counter()

    def execute_arrow(self, batch: Any, collector: Any) -> None:
        self.rows.append(batch.num_rows)
        metadata = batch.schema.metadata or {}
        if metadata:
            self.parts[metadata[b"aiostorm.chunk"].decode(), metadata[b"aiostorm.part"].decode()] += 1


@pytest.mark.parametrize("chunks", [True, False])
@pytest.mark.parametrize("rows", [10, 2000])
async def test_columns_of_any_size_go_on_and_on(rows: int, chunks: bool) -> None:
    for store in (Batches.acked, Batches.failed, Seen.rows, Seen.parts):
        store.clear()  # type: ignore[attr-defined]
    builder = TopologyBuilder()
    builder.set_spout("source", Batches(rows, chunks))
    builder.set_bolt("pass", Pass(), parallelism=2).shuffle_grouping("source")
    builder.set_bolt("seen", Seen(), parallelism=2).fields_grouping("pass", "word")
    config = Config(max_spout_pending=8, mailbox_capacity_tuples=1024)
    async with Workers(builder.create_topology(), config) as workers:
        await workers.wait_quiet(lambda: len(Batches.acked) == BATCHES, timeout_s=60)
    assert not Batches.failed
    assert set(Batches.acked.values()) == {1}
    assert sum(Seen.rows) == rows * BATCHES
    if chunks:
        assert set(Seen.parts.values()) == {1}
        assert len({part for _, part in Seen.parts}) == 2, "both shares of a chunk are called the same in every chunk"
