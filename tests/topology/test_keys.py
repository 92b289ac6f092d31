"""Stable hash: equal values hash equally, everywhere; the rest is refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import enum
import importlib
import os
import subprocess
import sys
import uuid
import zoneinfo
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.topology import UnhashableKeyError, stable_hash

from .many_keys import Colour, Customer, Level, Point, many_keys
from .strategies import keys, plain_keys

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
UTC = dt.UTC


class Name(enum.StrEnum):
    ANN = "ann"


class Bits(enum.Flag):
    A = 1
    B = 2


class OtherPoint(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True)
class WithNote:
    key: str
    note: str = field(default="", compare=False)


EQUAL = [
    [1, True, 1.0, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, Level.LOW],
    [0, False, 0.0, -0.0, Decimal("-0"), Decimal("0E+7"), Fraction(0), 0j, complex(-0.0, -0.0)],
    [0.5, Decimal("0.5"), Decimal("0.50"), Fraction(1, 2), 0.5 + 0j],
    [-2.5, Decimal("-2.5"), Fraction(-5, 2)],
    [10**30, Decimal("1E+30"), Fraction(10**30)],
    [2**64, float(2**64), Decimal(2**64), Fraction(2**64)],
    [-(2**64), float(-(2**64)), Decimal(-(2**64))],
    [2**61 - 1, Decimal(2**61 - 1)],
    [Decimal("1E+1000000"), Decimal("10E+999999")],
    [float("inf"), Decimal("Infinity")],
    [float("-inf"), Decimal("-Infinity")],
    ["ann", Name.ANN],
    [Point(1, 2), OtherPoint(1, 2), (1, 2), (True, 2.0)],
    [frozenset([1, "a"]), frozenset(["a", 1.0])],
    [WithNote("a"), WithNote("a", "noted")],
    [Customer("b", 1), Customer("b", True)],
    [dt.datetime(2026, 1, 1, 12, tzinfo=UTC), dt.datetime(2026, 1, 1, 13, tzinfo=BERLIN)],
    # Within one zone Python compares without fold: the two 02:30 of this night are equal.
    [dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0), dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)],
    [dt.time(12, tzinfo=UTC), dt.time(14, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
    [dt.timedelta(days=1), dt.timedelta(hours=24)],
    [uuid.UUID(int=5), uuid.UUID("00000000-0000-0000-0000-000000000005")],
]


@pytest.mark.parametrize("values", EQUAL)
def test_values_that_python_calls_equal_hash_equally(values: list[Any]) -> None:
    assert all(value == values[0] for value in values)
    assert len({stable_hash((value,)) for value in values}) == 1


def test_every_nan_is_one_key() -> None:
    nans = [float("nan"), -float("nan"), Decimal("nan"), Decimal("-NaN123"), complex("nan"), complex(0, float("nan"))]
    assert len({stable_hash((nan,)) for nan in nans}) == 1


DIFFERENT: list[Any] = [
    None,
    0, 1, -1, -2, 2**60, -(2**60), 2**64, 0.1, Decimal("0.1"), Fraction(1, 3), 1j, "", "a", "1", b"", b"a", b"1",
    (), (1,), ((1,),), (1, 2), (2, 1), ("a", "bc"), ("ab", "c"), ("a", "b", "c"), frozenset(), frozenset([1]),
    frozenset([(1,)]), dt.date(2026, 1, 1), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=UTC), dt.time(0),
    dt.time(0, tzinfo=UTC),
    dt.timedelta(0), uuid.UUID(int=1), Colour.RED, Colour.BLUE, "red", Customer("b", 1), ("b", 1),
    Bits.A, Bits.B, Bits.A | Bits.B, float("inf"), float("-inf"), float("nan"), "nan", "\udc80",
]  # fmt: skip


def test_numbers_of_one_residue_share_a_hash_and_no_others_near_them() -> None:
    assert stable_hash((-1,)) == stable_hash((2**61 - 2,)) == stable_hash((2**62 - 3,))
    near = [*range(-1000, 1000), *(2**60 - i for i in range(1, 1000)), *(i - 2**60 for i in range(1, 1000))]
    assert len({stable_hash((number,)) for number in near}) == len(near)


def test_text_that_differs_where_eight_bytes_weigh_alike_hashes_differently() -> None:
    """Modulo 2^61 - 1 both would be one: a character weighs eight times as much in the ninth place as in the first."""
    assert stable_hash(("0.......1",)) != stable_hash(("8.......0",))
    assert stable_hash(("b......A",)) != stable_hash(("a......a",))
    assert len({stable_hash((text,)) for text in ("", "\0", "\0\0", "a", "a\0", "\0a", b"", b"\0", b"a\0")}) == 9


def test_different_values_hash_differently() -> None:
    assert len({stable_hash((value,)) for value in DIFFERENT}) == len(DIFFERENT)


@given(st.tuples(keys, keys))
@example((1, True))
@example(((), frozenset()))
def test_equal_drawn_values_hash_equally(pair: tuple[Any, Any]) -> None:
    first, second = pair
    if first == second:
        assert stable_hash((first,)) == stable_hash((second,))
    else:
        # Not promised, but a collision in a run of this size means that the hash has lost something. Numbers with one
        # residue are one: Python's own hash says so too.
        same = "nan" in repr(pair).lower() or hash(first) == hash(second)
        assert same or stable_hash((first,)) != stable_hash((second,))


@given(st.fractions() | st.floats(allow_nan=False, allow_infinity=False).map(Fraction) | st.integers().map(Fraction))
def test_equal_numbers_of_all_types_have_one_hash(number: Fraction) -> None:
    twins: list[Any] = [number]
    if number.denominator == 1:
        twins += [int(number), Decimal(int(number))]
    with contextlib.suppress(OverflowError):  # too large for a float
        twins += [twin for twin in (float(number), complex(float(number))) if twin == number]
    with decimal.localcontext(prec=400) as context:
        quotient = Decimal(number.numerator) / Decimal(number.denominator)
        if not context.flags[decimal.Inexact]:
            twins.append(quotient)
    assert len({stable_hash((twin,)) for twin in twins}) == 1


@given(st.datetimes(timezones=st.timezones()), st.timezones())
def test_an_instant_has_one_hash_in_all_time_zones(moment: dt.datetime, zone: dt.tzinfo) -> None:
    try:
        elsewhere = moment.astimezone(zone)
    except OverflowError:
        return  # beyond the year 9999 over there
    # In the doubled or missing hour Python itself says "not equal"; nothing is promised then.
    if moment == elsewhere:
        assert stable_hash((moment,)) == stable_hash((elsewhere,))


@given(st.lists(plain_keys.filter(lambda key: key == key), max_size=5))
def test_a_set_hashes_the_same_in_any_order(items: list[Any]) -> None:
    assert stable_hash((frozenset(items),)) == stable_hash((frozenset(reversed(items)),))


def test_hashes_are_the_same_in_other_processes_with_other_hash_seeds() -> None:
    here = [str(stable_hash(key)) for key in many_keys()]
    script = Path(__file__).with_name("many_keys.py")
    for seed in ("0", "1", "4242"):
        found = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed[0]}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert found.stdout.split() == here


PINNED = [
    ((None,), 0x17C8959DB087E455),
    ((1,), 0x0C2C50942ECDB6F3),
    ((-2.5,), 0x011DA4DF47350532),
    ((10**40,), 0x1E1686250E0A5482),
    (("",), 0x1CE6F58E1C2F6082),
    (("\udc80",), 0x09E51BCAE38E7BF2),
    (("eight by",), 0x1290A399A8451B63),
    (("a word of some more than eight bytes",), 0x145C9E554AE50126),
    (("word",), 0x0F0AF50623D4DB74),
    ((b"word",), 0x1C3777842BE73FD4),
    (("a", (1, frozenset(["x", "y"]))), 0x13624424D078A326),
    ((dt.datetime(2026, 1, 1, 12, tzinfo=UTC),), 0x18DC8F6E944E3882),
    (("a text of more than sixty-four bytes is hashed in another way, by BLAKE2b",), 0x1DC4B2DB20BEAC72),
]


@pytest.mark.parametrize(("key", "expected"), PINNED)
def test_hashes_do_not_change_between_versions(key: tuple[Any, ...], expected: int) -> None:
    """The numbers decide where state is stored: changing one is a migration, not a refactoring."""
    assert stable_hash(key) == expected


@given(st.integers() | st.fractions() | st.decimals(allow_nan=False, allow_infinity=False)
       | st.floats(allow_nan=False, allow_infinity=False))  # fmt: skip
@example(Fraction(1, 2**61 - 1))
@example(Decimal("-1E+1000000"))
def test_the_residue_is_the_same_where_python_has_another_modulus(number: Any) -> None:
    residue: Any = importlib.import_module("aiostorm.topology.keys")._numeric
    if sys.hash_info.modulus == 2**61 - 1:
        assert residue(number) == (-1 if number == -1 else hash(number))


class Cold(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.casefold() == self.casefold()

    def __hash__(self) -> int:
        return hash(self.casefold())


@dataclass(frozen=True)
class OwnEquality:
    value: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class ByIdentity:
    value: int


@dataclass(unsafe_hash=True)
class Mutable:
    value: int


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, {1}, object(), bytearray(b"a"), memoryview(b"a"), Cold("a"), OwnEquality(1), ByIdentity(1),
     Mutable(1), len, int, Decimal("sNaN"), iter([1])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_without_a_stable_hash_is_refused_at_any_depth(value: Any) -> None:
    for key in ((value,), ("a", (1, value)), (Customer("b", value),)):
        with pytest.raises(UnhashableKeyError) as caught:
            stable_hash(key)
        assert caught.value.culprit is value
        assert type(value).__qualname__ in str(caught.value)


class FakeDtype:
    def __init__(self, kind: str) -> None:
        self.kind = kind


generic = type("generic", (), {"__module__": "numpy"})


class FakeScalar(generic):  # type: ignore[misc, valid-type]
    """As numpy's: any scalar derives from `generic`, and has `dtype` and `item`."""

    def __init__(self, plain: Any) -> None:
        self.dtype = FakeDtype("f")
        self._plain = plain

    def item(self) -> Any:
        return self._plain


