"""Floors: the greatest of several counts for a row, and only those that are beyond the watermark are kept."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Fields
from aiostorm.topology import Origin, Segment, UnhashableKeyError, stable_hash
from aiostorm.windows import FieldsHash, KeyHash, WindowStateError
from aiostorm.windows.floors import Floors, floors_above, load_layers


class Modulo:
    """The number itself is the hash."""

    def __init__(self, wrong: type[Exception] | None = None) -> None:
        self.wrong = wrong

    def of(self, key: Any, row: Any) -> int:
        if self.wrong is not None:
            raise self.wrong(key)
        return int(key)

    def dump(self) -> Any:
        return "key", True, (0,)


HASH = Modulo()
OTHER = KeyHash((1,), single=False)


def test_the_greatest_of_all_layers_counts() -> None:
    for layers in ([{1: 10}, {1: 30}, {1: 20}], [{1: 30}, {1: 20}], [{1: 20}, {1: 30}]):
        known = Floors([(HASH, 4, of_range) for of_range in layers])
        assert known.of(1) == 30
        assert known.of(5) == 30, "its hash, in four ranges"
        assert known.of(2) is None
    assert Floors([(HASH, 4, {1: 10, 2: 40, 3: 20}), (HASH, 2, {0: 30})]).until_ms == 40
    assert Floors([(HASH, 4, {2: 40}), (HASH, 2, {0: 30})]).of(2) == 40
    assert Floors([(HASH, 4, {2: 20}), (HASH, 2, {0: 30})]).of(2) == 30


@pytest.mark.parametrize("wrong", [UnhashableKeyError, TypeError, LookupError])
def test_a_row_without_a_hash_has_the_floors_of_the_other_layers(wrong: type[Exception]) -> None:
    fails = Modulo(wrong)
    assert Floors([(fails, 4, {1: 50}), (HASH, 4, {1: 10})]).of(1) == 10
    assert Floors([(HASH, 4, {1: 10}), (fails, 4, {1: 50})]).of(1) == 10
    assert Floors([(fails, 4, {1: 50})]).of(1) is None


def test_only_floors_beyond_the_watermark_are_kept() -> None:
    layers = [(HASH, 4, {0: 9, 1: 10, 2: 11})]
    assert floors_above(10, layers) == [(("key", True, (0,)), 4, {2: 11})]
    assert floors_above(None, layers) == [(("key", True, (0,)), 4, {0: 9, 1: 10, 2: 11})]
    assert floors_above(11, layers) == []
    assert floors_above(5, []) == []


def test_layers_of_one_hash_become_one() -> None:
    layers = [(HASH, 4, {1: 10, 2: 20}), (HASH, 4, {1: 30, 2: 15}), (OTHER, 4, {1: 5}), (HASH, 2, {1: 7})]
    assert floors_above(1, layers) == [
        (("key", True, (0,)), 4, {1: 30, 2: 20}),
        (("key", False, (1,)), 4, {1: 5}),
        (("key", True, (0,)), 2, {1: 7}),
    ]


def test_what_is_dumped_is_loaded() -> None:
    made = Floors([(OTHER, 4, {1: 10}), (KeyHash((0,), single=False), 1, {0: 0})])
    loaded = Floors(load_layers(made.dump()))
    assert loaded.dump() == made.dump()
    assert (loaded.until_ms, loaded.of((0, "a"))) == (10, made.of((0, "a")))
    assert load_layers(()) == []


@pytest.mark.parametrize(
    "dump",
    [
        [(("key", True, (0,)), 0, {})],
        [(("key", True, (0,)), -1, {})],
        [(("key", True, (0,)), 1.0, {})],
        [(("key", True, (0,)), 256, {"1": 2})],
        [(("key", True, (0,)), 256, {1: None})],
        [(("key", True), 256, {1: 2})],
        [((), 256, {1: 2})],
        [(("other",), 256, {1: 2})],
    ],
)
def test_damage_is_an_error(dump: Any) -> None:
    with pytest.raises(WindowStateError, match="damaged"):
        load_layers(dump)


# -- the hashes --------------------------------------------------------------------------------------------------------


def test_the_hash_of_a_key_is_that_of_its_values_in_the_order_of_the_places() -> None:
    assert KeyHash((0,), single=True).of("a") == stable_hash(("a",))
    assert KeyHash((1, 0), single=False).of(("a", "b", "c")) == stable_hash(("b", "a"))
    with pytest.raises(LookupError):
        KeyHash((3,), single=False).of(("a",))


def test_the_hash_of_a_row_is_that_of_its_values() -> None:
    by_row = FieldsHash({("left", "default"): (2, 0), ("right", "default"): (1,)})
    origins = {name: Origin(name, 1, "default", Fields("a", "b", "c")) for name in ("left", "right", "other")}
    rows = {name: Segment(origin, [(1, 2, 3)]).tuple_at(0) for name, origin in origins.items()}
    assert by_row.of(None, rows["left"]) == by_row.of_values("left", "default", (1, 2, 3)) == stable_hash((3, 1))
    assert by_row.of(None, rows["right"]) == stable_hash((2,))
    with pytest.raises(LookupError):
        by_row.of(None, rows["other"])


@pytest.mark.parametrize(
    "by",
    [KeyHash((0,), single=True), KeyHash((1, 0), single=False), FieldsHash({("c", "s"): (1, 0), ("d", "s"): (0,)})],
)
def test_a_hash_is_made_again_of_its_dump(by: Any) -> None:
    [(loaded, n_ranges, of_range)] = load_layers([(by.dump(), 4, {1: 2})])
    assert (type(loaded), loaded.dump(), n_ranges, of_range) == (type(by), by.dump(), 4, {1: 2})
