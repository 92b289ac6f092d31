"""Micro-batch reader: reads the batch that Spark waits for chunk after chunk, and returns it to Spark at its end.

begin(delivery) ─► fetch: a chunk to emit … ─► no more ─► (all acked, or in a snapshot) return_batch ─► Spark commits it
                     │ an error: retry ─► from the beginning, without the chunks that are emitted already
                     └ …                ─► the batch has failed: return_batch ─► the query fails, Spark brings it again
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..errors import SparkSourceError
from .batches import BatchState, MicroBatch, StreamBatches

if TYPE_CHECKING:
    from ..batch.readers import Piece
    from .chunks import StreamChunks
    from .foreach_batch import Delivery

log = logging.getLogger("aiostorm.spark")


class MicroBatchReader:
    """The reader of one spout. `chunk`: fetched, and not emitted yet."""

    def __init__(self, batches: StreamBatches, source: StreamChunks) -> None:
        self.chunk: Piece | None = None
        self._batches = batches
        self._source = source
        self._delivery: Delivery | None = None
        self._chunks: AsyncGenerator[Piece, None] | None = None

    @property
    def has_batch(self) -> bool:
        """Whether Spark waits for a batch that was begun."""
        return self._delivery is not None

    @property
    def is_reading(self) -> bool:
        """Whether there may be more chunks to fetch."""
        return self._chunks is not None

    def begin(self, delivery: Delivery) -> None:
        """Begin a batch. SparkSourceError if it cannot belong to this query."""
        try:
            batch = self._batches.begin(delivery.batch_id)
        except SparkSourceError as error:
            delivery.fail(str(error))
            raise
        self._delivery = delivery
        if batch.settled:  # all of it was emitted before
            self.return_batch()
        else:
            self._begin_pass(batch, delivery)

    async def fetch(self) -> None:
        """Fetch the next chunk, if there is one. Raises Spark's errors: SparkSourceError if a retry would not help."""
        batch = self._batches.current
        if batch is None or batch.settled or self._chunks is None:
            await self.drop()
            return
        try:
            self.chunk = await anext(self._chunks, None)
        except Exception as error:
            if isinstance(error, SparkSourceError):
                batch.broken(str(error))
                self.return_batch()
            await self.drop()
            raise
        if self.chunk is None:
            await self.drop()
            self.return_batch()

    def retry(self, why: str) -> None:
        """Fetching has failed: read the batch again, unless that was tried too often."""
        batch, delivery = self._batches.current, self._delivery
        if batch is None or delivery is None:
            return
        if batch.pass_failed(why):
            log.warning("%s: batch %d is fetched again: %s", batch.name, batch.batch_id, why)
            self._begin_pass(batch, delivery)
        self.return_batch()

    def fail(self, why: str) -> None:
        """The batch has failed: a retry would not help."""
        if self._batches.current is not None:
            self._batches.current.broken(why)
            self.return_batch()

    def abandon(self, why: str) -> None:
        """The topology or the query ends, and the batch with it."""
        if self._batches.current is not None:
            self._batches.current.abandon(why)
            self.return_batch()
        delivery, self._delivery = self._delivery, None
        if delivery is not None:  # it waits for a snapshot
            delivery.fail(why)

    def return_batch(self) -> None:
        """Return the batch to Spark if it has ended; with exactly-once when it is in a durable snapshot."""
        batch, delivery = self._batches.current, self._delivery
        if batch is None or delivery is None or not batch.settled:
            return
        if batch.state is BatchState.ACKED and not self._batches.is_returnable:
            return
        self._delivery = self.chunk = None
        if batch.state is BatchState.ACKED:
            self._batches.count(batch)
            delivery.done()
        else:
            delivery.fail(batch.why)

    async def drop(self) -> None:
        """Read no more of the batch."""
        chunks, self._chunks, self.chunk = self._chunks, None, None
        if chunks is not None:
            await chunks.aclose()

    def _begin_pass(self, batch: MicroBatch, delivery: Delivery) -> None:
        batch.begin_pass()
        self._chunks = self._pass(batch, delivery)

    async def _pass(self, batch: MicroBatch, delivery: Delivery) -> AsyncGenerator[Piece, None]:
        """One pass over the data of a batch: the chunks to emit."""
        async with aclosing(self._source.of(delivery.dataframe)) as pieces:
            async for piece in pieces:
                if batch.settled:
                    return
                if batch.offer(piece.partition, piece.number, piece.digest, piece.rows):
                    yield piece
        if not batch.settled:
            batch.end_pass()
            self._batches.note_whole()
