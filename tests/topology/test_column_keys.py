"""Hashes of columns: one function with the hash of rows, for every type, nulls and slices included."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import UnhashableKeyError, stable_hash

pa: Any = pytest.importorskip("pyarrow")
np: Any = pytest.importorskip("numpy")
column_keys: Any = pytest.importorskip("aiostorm.topology.column_keys")
column_split: Any = pytest.importorskip("aiostorm.topology.column_split")


def values_of(column: Any) -> list[Any]:
    """As a row has them: where pandas is installed `to_pylist` gives values of its own for nanoseconds."""
    return column_split.rows_of(pa.record_batch([column], names=["value"]), True)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))
seconds = moments.map(lambda moment: moment.replace(microsecond=0))
spans = st.timedeltas(dt.timedelta(days=-(10**5)), dt.timedelta(days=10**5))

TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *[(getattr(pa, f"int{bits}")(), whole(bits)) for bits in (8, 16, 32, 64)],
    *[(getattr(pa, f"uint{bits}")(), st.integers(0, 2**bits - 1)) for bits in (8, 16, 32, 64)],
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats() | st.integers(-(2**53), 2**53).map(float)),
    (pa.decimal128(30, 6), st.decimals(-(10**20), 10**20, places=6)),
    (pa.decimal256(50, 2), st.decimals(-(10**20), 10**20, places=2)),
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.string_view(), texts),
    (pa.dictionary(pa.int8(), pa.string()), texts),
    (pa.binary(), st.binary(max_size=80)),
    (pa.large_binary(), st.binary(max_size=80)),
    (pa.binary_view(), st.binary(max_size=80)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("s"), seconds),
    (pa.timestamp("us"), moments),
    (pa.timestamp("us", "UTC"), moments),
    (pa.timestamp("ms", "Europe/Berlin"), seconds),
    (pa.duration("us"), spans),
    (pa.duration("s"), st.integers(-(10**9), 10**9).map(lambda s: dt.timedelta(seconds=s))),
    (pa.month_day_nano_interval(), st.tuples(whole(32), whole(32), whole(64))),
]


@st.composite
def columns(draw: Any, length: int | None = None) -> Any:
    """A column of any type, with nulls, as a slice of a larger one."""
    kind, values = draw(st.sampled_from(TYPES))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    if length is None:
        length = draw(st.integers(0, 12))
    whole_length = before + length + after
    drawn = draw(st.lists(st.none() | values, min_size=whole_length, max_size=whole_length))
    return pa.array(drawn, kind).slice(before, length)


@given(columns())
def test_a_column_hashes_as_its_rows_do(column: Any) -> None:
    assert column_keys.hash_rows([column]).tolist() == [stable_hash((value,)) for value in values_of(column)]


@given(st.integers(0, 8).flatmap(lambda length: st.lists(columns(length), min_size=2, max_size=3)))
def test_several_columns_hash_as_their_rows_do(drawn: list[Any]) -> None:
    rows = zip(*(values_of(column) for column in drawn), strict=True)
    assert column_keys.hash_rows(drawn).tolist() == [stable_hash(row) for row in rows]


EDGES: list[tuple[Any, list[Any]]] = [
    (pa.int64(), [0, 1, -1, -2, 2**61 - 2, 2**61 - 1, 2**61, -(2**61) + 1, 2**63 - 1, -(2**63)]),
    (pa.uint64(), [2**63, 2**64 - 1, 2**61 - 1]),
    (pa.float64(), [0.0, -0.0, -1.0, -2.0, math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 2.0**61, 2.0**61 - 2**9]),
    (pa.float32(), [0.1, 1e-45, math.nan, -math.inf]),
    (pa.float16(), [np.float16(0.1), np.float16(6e-8), np.float16(math.nan), np.float16(-math.inf)]),
    (pa.decimal128(5, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("0.50")]),
    (pa.string(), ["", "\0", "\0\0", "a" * 8, "a" * 9, "\x7f" * 63, "\x7f" * 64, "a" * 65, "ä" * 32, "ä" * 33, "🙂"]),
    (pa.binary(), [b"\xff" * length for length in range(67)]),
    (pa.timestamp("ns"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
]


@pytest.mark.parametrize(("kind", "values"), EDGES, ids=lambda value: str(value)[:20])
def test_edges(kind: Any, values: list[Any]) -> None:
    column = pa.array([*values, None], kind)
    assert column_keys.hash_rows([column]).tolist() == [stable_hash((value,)) for value in values_of(column)]


def test_numbers_agree_across_types() -> None:
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(4, 1)]
    drawn = [pa.array([1, 0], kind) for kind in kinds] + [pa.array([True, False])]
    hashes = {column_keys.hash_column(column).tobytes() for column in drawn}
    assert len(hashes) == 1


def test_values_under_a_null_do_not_count() -> None:
    under = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([7, 8]).buffers()[1]])
    assert column_keys.hash_rows([under]).tolist() == [stable_hash((7,)), stable_hash((None,))]
    texts = pa.array(["ab", "x" * 60, "cd"])
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *texts.buffers()[1:]])
    assert column_keys.hash_rows([hidden]).tolist() == [stable_hash((v,)) for v in ("ab", None, "cd")]


def test_a_dictionary_may_be_larger_than_its_column_and_hold_nulls() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1]), pa.array(["a", None, "b"]))
    for part in (column, column[:2], column[1:3]):
        assert column_keys.hash_rows([part]).tolist() == [stable_hash((value,)) for value in part.to_pylist()]


def test_times_are_truncated_to_microseconds() -> None:
    for kind in (pa.timestamp("ns"), pa.duration("ns"), pa.time64("ns")):
        fine, cut = pa.array([1999], kind), pa.array([1000], kind)
        assert column_keys.hash_rows([fine]).tolist() == column_keys.hash_rows([cut]).tolist()


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no uuid type")
def test_an_extension_type_hashes_as_what_it_gives() -> None:
    column = pa.array([uuid.UUID(int=7).bytes, None], pa.uuid())
    assert column_keys.hash_rows([column]).tolist() == [stable_hash((uuid.UUID(int=7),)), stable_hash((None,))]


@pytest.mark.parametrize(
    "column", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([[("k", 1)]], pa.map_("str", "i4"))]
)
def test_lists_and_structs_are_refused(column: Any) -> None:
    with pytest.raises(UnhashableKeyError):
        column_keys.hash_rows([column])
    with pytest.raises(UnhashableKeyError):
        column_keys.hash_rows([column[:0]])


LETTERS = "abcdefghijklmnopqrstuvwxyz"
SEQUENCES = {
    "numbers in sequence": pa.array(range(20_000)),
    "multiples of 1,024": pa.array(range(0, 20_000 * 1024, 1024)),
    "negative numbers": pa.array(range(-20_000, 0)),
    "tenths": pa.array([i / 10 for i in range(20_000)]),
    "users": pa.array([f"user-{i}" for i in range(20_000)]),
    "padded": pa.array([f"{i:024d}" for i in range(20_000)]),
    "two words of one kind": pa.array([f"{i % 141:08d}{i // 141:08d}" for i in range(19_881)]),
    "days": pa.array(range(20_000), pa.date32()),
    "short words": pa.array([a + b + c for a in LETTERS for b in LETTERS for c in LETTERS]),
    "addresses": pa.array([f"{i % 200}.{i // 200}@example.com" for i in range(20_000)]),
    "far numbers": pa.array([i << 32 for i in range(20_000)]),
    "hours": pa.array(range(0, 20_000 * 3600, 3600), pa.timestamp("s")),
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("tasks", [2, 3, 4, 7, 8, 16, 256])
def test_keys_in_sequence_are_spread_evenly(name: str, tasks: int) -> None:
    hashes = column_keys.hash_rows([SEQUENCES[name]])
    for places in (hashes % np.uint64(tasks), hashes // np.uint64(tasks) % np.uint64(tasks)):
        assert chi_square(places, tasks) < rare_chi_square(tasks, math.log(10**6))
    assert len(np.unique(hashes)) == len(hashes)


@pytest.mark.parametrize("name", SEQUENCES)
def test_keys_in_sequence_are_spread_evenly_over_any_number_of_tasks(name: str) -> None:
    hashes = column_keys.hash_rows([SEQUENCES[name]])
    for tasks in range(2, 1001):
        assert chi_square(hashes % np.uint64(tasks), tasks) < rare_chi_square(tasks, math.log(10**7)), tasks


def chi_square(places: Any, tasks: int) -> float:
    found = np.bincount(places.astype(np.int64), minlength=tasks)
    expected = len(places) / tasks
    return float(((found - expected) ** 2 / expected).sum())


def rare_chi_square(tasks: int, rare: float) -> float:
    """An even spread is beyond this once in e^rare times (B. Laurent, P. Massart 2000, lemma 1)."""
    free = tasks - 1
    return free + 2 * math.sqrt(free * rare) + 2 * rare


def test_many_rows_hash_as_a_few_do() -> None:
    texts = [f"{'key ' * (i % 15)}{i}" for i in range(20_000)]
    assert column_keys.hash_rows([pa.array(texts)]).tolist() == [stable_hash((text,)) for text in texts]
