"""Names, buffers, files: pure parts of the Parquet sink. What is equal has one name, and nothing else has it."""

from __future__ import annotations

import datetime as dt
import urllib.parse
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.spark import SinkError
from aiostorm.spark.sinks.parquet_files import DatasetSchema, divided, encoded, identity_of
from aiostorm.spark.sinks.parquet_names import (
    MAX_NAME_BYTES,
    STALE_AFTER_S,
    escaped,
    file_name,
    folder_of,
    is_stale,
    rows_name,
    temporary_name,
)
from aiostorm.spark.sinks.parquet_store import LocalFileStore, open_store
from aiostorm.spark.sinks.row_buffer import RowBuffer
from aiostorm.topology import part_of, with_identity_of

from ..tries import examples
from .parquet_parts import chunk, pa, read, rows_of

# -- names -------------------------------------------------------------------------------------------------------------

names_and_data = st.tuples(st.text(max_size=200), st.text("0123456789abcdef", max_size=16), st.binary(max_size=20))


@given(names_and_data, names_and_data)
def test_names_are_equal_if_chunk_part_and_contents_are(one: Any, other: Any) -> None:
    assert (file_name(*one) == file_name(*other)) == (one == other)


@given(st.text(max_size=300), st.text(max_size=30), st.text(max_size=300))
def test_any_text_is_a_safe_name(chunk_text: str, part: str, component: str) -> None:
    for name in (file_name(chunk_text, part, b"x"), rows_name(component, 3, "ab12", 7)):
        assert "/" not in name
        assert ".." not in name.removesuffix(".parquet") or not name.startswith(".")
        assert name.isascii()
        assert name.isprintable()
        assert name.endswith(".parquet")
        assert len(name) <= MAX_NAME_BYTES
        assert not name.startswith((".", "_"))


def test_a_name_shows_where_it_is_from() -> None:
    assert file_name("flights/7/3", "", b"x").startswith("part-flights-7-3-")
    assert file_name("clicks/b17/7/3", "0a1b", b"x").startswith("part-clicks-b17-7-3-0a1b-")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_a_folder_gives_its_value_back(value: str) -> None:
    name = folder_of(["f"], [value])
    assert "/" not in name
    assert urllib.parse.unquote(name.partition("=")[2]) == value
    assert escaped("a/b=c%d") == "a%2Fb%3Dc%25d"


def test_null_has_a_folder_and_a_long_value_an_error() -> None:
    assert folder_of(["a", "b"], [None, ""]) == "a=__HIVE_DEFAULT_PARTITION__/b=__HIVE_DEFAULT_PARTITION__"
    with pytest.raises(SinkError, match="'a' is too long for the name of a folder: 'xxx"):
        folder_of(["a"], ["x" * 300])


def test_only_old_temporary_files_are_stale() -> None:
    name = temporary_name("ab", 3)
    assert is_stale(name, STALE_AFTER_S + 1)
    assert not is_stale(name, STALE_AFTER_S - 1)
    assert not is_stale("part-x.parquet", STALE_AFTER_S * 10)


# -- buffer ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9) | st.just("tick") | st.just("take"), max_size=60), st.integers(1, 20))
def test_a_buffer_gives_everything_once_in_order_and_soon(steps: list[Any], max_rows: int) -> None:
    buffer: RowBuffer[tuple[int, int]] = RowBuffer(max_rows, 1000)
    taken: list[tuple[int, int]] = []
    waited: dict[tuple[int, int], int] = {}
    added = []
    for at, step in enumerate(steps):
        if step == "tick":
            waited = {item: ticks + 1 for item, ticks in waited.items()}
            due = buffer.tick()
        elif step == "take":
            due = True
        else:
            added.append((at, step))
            waited[at, step] = 0
            due = buffer.add((at, step), step, step * 10)
        if due:
            taken += buffer.take()
            waited = {}
        assert buffer.rows < max_rows
        assert all(ticks < 2 for ticks in waited.values())
    assert taken + buffer.take() == added


def test_a_buffer_is_full_by_bytes_too() -> None:
    assert RowBuffer[int](100, 50).add(1, 1, 50)


# -- files -------------------------------------------------------------------------------------------------------------


