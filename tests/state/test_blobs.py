"""Blobs: chunks in files of a limited size, and what is refused when one is read."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from typing import Any

import pytest

from aiostorm.state import BlobRef, BlobWriter, DamagedError, ForeignError, PackedChunk, body_of
from aiostorm.state import blobs as module
from aiostorm.state.blobs import Blob, BlobName

HEADER = 36
"""Bytes before the chunks."""


def written(*sizes: int, full: bool = True, part_bytes: int = 1000) -> list[Blob]:
    """The blobs of chunks of these sizes, with as many rows as bytes."""
    writer = BlobWriter(7, 3, full=full, part_bytes=part_bytes)
    made = [writer.add(PackedChunk(b"x" * size, size)) for size in sizes]
    return [blob for blob in (*made, writer.finish()) if blob is not None]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t7-3-f-0", BlobName(7, 3, True, 0)),
        ("t0-1-d-12", BlobName(0, 1, False, 12)),
        ("t999999999-999999999999999999-d-999999999", BlobName(999_999_999, 10**18 - 1, False, 999_999_999)),
    ],
)
def test_a_name_says_whose_blob_it_is(name: str, parsed: BlobName) -> None:
    assert BlobName.parse(name) == parsed
    assert str(parsed) == name


@pytest.mark.parametrize(
    "name",
    ["", "t7-3-f", "t7-0-f-0", "t07-3-f-0", "t7-3-x-0", "t7-3-f-00", "t7-3-f-0 ", "m-3", "t7-3-f-0-0", "t-7-3-f-0"],
)
def test_other_names_are_not_those_of_blobs(name: str) -> None:
    assert BlobName.parse(name) is None
    with pytest.raises(DamagedError, match="this is not the name of a blob"):
        body_of(BlobRef(name, HEADER, 0, 0), bytes(HEADER))


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_blob_has_as_many_chunks_as_fit() -> None:
    blobs = written(500, 1000 - HEADER - 500, 1)
    assert [blob.ref.name for blob in blobs] == ["t7-3-f-0", "t7-3-f-1"]
    assert [blob.ref.size_bytes for blob in blobs] == [1000, HEADER + 1]
    assert [len(blob.data) for blob in blobs] == [1000, HEADER + 1]
    assert [blob.ref.rows for blob in blobs] == [1000 - HEADER, 1]
    assert b"".join(bytes(body_of(blob.ref, blob.data)) for blob in blobs) == b"x" * (1001 - HEADER)
    assert [blob.ref.rows for blob in written(500, 1001 - HEADER - 500)] == [500, 501 - HEADER]


def test_a_chunk_above_the_usual_size_is_a_blob_of_its_own() -> None:
    assert [blob.ref.rows for blob in written(10, 5_000, 10)] == [10, 5_000, 10]


def test_a_chunk_that_no_blob_can_contain_is_an_error_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BLOB_BYTES", 2_000)
    writer = BlobWriter(7, 3, full=False, part_bytes=10_000)
    with pytest.raises(ValueError, match="a chunk of 1,965 bytes: a blob has at most 2,000"):
        writer.add(PackedChunk(bytes(2_001 - HEADER), 1))
    assert writer.add(PackedChunk(bytes(2_000 - HEADER), 1)) is None
    largest = writer.add(PackedChunk(b"y", 1))
    assert largest is not None
    assert len(largest.data) == 2_000


def test_only_a_full_snapshot_has_a_blob_without_chunks() -> None:
    (empty,) = written()
    assert (empty.ref.name, empty.ref.rows, empty.ref.size_bytes) == ("t7-3-f-0", 0, HEADER)
    assert written(full=False) == []
    assert [blob.ref.name for blob in written(5, full=False)] == ["t7-3-d-0"]
    writer = BlobWriter(7, 3, full=True)
    writer.add(PackedChunk(b"x", 1))
    assert writer.finish() is not None
    assert writer.finish() is None, "it has a blob already"


# -- reading -----------------------------------------------------------------------------------------------------------


def forged(**changes: Any) -> tuple[BlobRef, bytes]:
    """A blob with two bytes of chunks whose header says something else, and whose checksum is right."""
    values = {
        "magic": b"aioS",
        "version": 1,
        "kind": 1,
        "task": 7,
        "number": 3,
        "part": 0,
        "rows": 5,
        "size": 2,
    } | changes
    header = struct.pack(">4sHBxIQIII", *values.values())
    crc32 = zlib.crc32(header, zlib.crc32(b"ab"))
    data = header + struct.pack(">I", crc32) + b"ab"
    return BlobRef("t7-3-f-0", len(data), 5, crc32), data


def test_the_bytes_are_those_of_format_1() -> None:
    ref, data = forged()
    assert bytes(body_of(ref, data)) == b"ab"
    writer = BlobWriter(7, 3, full=True)
    writer.add(PackedChunk(b"ab", 5))
    assert writer.finish() == Blob(ref, data)


@pytest.mark.parametrize(
    "changes",
    [
        {"magic": b"aioT"},
        {"version": 0},
        {"kind": 2},
        {"task": 8},
        {"number": 4},
        {"part": 1},
        {"rows": 6},
        {"size": 3},
    ],
    ids=str,
)
def test_a_header_of_another_blob_is_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(DamagedError, match="t7-3-f-0: its header is that of another blob"):
        body_of(*forged(**changes))


def test_a_newer_format_is_no_damage_and_a_newer_version_of_something_else_is() -> None:
    with pytest.raises(ForeignError, match="t7-3-f-0 has format 2, and this aiostorm reads up to 1: use a newer one"):
        body_of(*forged(version=2))
    with pytest.raises(DamagedError, match="another blob"):
        body_of(*forged(magic=b"PNG ", version=2))


def test_a_blob_that_the_manifest_does_not_describe_is_damage() -> None:
    ref, data = forged()
    with pytest.raises(DamagedError, match="the blob is missing"):
        body_of(ref, None)
    with pytest.raises(DamagedError, match="the blob has 38 bytes instead of 39"):
        body_of(dataclasses.replace(ref, size_bytes=39), data)
    with pytest.raises(DamagedError, match="the blob has 35 bytes"):
        body_of(dataclasses.replace(ref, size_bytes=HEADER - 1), data[: HEADER - 1])
    with pytest.raises(DamagedError, match="its checksum is wrong"):
        body_of(dataclasses.replace(ref, crc32=ref.crc32 ^ 1), data)
