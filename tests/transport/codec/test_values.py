"""Values: what goes in comes out equal and of the same type, or it is an error that says what and where."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import UnreadableError, UnsendableError, pack_value, unpack_value
from aiostorm.transport.codec.scan import MAX_DEPTH
from aiostorm.transport.codec.values import (
    pack_column,
    pack_message,
    pack_plain_column,
    unpack_column,
    unpack_message,
    unpack_plain_column,
)

pa: Any = _pyarrow

zones = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, microseconds=5)), ZoneInfo("Europe/Vienna")])
finite = st.floats(allow_nan=False)
keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    finite,
    st.text(st.characters(), max_size=9),
    st.binary(max_size=9),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(timezones=zones),
    st.times(timezones=zones.filter(lambda zone: not isinstance(zone, ZoneInfo))),
    st.timedeltas(),
    st.uuids(),
)
hashable = st.recursive(
    keys,
    lambda inner: st.one_of(st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4)),
    max_leaves=8,
)
values = st.recursive(
    st.one_of(hashable, st.complex_numbers(allow_nan=False), st.binary(max_size=9).map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=4),
        st.dictionaries(hashable, inner, max_size=4),
        st.sets(hashable, max_size=4),
    ),
    max_leaves=16,
)


def types(value: Any) -> Any:
    """The types of a value and all it holds: `1 == 1.0 == True` must not hide a difference."""
    if isinstance(value, tuple | list):
        return type(value), [types(item) for item in value]
    if isinstance(value, dict):
        return dict, [(types(key), types(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(str, map(types, value)))
    return type(value)


@given(value=values)
def test_an_unpacked_value_equals_the_packed_one(value: Any) -> None:
    found = unpack_value(pack_value(value))
    assert found == value
    assert types(found) == types(value)


@given(column=st.lists(values, max_size=5))
def test_a_column_is_its_values(column: list[Any]) -> None:
    assert unpack_column(pack_column(column))[0] == tuple(column)


@pytest.mark.parametrize(
    "value",
    [
        *(-(2**63), -(2**63) - 1, 2**64 - 1, 2**64, -(2**200), 2**199),
        *("a\ud800", ["\udfff", {"\ud800": 2**70}], {"\ud800": 1, 2: 3}, [[2**64]], -0.0),
        *(Decimal("-1.50"), Decimal("1E+5"), Decimal("-0"), Decimal("Infinity"), UUID(int=5), 1 - 0j),
        dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Vienna")),
        *(dt.datetime.max, dt.datetime.min, dt.timedelta.max, dt.timedelta.min, dt.time(1, 2, tzinfo=dt.UTC)),
        *({}, [], (), set(), frozenset(), b"", "", bytearray(), {(): []}, ([{1: {2: {3}}}],)),
    ],
)
def test_edges(value: Any) -> None:
    found = unpack_value(pack_value(value))
    assert (found, types(found), str(found)) == (value, types(value), str(value))
    assert getattr(found, "fold", 0) == getattr(value, "fold", 0)


def test_nan_values_are_kept() -> None:
    assert math.isnan(unpack_value(pack_value(math.nan)))
    assert str(unpack_value(pack_value(Decimal("sNaN12")))) == "sNaN12"


def test_a_memoryview_is_as_good_as_bytes() -> None:
    assert unpack_value(memoryview(pack_value([1, "two", {3}]))) == [1, "two", {3}]


# -- what cannot be sent -----------------------------------------------------------------------------------------------


class Point(NamedTuple):
    x: int


@dataclass
class Reading:
    celsius: float


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"^a value of type builtins.object cannot be sent .*register_record$"),
        ([1, {"when": (0, object())}], r"^at \[1\]\['when'\]\[1\]: a value of type builtins.object"),
        ({1: {2, (3, object)}}, r"^at \[1\]\{.\}\[1\]: a value of type builtins.type"),
        ({(1, Text()): 1}, r"^at \{key \(1, ''\)\}\[1\]: .* send str\(value\)"),
        (collections.defaultdict(int), r"send dict\(value\)"),
        (Text("x"), r"send str\(value\)"),
        (Point(1), r"register the class.*register_record\(Point\)"),
        (Reading(1.0), r"register_record\(Reading\)"),
        (Colour.RED, r"register_record\(Colour\)"),
        (memoryview(b""), "type builtins.memoryview"),
        (msgpack.Timestamp(1), "Timestamp"),
        (dt.datetime(2026, 1, 1, tzinfo=type("Mine", (dt.tzinfo,), {})()), r"use zoneinfo.ZoneInfo"),
        (tuple(range(250_001)), "more than 250000 values: send it in parts"),
        (
            set(itertools.product((-1, -2), repeat=8)),
            "more than 128 members or keys have the same hash: send it as a list",
        ),
    ],
)
def test_the_error_of_an_unsendable_value_has_the_reason(value: Any, message: str) -> None:
    with pytest.raises(UnsendableError, match=message):
        pack_value(value)


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {1: v}, lambda v: frozenset([v])],
    ids=["list", "tuple", "map", "dict", "frozenset"],
)
def test_values_are_at_most_32_deep_both_ways(wrap: Any) -> None:
    deep = nested(32, wrap)
    assert unpack_value(pack_value(deep)) == deep
    assert unpack_column(pack_column([deep]))[0] == (deep,)
    with pytest.raises(UnsendableError, match="more than 32 deep"):
        pack_value(nested(33, wrap))
    with pytest.raises(UnreadableError, match="more than 32 deep"):
        unpack_value(b"\x91" + pack_value(deep))


def test_a_value_that_contains_itself_is_too_deep() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(UnsendableError, match="or it holds itself"):
        pack_value(circle)


def test_after_an_error_the_packer_is_as_it_was() -> None:
    for broken in (["x" * 100, 2**64, object()], ["\ud800", object()], [object()]):
        with pytest.raises(UnsendableError):
            pack_value(broken)
        assert pack_value([1]) == b"\xd5\x01\x91\x01"


@pytest.mark.parametrize("inside", [0, 2**70, "\ud800"])
def test_the_depth_is_the_same_whatever_is_inside(inside: Any) -> None:
    deepest: Any = inside
    for _ in range(MAX_DEPTH):
        deepest = (deepest,)
    assert unpack_value(pack_value(deepest)) == deepest
    with pytest.raises(UnsendableError, match="more than 32 deep"):
        pack_value((deepest,))


class Table:
    """Knows one ref."""

    def encode_ref(self, value: object) -> bytes | None:
        return b"ref" if value is Table else None

    def decode_ref(self, data: bytes) -> object:
        return data


def test_refs_are_encoded_in_messages_only() -> None:
    assert unpack_message(pack_message((1, Table), Table()), Table()) == (1, b"ref")
    with pytest.raises(UnsendableError):
        pack_value((1, Table))
    with pytest.raises(UnreadableError, match="extension type 20 is not for this place"):
        unpack_value(pack_message(Table, Table()))


@pytest.mark.parametrize(
    ("column", "count"),
    [([[1], 2], 2), ([1, 2], 3), ([1, 2], 1), ([1, [2, []]], 2), (7, 1), ([1, msgpack.ExtType(9, b"a")], 2), ([{}], 1)],
)
def test_a_column_of_plain_values_has_nothing_else(column: Any, count: int) -> None:
    with pytest.raises(UnreadableError):
        unpack_plain_column(msgpack.packb(column), count)
    plain = [None, True, 1, 1.5, "a", b"b"]
    packed = pack_plain_column(plain)
    assert packed is not None
    assert unpack_plain_column(packed, 6) == plain
    assert pack_plain_column([(1,)]) is None


@pytest.mark.parametrize("code", [2, 3, 4])
def test_what_is_there_twice_is_refused(code: int) -> None:
    body = msgpack.packb([1, 7, 1, 8] if code == 2 else [1, 2, 1])
    with pytest.raises(UnreadableError, match=r"a (dict has a key|set has a member) twice"):
        unpack_value(msgpack.packb(msgpack.ExtType(code, body)))


def test_a_batch_of_columns_is_a_value() -> None:
    batch: Any = pa.record_batch({"a": [1, None], "b": ["x", "y"]})
    [found] = unpack_value(pack_value((batch,)))
    assert found.equals(batch)
