"""Identity: which chunk of its source a batch of columns is, and which part of that chunk.

    source: chunk flights/7/3 ─▶ split by key: parts h(0/2), h(1/2) ─▶ a bolt emits two: h(part, bolt, stream, 0 and 1)

1. It is metadata of the Arrow schema, keys `aiostorm.…`, so it goes wherever the batch goes: another task, another
   worker, a replay. Row bolts see it as `Tuple.metadata`.
2. Two different batches that come of one chunk have different parts, also where their rows are equal. The same chunk
   again gives the same parts, where what it passes is the same again: groupings that go by the rows (or do not split),
   bolts that emit the same in the same order, the same names and parallelism.
3. A bolt's output has the identity of the batch that is being executed. What it emits outside of that (a tick, rows of
   several batches) has none: such an output cannot be told from another one.
4. A batch without identity costs a look at its schema.

Storm has no columns; the nearest is Trident's transaction id (depart).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

PREFIX: Final = b"aiostorm."
CHUNK: Final = b"aiostorm.chunk"
PART: Final = b"aiostorm.part"

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


def metadata_of(batch: Any) -> Mapping[str, str]:
    """What the source says of a batch, for people: `{"chunk": "flights/7/3"}`. Empty for most batches."""
    found = batch.schema.metadata
    if not found:
        return NO_METADATA
    ours = {_text(key[len(PREFIX) :]): _text(value) for key, value in found.items() if key.startswith(PREFIX)}
    return MappingProxyType(ours) if ours else NO_METADATA


def has_identity(batch: Any) -> bool:
    """Does it belong to a chunk?"""
    found = batch.schema.metadata
    return found is not None and CHUNK in found


def part_of(batch: Any, *steps: object) -> Any:
    """The batch, one of those into which another was divided. `steps` tell them apart."""
    found = batch.schema.metadata
    if found is None or CHUNK not in found:
        return batch
    return batch.replace_schema_metadata({**found, PART: _next(found.get(PART, b""), steps)})


def with_identity_of(batch: Any, given: Any | None, *steps: object) -> Any:
    """What a bolt emits while it executes `given` (None: no batch). `steps` tell its outputs apart."""
    own = batch.schema.metadata
    theirs = None if given is None else given.schema.metadata
    if theirs is None or CHUNK not in theirs:
        return batch if own is None or CHUNK not in own else batch.replace_schema_metadata(dict(_others(own)))
    ours = {key: value for key, value in theirs.items() if key.startswith(PREFIX)}
    ours[PART] = _next(theirs.get(PART, b""), steps)
    return batch.replace_schema_metadata({**dict(_others(own or {})), **ours})


def pieces_of(batch: Any, most_bytes: int) -> list[Any]:
    """A batch with identity in pieces of about `most_bytes`; cut in the same way whenever its rows are the same."""
    count: int = batch.num_rows
    arrow: Any = sys.modules["pyarrow"]
    if count < 2 or arrow.ipc.get_record_batch_size(batch) * 4 < most_bytes * 3:
        return [batch]
    # The size must not depend on how Arrow happens to hold these rows (slices, bitmaps without a null): a fresh copy's.
    # A copy may be smaller; that it were larger by a third is not to be feared.
    copied = batch.take(arrow.array(range(count), arrow.int64()))
    size: int = arrow.ipc.get_record_batch_size(copied)
    if size <= most_bytes:
        return [batch]
    batch = copied
    rows = max(1, count // -(-size // most_bytes))
    return [part_of(batch.slice(start, rows), "piece", start, rows) for start in range(0, count, rows)]


def _next(part: bytes, steps: tuple[object, ...]) -> bytes:
    # No secret, only short: what was, and each step with its length, so that ("a", "b") is not ("ab", "").
    told = b"".join(b"%d:%s" % (len(step), step) for step in [str(step).encode() for step in steps])
    return blake2b(part + b"|" + told, digest_size=8).hexdigest().encode()


def _others(metadata: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for key, value in metadata.items() if not key.startswith(PREFIX))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