def table(batch: Any) -> Any:
    return pa.Table.from_batches([batch])


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(["a", "b", "c", None, "", "x/y", "ü"]), min_size=1, max_size=30), st.integers(1, 3))
def test_divided_is_every_row_once_in_order(words: list[Any], columns: int) -> None:
    given_table = pa.table(
        {"w": pa.array(words, pa.string()), "n": [i % 2 for i in range(len(words))], "at": range(len(words))}
    )
    by = ["w", "n"][:columns]
    parts = list(divided(given_table, by, 1000))
    assert len({folder for folder, _ in parts}) == len(parts)
    seen = []
    for folder, part in parts:
        at = part.column("at").to_pylist()
        assert at == sorted(at)
        assert not set(by) & set(part.column_names)
        for place in at:
            values = [words[place], str(place % 2)][: len(by)]
            assert folder == folder_of(by, values)
        seen += at
    assert sorted(seen) == list(range(len(words)))


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        (pa.array([True]), "f=true"),
        (pa.array([dt.date(2026, 1, 2)]), "f=2026-01-02"),
        (pa.array([7], pa.int16()), "f=7"),
        (pa.array(["a"]).dictionary_encode(), "f=a"),
        (pa.array([dt.datetime(2026, 1, 2, 3, 4)]), "f=2026-01-02 03%3A04%3A00.000000"),
    ],
    ids=str,
)
def test_folders_of_types(values: Any, folder: str) -> None:
    [(found, _)] = divided(pa.table({"f": values, "n": [1]}), ["f"], 10)
    assert found == folder


def test_too_many_folders() -> None:
    with pytest.raises(SinkError, match="20 rows have 20 values of k: each is a folder, and at most 10"):
        list(divided(table(chunk(0)), ["k"], 10))


def test_equal_rows_give_equal_bytes_however_they_came() -> None:
    def bytes_of(batch: Any) -> Any:
        return encoded(table(DatasetSchema(None, ()).fit(batch)), identity_of(batch), "zstd", {}).to_pybytes()

    whole = pa.Table.from_batches([chunk(0), chunk(1)]).combine_chunks().to_batches()[0]
    sliced = whole.slice(20, 20).replace_schema_metadata(chunk(1).schema.metadata)
    sent = pa.ipc.read_record_batch(sliced.serialize(), sliced.schema)
    dealt = sliced.take(pa.array(range(20)))
    assert bytes_of(chunk(1)) == bytes_of(sliced) == bytes_of(sent) == bytes_of(dealt)
    assert bytes_of(chunk(1)) != bytes_of(chunk(0))


@pytest.mark.parametrize(("given", "shown"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), (None, "UNCOMPRESSED")])
def test_a_file_is_compressed_as_it_was_asked_for(given: str | None, shown: str) -> None:
    data = encoded(pa.table({"a": [1, 2]}), {b"aiostorm.chunk": b"c"}, given, {})
    file: Any = parquet.ParquetFile(pa.BufferReader(data))
    assert file.metadata.row_group(0).column(0).compression == shown
    assert file.schema_arrow.metadata[b"aiostorm.chunk"] == b"c"


def test_a_batch_fits_if_nothing_is_lost() -> None:
    shape = DatasetSchema(pa.schema({"a": pa.float64(), "b": pa.string()}), ())
    fitted = shape.fit(pa.record_batch({"b": pa.nulls(2), "a": pa.array([1, 2], pa.int8())}))
    assert fitted.to_pylist() == [{"a": 1.0, "b": None}, {"a": 2.0, "b": None}]
    assert fitted.schema.equals(pa.schema({"a": pa.float64(), "b": pa.string()}))
    assert shape.fit(pa.record_batch({"a": [1.5], "b": pa.array(["x"]).dictionary_encode()})).num_rows == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x"]}, "column 'a' came as string, and is int32 in this dataset"),
        ({"a": [2**40]}, "column 'a' came as int64, and does not fit int32"),
        ({"a": [1.5]}, "column 'a' came as double, and does not fit int32"),
        ({"b": [1]}, "column 'a' is missing: a batch has b, the dataset a"),
        ({"a": [1], "b": [2]}, "column 'b' is new: the dataset has a"),
    ],
    ids=str,
)
def test_a_field_that_does_not_fit_is_refused_by_name(columns: Any, message: str) -> None:
    shape = DatasetSchema(lambda: pa.schema({"a": pa.int32()}), ())
    with pytest.raises(SinkError, match=message):
        shape.fit(pa.record_batch(columns))


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (("x",), "partition_by names 'x'; the columns are a, b"),
        (("a",), "partition_by names 'a', which is double"),
        (("b", "a"), "double"),
    ],
)
def test_partition_columns_are_checked(by: tuple[str, ...], message: str) -> None:
    with pytest.raises(SinkError, match=message):
        DatasetSchema(None, by).fit(pa.record_batch({"a": [1.5], "b": [1]}))


