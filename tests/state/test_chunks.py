"""Chunks: rows as bytes and back, how many rows a slice has, and bytes that are not chunks."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from aiostorm.state import DamagedError, ForeignError, UnsavableError, chunks, unpack_chunks
from aiostorm.state.chunks import CHUNK_BYTES, MOST_ROWS, REMOVED, Chunk, RowPacker, next_rows
from aiostorm.transport import register_record
from aiostorm.transport.codec import pack_column, pack_plain_column

HEAD = struct.Struct(">BIIBIBIBI")
PLAIN, GENERAL, TUPLES, LISTS = range(4)


@register_record
@dataclass(frozen=True)
class Point:
    x: int


def packed(keys: list[Any], values: list[Any]) -> list[chunks.PackedChunk]:
    return RowPacker("count", 3, 5).chunks(keys, values)


def only(data: bytes) -> Chunk:
    (found,) = unpack_chunks(data, "t3-1-f-0")
    return found


def forms(data: bytes) -> tuple[int, int, int]:
    """The forms of keys, values and removed keys."""
    _, _, _, keys, _, values, _, removed, _ = HEAD.unpack_from(data)
    return keys, values, removed


# -- there and back ----------------------------------------------------------------------------------------------------


def test_values_and_removed_keys_are_counted_and_come_back() -> None:
    (chunk,) = packed(["a", "b", "c", "d"], [1, REMOVED, 3, REMOVED])
    assert chunk.rows == 4
    assert HEAD.unpack_from(chunk.data)[:3] == (5, 2, 2)
    found = only(chunk.data)
    assert (found.section, list(found.keys), list(found.values), list(found.removed)) == (
        5,
        ["a", "c"],
        [1, 3],
        ["b", "d"],
    )
    state = {"b": 0, "c": 0, "x": 0}
    found.apply_to(state)
    assert state == {"a": 1, "c": 3, "x": 0}, "a removed key need not be there"


@pytest.mark.parametrize("values", [[1, 2], [REMOVED, REMOVED]])
def test_a_chunk_may_have_only_values_or_only_removed_keys(values: list[Any]) -> None:
    (chunk,) = packed(["a", "b"], values)
    found = only(chunk.data)
    assert list(found.keys) == ([] if values[0] is REMOVED else ["a", "b"])
    assert list(found.removed) == (["a", "b"] if values[0] is REMOVED else [])


def test_without_keys_there_is_no_chunk() -> None:
    assert packed([], []) == []
    assert list(unpack_chunks(b"", "t3-1-f-0")) == []


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([1, 2], PLAIN),
        (["a", "b"], PLAIN),
        ([(1, "a"), (2, "b")], TUPLES),
        ([[1.5, "a"], [2.5, "b"]], LISTS),
        ([(1,), (2, 3)], GENERAL),
        ([(), ()], GENERAL),
        ([[], []], GENERAL),
        ([(1,), [1]], GENERAL),
        ([(1, [2]), (1, [3])], GENERAL),
        ([Point(1), Point(2)], GENERAL),
        ([Decimal(1), "a"], GENERAL),
    ],
    ids=str,
)
def test_rows_of_one_shape_are_packed_by_columns(values: list[Any], form: int) -> None:
    for some in (values, values[:1]):
        (chunk,) = packed(list("ab")[: len(some)], some)
        assert list(only(chunk.data).values) == some
        assert [type(value) for value in only(chunk.data).values] == list(map(type, some))
    (chunk,) = packed(["a", "b"], values)
    assert forms(chunk.data) == (PLAIN, form, PLAIN)
    (chunk,) = packed([(1, "x"), (2, "y")], values)
    assert forms(chunk.data) == (TUPLES, form, PLAIN)
    assert list(only(chunk.data).keys) == [(1, "x"), (2, "y")]


def test_rows_that_are_too_large_for_a_chunk_are_halved() -> None:
    size = CHUNK_BYTES // 4
    keys, values = list(range(7)), [bytes([n]) * size for n in range(5)] + [REMOVED, REMOVED]
    made = packed(keys, values)
    assert [chunk.rows for chunk in made] == [4, 3]
    assert all(len(chunk.data) <= CHUNK_BYTES + HEAD.size for chunk in made)
    state: dict[int, bytes] = {5: b"", 6: b"", 9: b""}
    for chunk in made:
        only(chunk.data).apply_to(state)
    assert state == {**dict(zip(keys[:5], values[:5], strict=True)), 9: b""}


def test_rows_of_just_a_chunk_are_one_and_a_large_value_is_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (small,) = packed(["a", "b"], [b"x" * 500, b"y" * 500])
    size = len(small.data) - HEAD.size
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
    assert len(packed(["a", "b"], [b"x" * 500, b"y" * 500])) == 1
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size - 1)
    assert [chunk.rows for chunk in packed(["a", "b"], [b"x" * 500, b"y" * 500])] == [1, 1]
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1)
    assert [chunk.rows for chunk in packed(["a"], [b"x" * 5_000])] == [1]
    assert [chunk.rows for chunk in packed(list("abcde"), [REMOVED] * 5)] == [1] * 5


def test_an_error_names_the_row_of_the_value() -> None:
    with pytest.raises(UnsavableError, match="component 'count', task 3: the state of key 'c'"):
        packed(["a", "b", "c"], [[1], {"x": 1}, {1, (object(),)}])
    with pytest.raises(UnsavableError, match="the state of key 'b'") as raised:
        packed(["a", "b"], [(1, 2), (1, object())])
    assert raised.value.culprit[0] == 1  # type: ignore[index]


@pytest.mark.parametrize("key", [float("nan"), ("a", float("nan")), (("a", Decimal("nan")),), complex("nan")])
def test_a_key_with_nan_is_refused_beside_others_and_when_it_is_removed(key: Any) -> None:
    for value in (1, REMOVED):
        with pytest.raises(UnsavableError, match="contains NaN") as raised:
            packed(["a", key], [1, value])
        assert raised.value.key is key
    (chunk,) = packed([1.5, Decimal(2), 1j, ("a", 2.5)], [1, 2, 3, 4])
    assert list(only(chunk.data).keys) == [1.5, Decimal(2), 1j, ("a", 2.5)]


# -- slices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "took_s", "largest_bytes", "wanted"),
    [
        (100, 0.002, 0, 100),
        (100, 0.004, 0, 50),
        (100, 0.0015, 0, 133),
        (100, 0.0001, 0, 200),
        (100, 0.0, 0, 200),
        (100, 5.0, 0, 1),
        (1, 0.003, 0, 1),
        (MOST_ROWS - 1, 0.001, 0, MOST_ROWS),
        (100, 0.002, CHUNK_BYTES // 4, 100),
        (100, 0.001, CHUNK_BYTES // 4, 200),
        (100, 0.0005, CHUNK_BYTES // 4 + 1, 199),
        (100, 0.002, CHUNK_BYTES, 50),
        (100, 0.004, CHUNK_BYTES * 2, 25),
        (100, 0.02, CHUNK_BYTES, 10),
        (1, 0.001, CHUNK_BYTES * 50, 1),
    ],
)
def test_the_rows_of_the_next_slice(rows: int, took_s: float, largest_bytes: int, wanted: int) -> None:
    assert next_rows(rows, took_s, largest_bytes) == wanted


# -- bytes that are not chunks -----------------------------------------------------------------------------------------


def column(values: list[Any]) -> bytes:
    found = pack_plain_column(values)
    assert found is not None
    return found


def made(
    keys: tuple[int, bytes],
    values: tuple[int, bytes],
    removed: tuple[int, bytes] = (PLAIN, b""),
    *,
    rows: int,
    n_removed: int = 0,
) -> bytes:
    parts = [part for form, data in (keys, values, removed) for part in (form, len(data))]
    return HEAD.pack(0, rows, n_removed, *parts) + keys[1] + values[1] + removed[1]


KEYS = (PLAIN, column(["a", "b"]))
VALUES = (PLAIN, column([1, 2]))


def rows_of(*columns: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(data)) + data for data in columns)


def test_chunks_follow_one_another() -> None:
    first, second = made(KEYS, VALUES, rows=2), made((PLAIN, b""), (PLAIN, b""), KEYS, rows=0, n_removed=2)
    assert list(unpack_chunks(first + second, "x")) == [only(first), only(second)]
    assert list(only(made(KEYS, (TUPLES, rows_of(column([1, 2]), column([3, 4]))), rows=2)).values) == [(1, 3), (2, 4)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (made(KEYS, VALUES, rows=2)[: HEAD.size - 1], "a chunk is cut short at byte 0"),
        (made(KEYS, VALUES, rows=2) + b"\0", f"a chunk is cut short at byte {len(made(KEYS, VALUES, rows=2))}"),
        (made(KEYS, VALUES, rows=2)[:-1], "a column of 2 values in"),
        (made(KEYS, VALUES, rows=100), "a column of 100 values in"),
        (made(KEYS, (PLAIN, b""), rows=2), "a column of 2 values in 0 bytes"),
        (made((PLAIN, b""), (PLAIN, b"x"), rows=0), "an empty column of 1 bytes"),
        (made((PLAIN, b""), (PLAIN, b""), (PLAIN, b"x"), rows=0), "an empty column of 1 bytes"),
        (made(KEYS, (4, VALUES[1]), rows=2), "a column of form 4 is not 2 values"),
        (made(KEYS, (GENERAL, pack_column([1, 2, 3])), rows=2), "a column of form 1 is not 2 values"),
        (made(KEYS, (TUPLES, rows_of(column([1, 2])) + b"\0\0\0"), rows=2), "a column of 2 rows is cut short"),
        (made(KEYS, (TUPLES, rows_of(column([1, 2]))[:-1]), rows=2), "a column of 2 rows is cut short"),
        (made(KEYS, (LISTS, rows_of(column([1, 2]), b"\1")), rows=2), "a column of 2 rows is cut short"),
    ],
)
def test_what_is_no_chunk_is_damage(data: bytes, problem: str) -> None:
    with pytest.raises(DamagedError, match=f"t3-1-f-0: {problem}"):
        list(unpack_chunks(data, "t3-1-f-0"))


def test_a_value_that_this_process_cannot_make_is_not_damage() -> None:
    data = pack_column([Point(1), Point(2)]).replace(b":Point", b":Paint")
    with pytest.raises(ForeignError, match=r"t3-1-f-0: a value cannot be read: .* increase the version of the state"):
        list(unpack_chunks(made(KEYS, (GENERAL, data), rows=2), "t3-1-f-0"))
