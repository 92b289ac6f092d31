"""MapSink, and the maps of Trident that it uses: killed between any two writes, and by themselves."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from aiostorm.state import MapSink, OpaqueMap, Sink, SinkError, TransactionalMap

from .sink_runs import ROWS, Kill, all_kills, context, row, run, sent

Mode = Literal["transactional", "opaque"]
MODES: list[Mode] = ["transactional", "opaque"]
A, B = ("a",), ("b",)


class Memory:
    """A store of which each read and each write of a key is a step."""

    def __init__(self, kill: Kill | None = None, values: dict[Any, Any] | None = None) -> None:
        self.values = {} if values is None else values
        self.reads: list[list[Any]] = []
        self._kill = kill or Kill()

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        self.reads.append(list(keys))
        return self._kill.step(lambda: [self.values.get(key) for key in keys])

    def multi_put(self, values: Mapping[Any, list[Any]]) -> None:
        for key, value in values.items():
            self._kill.step(lambda key=key, value=value: self.values.__setitem__(key, value))  # type: ignore[misc]


def sums() -> dict[Any, int]:
    found: dict[Any, int] = {}
    for key, n in ROWS:
        found[key,] = found.get((key,), 0) + n
    return found


@pytest.mark.parametrize("mode", MODES)
def test_each_row_counts_once_wherever_it_is_killed(mode: Mode) -> None:
    def sink_on(kill: Kill, values: dict[Any, Any]) -> Sink:
        return MapSink(Memory(kill, values), key="key", value="n", combine=operator.add, mode=mode)

    counted: dict[Any, Any] = {}
    for kill in all_kills(lambda kill: sink_on(kill, counted)):
        values: dict[Any, Any] = {}
        run(lambda kill, values=values: sink_on(kill, values), kill)  # type: ignore[misc]
        assert {key: entry[-1] for key, entry in values.items()} == sums(), f"killed at step {kill.steps}"


def test_the_rows_of_a_failed_snapshot_are_combined_with_the_later_ones_in_their_order() -> None:
    store = Memory()
    sink = MapSink(store, key=("key",), value="n", combine=operator.add)
    sink.prepare(context())
    for values in (("a", "1"), ("a", "2"), ("b", "3")):
        sink.execute(row(*values), None)  # type: ignore[arg-type]
    failed = sent(sink.pre_commit(1))
    sink.execute(row("a", "4"), None)  # type: ignore[arg-type]
    sink.abort(failed)
    sink.commit(sent(sink.pre_commit(2)))
    assert store.values == {A: [2, "124"], B: [2, "3"]}
    assert sink.pre_commit(3) is None


def test_keys_are_held_until_they_are_committed() -> None:
    sink = MapSink(Memory(), key=("key",), value="n", combine=operator.add)
    sink.prepare(context())
    for values in (("a", "1"), ("a", "2"), ("b", "3")):
        sink.execute(row(*values), None)  # type: ignore[arg-type]
    assert sink.held_rows() == 2
    failed = sent(sink.pre_commit(1))
    assert sink.held_rows() == 2, "if the snapshot fails they come back"
    sink.abort(failed)
    assert sink.held_rows() == 2
    handle = sent(sink.pre_commit(2))
    sink.execute(row("c", "4"), None)  # type: ignore[arg-type]
    assert sink.held_rows() == 3
    sink.commit(handle)
    assert sink.held_rows() == 1


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="mode is 'transactional' or 'opaque', not 'exactly'"):
        MapSink(Memory(), key="key", value="n", combine=max, mode="exactly")  # type: ignore[arg-type]


# -- the maps ----------------------------------------------------------------------------------------------------------


def add(n: int) -> Any:
    return lambda value: (value or 0) + n


def test_transactional_a_repeated_transaction_changes_nothing() -> None:
    store = Memory()
    made = TransactionalMap(store)
    made.begin(1)
    assert made.multi_update({A: add(1), B: add(2)}) == [1, 2]
    del store.values[B]  # the first try was interrupted before it wrote b
    made.begin(1)
    assert made.multi_update({A: add(1), B: add(2)}) == [1, 2]
    assert store.values == {A: [1, 1], B: [1, 2]}
    made.begin(2)
    assert made.multi_update({A: add(10)}) == [11]
    assert store.values[A] == [2, 11]


def test_opaque_a_repeated_transaction_begins_from_the_value_before() -> None:
    store = Memory()
    made = OpaqueMap(store)
    for txid, n in ((1, 1), (2, 10)):
        made.begin(txid)
        made.multi_update({A: add(n)})
    assert store.values == {A: [2, 1, 11]}
    made.begin(2)
    assert made.multi_update({A: add(100)}) == [101], "another batch than the first time"
    assert store.values == {A: [2, 1, 101]}
    made.begin(3)
    assert made.multi_update({A: add(1)}) == [102]
    assert store.values == {A: [3, 101, 102]}


@pytest.mark.parametrize("kind", [TransactionalMap, OpaqueMap])
def test_in_a_transaction_a_key_is_read_once_and_a_second_update_begins_from_the_first(
    kind: type[TransactionalMap],
) -> None:
    store = Memory()
    made = kind(store)
    made.begin(1)
    made.multi_update({A: add(5)})
    made.begin(2)
    assert made.multi_get([A, B]) == [5, None]
    assert made.multi_update({A: add(1), B: add(1)}) == [6, 1]
    assert made.multi_update({A: add(1)}) == [7]
    assert made.multi_get([B, A]) == [1, 7]
    assert store.reads == [[A], [A, B]]
    assert store.values[A] == ([2, 7] if kind is TransactionalMap else [2, 5, 7])


@pytest.mark.parametrize("kind", [TransactionalMap, OpaqueMap])
def test_a_lower_transaction_than_the_stored_one_is_an_error(kind: type[TransactionalMap]) -> None:
    store = Memory()
    made = kind(store)
    made.begin(5)
    made.multi_update({A: add(5)})
    before = dict(store.values)
    made.begin(4)
    with pytest.raises(SinkError, match=r"key \('a',\) has transaction 5, and this is transaction 4"):
        made.multi_update({B: add(1), A: add(1)})
    assert store.values == before, "nothing was written"


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (OpaqueMap, [1, 5]),
        (OpaqueMap, ["1", 4, 5]),
        (OpaqueMap, [None, 4, 5]),
        (TransactionalMap, [1, 4, 5]),
        (TransactionalMap, [1.0, 5]),
        (TransactionalMap, [True, 5]),
        (TransactionalMap, []),
    ],
)
def test_a_value_of_another_mode_or_another_writer_is_an_error(kind: type[TransactionalMap], stored: list[Any]) -> None:
    store = Memory(values={A: stored})
    made = kind(store)
    made.begin(2)
    with pytest.raises(SinkError, match=r"key \('a',\): the stored value was not written in this mode"):
        made.multi_update({A: add(1)})
    assert store.values == {A: stored}
