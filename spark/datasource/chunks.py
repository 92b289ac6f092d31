"""Chunks: record batches as the bytes that travel between Spark and a topology, none larger than the wire carries.

1. A batch that is too large is cut into halves, and these again: the same batch gives the same chunks each time.
2. What comes is checked by the transport's codec before Arrow reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...topology import is_batch
from ...transport import ProtocolError, UnreadableError, UnsendableError, batch_bytes, pack_value, unpack_value
from ..errors import SparkSourceError
from ..needs import require
from .wire import MAX_CHUNK_BYTES


def cut(batch: Any, max_rows: int = 0) -> Iterator[tuple[Any, bytes]]:
    """Parts of a batch, and their bytes. SparkSourceError: a column that cannot travel, a row too large."""
    if max_rows and batch.num_rows > max_rows:
        for begin in range(0, batch.num_rows, max_rows):
            yield from cut(batch.slice(begin, max_rows))
        return
    size = batch_bytes(batch)  # less than it is packed, but known without a copy
    if size <= MAX_CHUNK_BYTES:
        data = bytes_of(batch)
        size = len(data)
        if size <= MAX_CHUNK_BYTES:
            yield batch, data
            return
    if batch.num_rows < 2:
        raise SparkSourceError(
            f"a row of {size:,} bytes: at most {MAX_CHUNK_BYTES:,} travel at once. Leave its large values where "
            "they are, and send where that is"
        )
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half))
    yield from cut(batch.slice(half))


def bytes_of(batch: Any) -> bytes:
    """A batch for the wire. SparkSourceError for a column that cannot travel."""
    try:
        return pack_value(batch, max_bytes=MAX_CHUNK_BYTES)
    except UnsendableError as error:
        raise SparkSourceError(str(error)) from error


def batch_of(data: bytes) -> Any:
    """The batch that came. ProtocolError if it is none."""
    try:
        batch = unpack_value(data)
    except UnreadableError as error:
        raise ProtocolError(f"a chunk that cannot be read: {error}") from error
    if not is_batch(batch):
        raise ProtocolError("a chunk that is no RecordBatch")
    return batch


def empty_of(schema: Any) -> bytes:
    """A schema for the wire: an empty batch of it."""
    arrow = require("pyarrow")
    columns = [arrow.nulls(0, field.type) for field in schema]  # `array` would load pandas, which takes long
    return bytes_of(arrow.RecordBatch.from_arrays(columns, schema=schema.remove_metadata()))