def test_a_numpy_scalar_is_the_value_it_holds() -> None:
    assert stable_hash((FakeScalar(2.0),)) == stable_hash((2,))
    with pytest.raises(UnhashableKeyError):
        stable_hash((FakeScalar([1]),))


def test_real_numpy_scalars() -> None:
    numpy = pytest.importorskip("numpy")
    for scalar, plain in [
        (numpy.int64(3), 3),
        (numpy.uint64(2**64 - 1), 2**64 - 1),
        (numpy.float32(0.5), 0.5),
        (numpy.float64(0.1), 0.1),
        (numpy.bool_(True), 1),
        (numpy.str_("a"), "a"),
        (numpy.bytes_(b"a"), b"a"),
        (numpy.complex128(1), 1),
        (numpy.longdouble(0.5), 0.5),
        (numpy.clongdouble(0.5), 0.5),
        (numpy.datetime64("2026-01-01T00:00:00", "s"), dt.datetime(2026, 1, 1)),
        (numpy.datetime64("2026-01-01T00:00:00", "ns"), dt.datetime(2026, 1, 1)),
        (numpy.timedelta64(1, "h"), dt.timedelta(hours=1)),
        (numpy.float32("nan"), float("nan")),
    ]:
        assert stable_hash((scalar,)) == stable_hash((plain,)), scalar
