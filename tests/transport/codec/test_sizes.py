"""What is too large to be sent is refused before it is copied, with the name of its field."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pytest

from aiostorm import register_record
from aiostorm.topology import ColumnRows, Fields, Origin
from aiostorm.transport import MAX_FRAME_BYTES, UnsendableError, pack_value, unpack_value
from aiostorm.transport.codec import batches, sizes, values
from aiostorm.transport.codec.scan import MAX_ITEMS
from aiostorm.transport.exchange.segments import MAX_ROW_BYTES, split_items

pa: Any = _pyarrow

SIZE = 1 << 26
PHOTOS = Origin("camera", 4, "default", Fields("name", "picture"))
ORIGIN = Origin("bolt", 3, "default", Fields("name", "picture"))


@register_record
@dataclass(frozen=True)
class Photo:
    name: str
    pixels: bytes


def batch(size: int) -> Any:
    """Of a thousand rows."""
    return pa.record_batch({"name": ["a"] * 1000, "pixels": [b"x" * (size // 1000)] * 1000})


def dictionary(size: int) -> Any:
    return pa.array(["a" * size]).dictionary_encode()


LARGE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(SIZE),
    "str": lambda: " " * SIZE,
    "bytearray": lambda: bytearray(SIZE),
    "an array": lambda: np.zeros(SIZE, np.uint8),
    "in a list": lambda: [1, bytes(SIZE)],
    "in a tuple of texts": lambda: ("a", " " * SIZE),
    "in a dict": lambda: {"a": 1, "b": bytes(SIZE)},
    "in a dict of a list": lambda: {"a": [None, {"b": bytearray(SIZE)}]},
    "a long list": lambda: [0] * (SIZE // 64),
    "a flat array": lambda: np.zeros((1, SIZE), np.uint8),
    "a key": lambda: {" " * SIZE: 1},
    "in a field of a record": lambda: Photo("a", bytes(SIZE)),
    "a batch": lambda: batch(SIZE),
    "a batch beside others": lambda: [batch(10), 7, batch(SIZE)],
    "a dictionary of a batch": lambda: pa.record_batch({"d": pa.array(["a" * SIZE]).dictionary_encode()}),
    "one inside": lambda: pa.record_batch({"s": pa.StructArray.from_arrays([dictionary(SIZE)], ["d"])}),
}


@pytest.fixture
def _copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgpack is given nothing that is large."""
    real = values._packer

    class Packer:
        """As msgpack's."""

        def pack(self, value: Any) -> bytes:
            packed: bytes = real.pack(value)
            assert len(packed) < 1_000_000
            return packed

    encode = batches.encode_batch

    def encode_batch(batch: Any) -> bytes:
        data = encode(batch)
        assert len(data) < 1_000_000
        return data

    monkeypatch.setattr(values, "_packer", Packer())
    monkeypatch.setattr(batches, "encode_batch", encode_batch)


@pytest.mark.usefixtures("_copies_nothing")
@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_row_with_a_large_value_is_refused_before_it_is_copied(kind: str, rows: int) -> None:
    large = LARGE[kind]()
    items = [*[("a", b"small"), ("b", None)][: rows - 1], ("c", large)]
    began_s = time.process_time()
    with pytest.raises(UnsendableError) as refused:
        split_items(ORIGIN, items)
    assert time.process_time() - began_s < 0.5
    assert "'picture'" in str(refused.value)
    assert "bolt" in str(refused.value)
    assert refused.value.offset == rows - 1


@pytest.mark.parametrize("kind", LARGE)
def test_so_is_a_message(kind: str) -> None:
    with pytest.raises(UnsendableError, match="send it in parts"):
        pack_value(LARGE[kind]())


def test_a_value_that_is_sent_in_pieces_may_be_larger() -> None:
    large = {"rows": list(range(MAX_ITEMS + 1)), "text": "a" * 3_000_000}
    assert len(pack_value(large, 10 * MAX_ITEMS)) > 3_000_000
    with pytest.raises(UnsendableError):
        pack_value(large)


def columns(names: list[str], pictures: Any) -> ColumnRows:
    return ColumnRows(pa.record_batch({"name": names, "picture": pictures}), False)