def test_a_type_that_is_not_known_yet_is_asked_for() -> None:
    with pytest.raises(SinkError, match="column 'a' has had only nulls so far"):
        DatasetSchema(None, ()).fit(pa.record_batch({"a": pa.nulls(2)}))
    with pytest.raises(SinkError, match="nothing would be left for the files"):
        DatasetSchema(None, ("a",)).fit(pa.record_batch({"a": ["x"]}))


# -- together: exactly once --------------------------------------------------------------------------------------------

deliveries = st.lists(
    st.tuples(
        st.integers(0, 3), st.booleans(), st.sampled_from(["done", "crash before", "crash between", "crash after"])
    ),
    max_size=12,
)


@settings(max_examples=examples(25))
@given(steps=deliveries, by=st.sampled_from([(), ("word",)]), way=st.sampled_from(["whole", "split", "two outputs"]))
def test_any_order_of_chunks_replays_and_crashes_is_exactly_once(
    steps: list[Any], by: tuple[str, ...], way: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each step delivers a chunk to a writer of its own, which may die at any point; at the end all come once more."""
    path = tmp_path_factory.mktemp("exactly")
    for at, (number, remote, end) in enumerate([*steps, *((number, False, "done") for number in range(4))]):
        batch = chunk(number)
        if remote:
            batch = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
        parts = {
            "whole": [batch],
            "split": [part_of(batch.slice(0, 7), 0, 2), part_of(batch.slice(7), 1, 2)],
            "two outputs": [
                with_identity_of(batch.select(["k", "word", "one"]), batch, "b", "default", i) for i in (0, 1)
            ],
        }[way]
        store = LocalFileStore(str(path), f"token{at}")
        puts = [
            (folder, file_name(chunk_text, part, data), data)
            for found in parts
            for chunk_text, part in [
                tuple(identity_of(found).get(k, b"").decode() for k in (b"aiostorm.chunk", b"aiostorm.part"))
            ]
            for folder, rows in divided(table(DatasetSchema(None, by).fit(found)), by, 100)
            for data in [encoded(rows, identity_of(found), "zstd", {})]
        ]
        stop = {"done": len(puts), "crash after": len(puts), "crash before": 0, "crash between": len(puts) // 2}[end]
        for folder, name, data in puts[:stop]:
            store.put(f"{folder}/{name}" if folder else name, data)
        if end == "crash between":
            temporary = Path(store.root) / ".aiostorm-tmp"
            temporary.mkdir(exist_ok=True)
            (temporary / f"token{at}-99.tmp").write_bytes(b"half a fi")
    copies = 2 if way == "two outputs" else 1
    assert read(path) == sorted(rows_of(0, 1, 2, 3) * copies, key=lambda row: row["k"])


# -- stores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["local", "file", "memory", "fsspec", "arrow"])
def test_a_store_puts_once_and_sweeps_only_what_is_old(where: str, tmp_path: Path) -> None:
    import os

    fsspec = pytest.importorskip("fsspec")
    name = f"{tmp_path.name}"
    given_fs = {
        "fsspec": lambda: fsspec.filesystem("local"),
        "arrow": lambda: __import__("pyarrow.fs", fromlist=["fs"]).LocalFileSystem(),
    }.get(where, lambda: None)()
    path = {"memory": f"memory://{name}/x", "file": f"file://{tmp_path}/x"}.get(where, f"{tmp_path}/x")
    store, other = (open_store(path, token, given_fs) for token in ("one", "two"))
    assert store.sweep() == 0
    full = store.put("a=1/part-x.parquet", b"data")
    assert full.endswith("a=1/part-x.parquet")
    assert other.put("a=1/part-x.parquet", b"data") == full
    if where == "memory":
        assert fsspec.filesystem("memory").cat(full) == b"data"
        return
    assert Path(full).read_bytes() == b"data"
    old, young = (Path(path.removeprefix("file://"), ".aiostorm-tmp", f"{name}-1.tmp") for name in ("dead", "live"))
    for found in (old, young):
        found.write_bytes(b"half")
    os.utime(old, (1, 1))
    swept = [store.sweep(), other.sweep()]
    if where != "arrow":
        assert swept == [1, 0]
        assert not old.exists()
    assert young.exists()
    assert Path(full).exists()


def test_a_store_without_its_driver_says_so(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="nosuch://x/y cannot be opened"):
        open_store("nosuch://x/y", "t")
