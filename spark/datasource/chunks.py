"""Chunks: record batches encoded for the connection between Spark and a topology, of limited size.

1. A batch that is too large is cut in half, repeatedly: the same batch gives the same chunks each time.
2. Received bytes are checked by the transport's codec before Arrow reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...topology import is_batch
from ...transport import ProtocolError, UnreadableError, UnsendableError, batch_bytes, pack_value, unpack_value
from ..errors import SparkSourceError
from ..executors.messages import MAX_CHUNK_BYTES
from ..needs import require


def cut(batch: Any, max_rows: int = 0) -> Iterator[tuple[Any, bytes]]:
    """Cut a batch into parts, with their bytes. SparkSourceError: a column that cannot be sent, a row too large."""
    if max_rows and batch.num_rows > max_rows:
        for begin in range(0, batch.num_rows, max_rows):
            yield from cut(batch.slice(begin, max_rows))
        return
    size = batch_bytes(batch)  # less than the encoded size, but known without a copy
    if size <= MAX_CHUNK_BYTES:
        data = bytes_of(batch)
        size = len(data)
        if size <= MAX_CHUNK_BYTES:
            yield batch, data
            return
    if batch.num_rows < 2:
        raise SparkSourceError(
            f"a row has {size:,} bytes, and at most {MAX_CHUNK_BYTES:,} can be sent. Store large values elsewhere, and "
            "send their address"
        )
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half))
    yield from cut(batch.slice(half))


def bytes_of(batch: Any) -> bytes:
    """Encode a batch. SparkSourceError for a column that cannot be sent."""
    try:
        return pack_value(batch, max_bytes=MAX_CHUNK_BYTES)
    except UnsendableError as error:
        raise SparkSourceError(str(error)) from error


def batch_of(data: bytes) -> Any:
    """Decode a batch. ProtocolError if it is invalid."""
    try:
        batch = unpack_value(data)
    except UnreadableError as error:
        raise ProtocolError(f"a chunk that cannot be read: {error}") from error
    if not is_batch(batch):
        raise ProtocolError("a chunk that is no RecordBatch")
    return batch


def empty_of(schema: Any) -> bytes:
    """Encode a schema, as an empty batch."""
    arrow = require("pyarrow")
    columns = [arrow.nulls(0, field.type) for field in schema]  # `array` would import pandas, which takes long
    return bytes_of(arrow.RecordBatch.from_arrays(columns, schema=schema.remove_metadata()))