@pytest.mark.usefixtures("_copies_nothing")
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("last", [True, False])
def test_columns_with_one_large_value_are_refused_before_they_are_copied(rows: int, last: bool) -> None:
    pictures = [b"small"] * (rows - 1)
    pictures.insert(rows - 1 if last else 0, bytes(SIZE))
    began_s = time.process_time()
    with pytest.raises(UnsendableError) as refused:
        split_items(PHOTOS, columns(["n"] * rows, pictures))
    assert time.process_time() - began_s < 0.5
    assert "'camera' emits on stream 'default', field 'picture'" in str(refused.value)
    assert f"{MAX_ROW_BYTES:,}" in str(refused.value)


@pytest.mark.usefixtures("_copies_nothing")
def test_so_are_columns_with_a_large_dictionary() -> None:
    names = [str(n) for n in range(1000)]
    large = pa.array([b"%06d" % n + bytes(SIZE // 1000) for n in range(1000)]).dictionary_encode()
    with pytest.raises(UnsendableError, match=r"field 'picture': .* cast dictionaries to their values"):
        split_items(PHOTOS, columns(names, large))


@pytest.mark.usefixtures("_copies_nothing")
def test_many_rows_of_columns_are_cut_before_they_are_copied() -> None:
    rows = SIZE // 4096
    sent = columns([str(n) for n in range(rows)], [bytes(4000)] * rows)
    parts = split_items(PHOTOS, sent)
    names = [name for part, _ in parts for name, _ in part.unpacked()]
    assert names == [str(n) for n in range(rows)]


def test_a_slice_of_what_is_large_is_as_small_as_its_rows() -> None:
    pictures = [b"small", bytes(SIZE), b"small"]
    large = columns(["a", "b", "c"], pictures).batch
    [(part, _)] = split_items(PHOTOS, ColumnRows(large.slice(2, 1), False))
    assert list(part.unpacked()) == [("c", b"small")]
    found = unpack_value(pack_value([large.slice(0, 1)]))[0]
    assert found.to_pylist() == [{"name": "a", "picture": b"small"}]


def test_a_batch_that_arrow_holds_in_more_than_it_is_when_packed_goes() -> None:
    """Bitmaps of columns without a null are not packed."""
    sent = pa.record_batch({"b": pa.array([None] + [True] * 5_000_000).slice(1)})
    assert sent.nbytes > 1_200_000
    assert unpack_value(pack_value(sent)).num_rows == 5_000_000


def test_types_that_are_not_sent_are_refused_at_any_size() -> None:
    unions = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array([1, 2])])
    for column in (unions, pa.array(["x" * 30], pa.string_view()), pa.array([["x" * SIZE]], pa.list_view(pa.string()))):
        with pytest.raises(UnsendableError, match=r"too large|column 'c' is "):
            pack_value(pa.record_batch({"c": column}))


def test_a_way_that_is_not_made_of_frames_has_a_limit_of_its_own() -> None:
    text = "x" * (2 * MAX_FRAME_BYTES)
    assert unpack_value(pack_value(text, max_bytes=4 * MAX_FRAME_BYTES)) == text
    with pytest.raises(UnsendableError, match="which takes 2,000,000 at once"):
        pack_value(text, max_bytes=2_000_000)
    with pytest.raises(UnsendableError, match="which takes 1,048,576 at once"):
        pack_value(text)  # the limit holds for that one value alone


def test_a_limit_of_one_thread_is_none_of_another() -> None:
    text = "x" * (2 * MAX_FRAME_BYTES)
    other_packs, packed = threading.Event(), threading.Event()

    def pack() -> None:
        before = sizes.allow_for(MAX_ITEMS, 4 * MAX_FRAME_BYTES)
        other_packs.set()
        packed.wait(10)
        sizes.allow(before)

    thread = threading.Thread(target=pack)
    thread.start()
    other_packs.wait(10)
    try:
        with pytest.raises(UnsendableError, match="which takes 1,048,576 at once"):
            pack_value(text)
        assert unpack_value(pack_value(text, max_bytes=4 * MAX_FRAME_BYTES)) == text
    finally:
        packed.set()
        thread.join()
    with pytest.raises(UnsendableError, match="which takes 1,048,576 at once"):
        pack_value(text)


@pytest.fixture
def _small() -> Iterator[None]:
    """Three values in a container, ten bytes in a value."""
    before = sizes.allow_for(MAX_ITEMS)
    sizes.allow((3, 10))
    yield
    sizes.allow(before)


@pytest.mark.usefixtures("_small")
def test_a_container_may_have_as_many_values_as_a_frame_and_no_more() -> None:
    sizes.check_length([1, 2, 3])
    with pytest.raises(UnsendableError, match="a value of more than 3 values"):
        sizes.check_length([1, 2, 3, 4])


TEN = (b"x" * 10, "x" * 10, bytearray(10), np.zeros(10, np.uint8), np.zeros(5, np.int16))
ELEVEN = (b"x" * 11, "x" * 11, bytearray(11), np.zeros(11, np.uint8), np.zeros(6, np.int16))


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("others", [[], [7], ["a"], ["a", b"a", bytearray(1)], ["a", b"a", bytearray(1), 7], [[]]])
def test_a_value_may_be_as_large_as_a_frame_and_no_larger(others: list[Any]) -> None:
    for fits, large in zip(TEN, ELEVEN, strict=True):
        sizes.check_sizes([*others, fits])
        sizes.check_sizes([*others, fits], set(map(type, [*others, fits])))
        with pytest.raises(UnsendableError, match=r"a value of 1[12] bytes .* which takes 10 at once") as refused:
            sizes.check_sizes([*others, large, large])
        assert refused.value.offset == len(others), "the first that is too large"


@pytest.mark.usefixtures("_small")
def test_one_value_as_well() -> None:
    for fits, large in zip(TEN, ELEVEN, strict=True):
        sizes.check_size(fits)
        with pytest.raises(UnsendableError) as refused:
            sizes.check_size(large)
        assert refused.value.offset == 0
    sizes.check_sizes([1, None, True, 2.5])
    sizes.check_sizes([[], {}])


def test_the_sizes_of_values() -> None:
    assert [sizes.size_of(value) for value in (*TEN, 7, [1], None)] == [10, 10, 10, 10, 10, 0, 0, 0]
    found = batch(1000)
    assert sizes.size_of(found) == sizes.batch_bytes(found) == pa.ipc.get_record_batch_size(found)


def test_of_a_large_batch_that_arrow_cannot_measure_a_quarter_is_sure() -> None:
    for chars in (MAX_FRAME_BYTES // 2, 2 * MAX_FRAME_BYTES):
        found = pa.record_batch({"d": dictionary(chars), "n": [1]})
        held = sum(column.get_total_buffer_size() for column in found.columns)
        wanted = held // 4 if chars > MAX_FRAME_BYTES else pa.ipc.get_record_batch_size(found)  # without dictionaries
        assert sizes.batch_bytes(found) == pytest.approx(wanted, abs=4)


def test_the_largest_column() -> None:
    found = pa.record_batch({"a": [1, 2], "b": ["x" * 100, ""], "c": [True, False]})
    assert sizes.largest_column(found) == ("b", found.column("b").nbytes)
    assert sizes.largest_column(pa.record_batch([], names=[])) == ("", 0)
    assert sizes.largest_column(pa.record_batch({"a": [1], "d": dictionary(500)}))[0] == "d"


def test_limits_are_set_for_one_value_and_given_back() -> None:
    usual = sizes.allow_for(MAX_ITEMS)
    assert usual == sizes.allow_for(MAX_ITEMS) == (MAX_ITEMS, MAX_FRAME_BYTES), "nothing was set"
    try:
        sizes.allow_for(MAX_ITEMS + 1)
        assert sizes.allow_for(MAX_ITEMS, 77) == (MAX_ITEMS + 1, 1 << 30), "in pieces: a gibibyte"
        assert sizes.allow_for(MAX_ITEMS + 2, 77) == (MAX_ITEMS, 77)
        assert sizes.allow_for(MAX_ITEMS) == (MAX_ITEMS + 2, 1 << 30)
    finally:
        sizes.allow(usual)
