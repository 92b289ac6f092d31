"""Dumps of windows: deltas, and dumps that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiostorm.transport import UnsendableError
from aiostorm.transport.codec import pack_value
from aiostorm.windows import (
    BufferedCounts,
    BufferedSessions,
    BufferedWindows,
    Combined,
    Count,
    Counts,
    CountWindows,
    Every,
    Fold,
    Mixed,
    MsEachRows,
    PlainWindows,
    RowsEachMs,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    Tumbling,
    WindowStateError,
    check_packable,
)
from aiostorm.windows.building import early_windows
from aiostorm.windows.dumps import apply_delta
from aiostorm.windows.frozen import Dump

from .test_dump_load import Box, Boxed, copied, done

EXAMPLES: dict[str, Callable[..., Any]] = {
    "tumbling": lambda size=10: PlainWindows(Tumbling(size), Combined(a=Count(), b=Sum())),
    "shared": lambda size=10: SharedWindows(Sliding(size, 5), Sum()),
    "session": lambda size=10: SessionWindows(Session(size), Sum()),
    "counts": lambda size=10: CountWindows(Counts(size), Sum()),
    "buffered": lambda size=10: BufferedWindows(Sliding(size, 5)),
    "buffered session": lambda size=10: BufferedSessions(Session(size)),
    "buffered counts": lambda size=10: BufferedCounts(Counts(size)),
    "rows each ms": lambda size=10: RowsEachMs(Mixed(size=size, slide_ms=10)),
    "ms each rows": lambda size=10: MsEachRows(Mixed(size_ms=size, slide=10)),
    "early": lambda size=10: early_windows(Tumbling(size), Sum(), Every(10)),
}


def dump_of(kind: str) -> Dump:
    machine = EXAMPLES[kind]()
    for _ in done(machine, ("add", ["a", "b"], [1, 2], [3, 4])):
        pass
    return copied(machine.dump(1))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_dump_of_other_windows_is_refused(kind: str) -> None:
    make, dump = EXAMPLES[kind], dump_of(kind)
    with pytest.raises(WindowStateError, match=r"settings: .*12"):
        make(12).load(dump)
    for other, made in EXAMPLES.items():
        if other != kind:
            with pytest.raises(WindowStateError, match=r"it is a dump of \w*"):
                made().load(copied(dump))
    with pytest.raises(WindowStateError, match="version 2"):
        make().load({**dump, "head": {**dump["head"], "version": 2}})
    make().load(dump)


def test_a_delta_needs_its_base() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    with pytest.raises(WindowStateError, match="make a full dump"):
        machine.dump(2, since=1)
    base = machine.dump(1)
    delta = machine.dump(2, since=1)
    with pytest.raises(WindowStateError, match="since dump 1: apply it"):
        PlainWindows(Tumbling(10), Count()).load(delta)
    later = machine.dump(3, since=2)
    with pytest.raises(WindowStateError, match="does not fit on dump 1"):
        apply_delta(base, later)
    with pytest.raises(WindowStateError, match="since dump 1 were recorded"):
        machine.dump(4, since=1)
    assert apply_delta(apply_delta(base, delta), later)["head"]["number"] == 3


def test_a_slice_without_new_rows_is_in_no_delta() -> None:
    for machine in (PlainWindows(Tumbling(10), Count()), SharedWindows(Sliding(20, 10), Count())):
        machine.add(["a", "b"], [1, 11], [0, 0])
        machine.dump(1)
        machine.add(["c"], [12], [0])
        assert machine.dump(2, since=1)["tables"] == {10: [{"c": 1}]}
        list(machine.advance(20))
        delta = machine.dump(3, since=2)
        assert (delta["tables"], delta["dropped"]) == ({}, [0, 10] if type(machine) is PlainWindows else [0])


def damages(dump: Dump) -> Iterator[Dump]:
    """The dump with one thing wrong."""
    for missing in dump:
        yield {name: value for name, value in dump.items() if name != missing}
    head = dump["head"]
    for missing in head:
        yield {**dump, "head": {name: value for name, value in head.items() if name != missing}}
    for field in head["state"]:
        yield {
            **dump,
            "head": {**head, "state": {name: value for name, value in head["state"].items() if name != field}},
        }
        if field not in ("plain", "watermark", "fired_until", "least_start"):
            yield {**dump, "head": {**head, "state": {**head["state"], field: 0.5}}}
    for name, columns in dump["tables"].items():
        others = {other: known for other, known in dump["tables"].items() if other != name}
        for wrong in ([], None, [{}, {"a": 1}], [5]):
            yield {**dump, "tables": {**others, name: wrong}}
        if columns[0] and (isinstance(name, str) or next(iter(columns[0].values())) is not None):
            yield {**dump, "tables": {**others, name + type(name)("1"): columns}}
        if columns[0] and name != "changed" and next(iter(columns[0].values())) is not None:
            yield {**dump, "tables": {**others, name: [dict.fromkeys(column) for column in columns]}}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_damaged_dump_is_refused(kind: str) -> None:
    for wrong in damages(dump_of(kind)):
        machine = EXAMPLES[kind]()
        with pytest.raises(WindowStateError):
            machine.load(wrong)


def test_a_state_that_cannot_be_packed_names_its_key() -> None:
    class Broken(Boxed):
        def pack_state(self, state: Box) -> list[Any]:
            raise ValueError("no")

    machine = PlainWindows(Tumbling(10), Broken())
    machine.add(["a"], [1], [0])
    with pytest.raises(WindowStateError, match=r"Broken.pack_state raised ValueError for the state of key 'a': no"):
        machine.dump()


def test_rows_are_converted() -> None:
    def machines() -> Iterator[Any]:
        yield BufferedWindows(Tumbling(10))
        yield BufferedCounts(Counts(2))

    for machine, new in zip(machines(), machines(), strict=True):
        for one in (machine, new):
            one.convert_rows(lambda row: row.values, Box)
        list(done(machine, ("add", ["a"], [1], [Box([1])])))
        new.load(copied(machine.dump()))
        list(done(new, ("add", ["a"], [2], [Box([2])])))
        (window,) = new.advance(20)
        assert [row.values for row in window.rows] == [[1], [2]]
        assert [row.values for row in new.released()] == [[2]]


def test_a_value_that_cannot_be_packed_is_found() -> None:
    machine = PlainWindows(Tumbling(10), Combined(n=Count(), own=Fold(lambda: Box([]), lambda state, _: state)))
    machine.add(["a"], [1], [0])
    dump = machine.dump()
    with pytest.raises(UnsendableError):
        pack_value(dump)
    with pytest.raises(WindowStateError, match=r"PlainWindows, the window or slice from 0, key 'a', .* Fold: .*Box"):
        check_packable(dump, pack_value)
    machine = PlainWindows(Tumbling(10), Fold(lambda: Box([]), lambda state, _: state))
    machine.add(["a"], [1], [0])
    next(machine.advance(10), None)
    machine.add(["b"], [11], [0])
    machine.advance(20)
    machine.work()
    with pytest.raises(WindowStateError, match=r"a result that is due, of key 'b': .*Box"):
        check_packable(machine.dump(), pack_value)
    check_packable(dump_of("early"), pack_value)
