"""Identity: which chunk of its source a batch of columns belongs to, and which part of that chunk it is.

    source: chunk flights/7/3 ─▶ split by key: parts h(0/2), h(1/2) ─▶ a bolt emits two: h(part, bolt, stream, 0 and 1)

1. It is metadata of the Arrow schema, with keys `aiostorm.…`, so it stays with the batch: in another task, in another
   worker, in a replay. Row bolts see it as `Tuple.metadata`.
2. Two different batches from one chunk have different parts, even if their rows are equal. The same chunk again gives
   the same parts if it is processed in the same way: by groupings that depend only on the rows (or do not split), by
   bolts that emit the same in the same order, with the same names and parallelism.
3. A bolt's output has an identity derived from the batch that is being executed. Emits outside of that (a tick, rows of
   several batches) have none: such outputs cannot be distinguished.
4. For a batch without identity, only its schema is checked.

Storm has no columns; the nearest is Trident's transaction id (depart).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..values import PyArrow, RecordBatch

PREFIX: Final = b"aiostorm."
CHUNK: Final = b"aiostorm.chunk"
PART: Final = b"aiostorm.part"

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


def metadata_of(batch: RecordBatch) -> Mapping[str, str]:
    """The source's metadata of a batch, for people: `{"chunk": "flights/7/3"}`. Empty for most batches."""
    found = batch.schema.metadata
    if not found:
        return NO_METADATA
    ours = {_text(key[len(PREFIX) :]): _text(value) for key, value in found.items() if key.startswith(PREFIX)}
    return MappingProxyType(ours) if ours else NO_METADATA


def has_identity(batch: RecordBatch) -> bool:
    """Does it belong to a chunk?"""
    found = batch.schema.metadata
    return found is not None and CHUNK in found


def part_of(batch: RecordBatch, *steps: object) -> RecordBatch:
    """The batch as one part of a divided batch. `steps` distinguish the parts."""
    found = batch.schema.metadata
    if found is None or CHUNK not in found:
        return batch
    return batch.replace_schema_metadata({**found, PART: _next(found.get(PART, b""), steps)})


def with_identity_of(batch: RecordBatch, given: RecordBatch | None, *steps: object) -> RecordBatch:
    """A batch that a bolt emits while it executes `given` (None: no batch). `steps` distinguish its outputs."""
    own = batch.schema.metadata
    theirs = None if given is None else given.schema.metadata
    if theirs is None or CHUNK not in theirs:
        return batch if own is None or CHUNK not in own else batch.replace_schema_metadata(dict(_others(own)))
    ours = {key: value for key, value in theirs.items() if key.startswith(PREFIX)}
    ours[PART] = _next(theirs.get(PART, b""), steps)
    return batch.replace_schema_metadata({**dict(_others(own or {})), **ours})


def pieces_of(batch: RecordBatch, most_bytes: int) -> list[RecordBatch]:
    """A batch with identity, split into pieces of about `most_bytes`; equal rows are always split in the same way."""
    count: int = batch.num_rows
    arrow: PyArrow = sys.modules["pyarrow"]
    if count < 2 or arrow.ipc.get_record_batch_size(batch) * 4 < most_bytes * 3:
        return [batch]
    # The size must not depend on how Arrow happens to store these rows (slices, bitmaps without a null): use a new
    # copy's. A copy may be smaller; it will hardly be larger by a third.
    copied = batch.take(arrow.array(range(count), arrow.int64()))
    size: int = arrow.ipc.get_record_batch_size(copied)
    if size <= most_bytes:
        return [batch]
    batch = copied
    rows = max(1, count // -(-size // most_bytes))
    return [part_of(batch.slice(start, rows), "piece", start, rows) for start in range(0, count, rows)]


def _next(part: bytes, steps: tuple[object, ...]) -> bytes:
    # Not a secret, only short: the old part, and each step with its length, so that ("a", "b") differs from ("ab", "").
    encoded = b"".join(b"%d:%s" % (len(step), step) for step in [str(step).encode() for step in steps])
    return blake2b(part + b"|" + encoded, digest_size=8).hexdigest().encode()


def _others(metadata: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for key, value in metadata.items() if not key.startswith(PREFIX))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
