"""Deltas: a full snapshot and deltas are the dict, whatever happens; and a capture is one moment."""

from __future__ import annotations

import copy
import datetime as dt
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.state import (
    BlobWriter,
    Capture,
    DamagedError,
    ForeignError,
    PackedChunk,
    State,
    UnsavableError,
    body_of,
    check_savable,
    unpack_chunks,
)
from aiostorm.state import deltas as module
from aiostorm.state.chunks import CHUNK_BYTES
from aiostorm.transport import register_record

from ..tries import examples


@register_record
@dataclass(frozen=True)
class Pair:
    left: str
    right: int


def still() -> float:
    """A clock on which nothing takes time."""
    return 0.0


def packed(capture: Capture, stopwatch: Callable[[], float] = still) -> list[PackedChunk]:
    return list(capture.slices(stopwatch))


def restored(chunks: list[PackedChunk], state: dict[Any, Any] | None = None) -> dict[Any, Any]:
    made = {} if state is None else state
    for chunk in chunks:
        for found in unpack_chunks(chunk.data, "t1-1-f-0"):
            found.apply_to(made)
    return made


KEYS = st.one_of(
    st.sampled_from("abcdef"),
    st.integers(0, 3),
    st.tuples(st.sampled_from("ab"), st.integers(0, 2)),
    st.builds(Pair, st.sampled_from("ab"), st.integers(0, 1)),
    st.none(),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=5,
)
CHANGES = st.one_of(
    st.tuples(st.just("set"), st.lists(st.tuples(KEYS, VALUES), max_size=4)),
    st.tuples(st.just("remove"), st.lists(KEYS, max_size=4)),
    st.tuples(st.just("append"), st.lists(KEYS, max_size=4)),
    st.tuples(st.just("clear"), st.none()),
)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        # A snapshot: full?, saved?, and what changes while it is packed.
        st.tuples(st.just("snapshot"), st.tuples(st.booleans(), st.booleans(), st.lists(CHANGES, max_size=3))),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=25,
)


def change(state: State[Any, Any], kind: str, what: Any) -> None:
    """As an executor and a bolt do it: touch the keys of the batch, then change values, also in place."""
    if kind == "clear":
        state.mark_all()
        state.clear()
        return
    state.touch_keys([item[0] if kind == "set" else item for item in what])
    for item in what:
        if kind == "set":
            state[item[0]] = copy.deepcopy(item[1])
        elif kind == "remove":
            state.pop(item, None)
        elif isinstance(found := state.setdefault(item, []), list):
            found.append(len(found))


@pytest.mark.parametrize("copied_keys", [0, 3, 10_000])
@settings(max_examples=examples(60))
@given(steps=STEPS)
def test_full_and_deltas_are_the_dict(copied_keys: int, steps: list[tuple[str, Any]]) -> None:
    state: State[Any, Any] = State()
    saved: dict[Any, Any] = {}
    has_full = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COPIED_KEYS", copied_keys)  # 0: all values are packed before they change
        patch.setattr(module, "FIRST_ROWS", 1)
        for kind, what in steps:
            if kind == "restore":
                state = State(copy.deepcopy(saved))
            elif kind == "snapshot":
                full, commits, meanwhile = what
                model = copy.deepcopy(dict(state))
                state.verify(model)
                capture = Capture(state, "count", 1, full=full or not has_full)
                chunks: list[PackedChunk] = []
                left = iter(meanwhile)
                for chunk in capture.slices(still):
                    chunks.append(chunk)
                    for one in left:
                        change(state, *one)
                        break
                if commits:
                    saved = restored(chunks, {} if capture.full else saved)
                    assert saved == model
                    assert len(saved) == capture.size
                    has_full = True
                else:
                    capture.give_back()
                assert state.watcher is None
            else:
                change(state, kind, what)


@pytest.mark.parametrize("copied_keys", [0, 10_000])
@pytest.mark.parametrize("full", [False, True])
def test_a_capture_is_one_moment_while_most_keys_change(
    full: bool, copied_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COPIED_KEYS", copied_keys)
    monkeypatch.setattr(module, "FIRST_ROWS", 2)
    chance = random.Random(1)
    for _ in range(60):
        state: State[int, Any] = State({key: [key] if chance.random() < 0.5 else key for key in range(30)})
        saved = copy.deepcopy(dict(state))
        for _ in range(3):
            change(state, *drawn(chance))
        model = copy.deepcopy(dict(state))
        chunks: list[PackedChunk] = []
        for chunk in Capture(state, "count", 1, full=full).slices(still):
            chunks.append(chunk)
            change(state, *drawn(chance))
        assert restored(chunks, {} if full else saved) == model


def drawn(chance: random.Random) -> tuple[str, Any]:
    """A change of some of 35 keys."""
    keys = chance.sample(range(35), 8)
    kind = chance.choice(["set", "remove", "append", "append"])
    return kind, [(key, chance.choice([[1], 2])) for key in keys] if kind == "set" else keys


def test_a_delta_has_what_was_touched_and_nothing_else() -> None:
    state = State({number: number for number in range(1000)})
    state.put(5, 50)
    state.discard(6)
    state.mark(7)
    (chunk,) = packed(Capture(state, "count", 1, full=False))
    assert chunk.rows == 3
    (found,) = unpack_chunks(chunk.data, "x")
    assert dict(zip(found.keys, found.values, strict=True)) == {5: 50, 7: 7}
    assert list(found.removed) == [6]
    assert packed(Capture(state, "count", 1, full=False)) == []


def test_a_value_that_changes_in_place_is_packed_before() -> None:
    state: State[str, list[int]] = State({"a": [1], "b": [2]})
    capture = Capture(state, "count", 1, full=True)
    state.touch_keys(["b", "new"])
    state["b"].append(3)
    state["new"] = []
    state.touch_keys(["b"])
    state["b"].append(4)
    assert restored(packed(capture)) == {"a": [1], "b": [2]}
    assert state.take_touched() == {"b", "new"}


def test_a_value_that_cannot_change_in_place_is_packed_once_with_the_others() -> None:
    state: State[str, int] = State({"a": 1, "b": 2})
    capture = Capture(state, "count", 1, full=True)
    state.put("a", 10)
    state.put("new", 3)
    (chunk,) = packed(capture)
    assert chunk.rows == 2
    assert restored([chunk]) == {"a": 1, "b": 2}


@pytest.mark.parametrize("copied_keys", [0, 10_000])
def test_a_delta_keeps_only_keys_of_its_own(copied_keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COPIED_KEYS", copied_keys)
    state: State[str, list[int]] = State({"a": [1], "b": [2], "c": [3]})
    state.mark("a")
    state["a"].append(1)
    capture = Capture(state, "count", 1, full=False)
    change(state, "append", ["a", "b"])
    chunks = packed(capture)
    assert [chunk.rows for chunk in chunks] == [1]
    assert restored(chunks) == {"a": [1, 1]}


def test_when_all_keys_may_change_they_are_packed_and_the_capture_watches_no_longer() -> None:
    state: State[str, list[int]] = State({"a": [1], "b": [2]})
    capture = Capture(state, "count", 1, full=True)
    state.mark_all()
    assert state.watcher is None
    state.clear()
    state["c"] = [3]
    assert restored(packed(capture)) == {"a": [1], "b": [2]}


def test_only_one_capture_is_packed_at_a_time() -> None:
    state: State[str, list[int]] = State({"a": []})
    Capture(state, "count", 1, full=True)
    with pytest.raises(ValueError, match="a capture of this state is being packed"):
        Capture(state, "count", 1, full=True)


# -- slices ------------------------------------------------------------------------------------------------------------


class Ticking:
    """Each reading is `step_s` later."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def rows_of_slices(n_keys: int, step_s: float) -> list[int]:
    capture = Capture(State({number: number for number in range(n_keys)}), "count", 1, full=True)
    return [chunk.rows for chunk in capture.slices(Ticking(step_s))]


def test_slices_take_two_milliseconds() -> None:
    assert rows_of_slices(5000, 0.002)[:4] == [256, 256, 256, 256]
    assert rows_of_slices(5000, 0.0005)[:4] == [256, 512, 1024, 2048]
    assert rows_of_slices(1000, 0.004)[:4] == [256, 128, 64, 32]
    assert rows_of_slices(260, 60.0)[:3] == [256, 1, 1]


def test_large_values_make_small_chunks() -> None:
    state = State({number: bytes(1_000_000) for number in range(20)})
    chunks = packed(Capture(state, "count", 1, full=True))
    assert max(len(chunk.data) for chunk in chunks) <= CHUNK_BYTES
    assert restored(chunks) == state


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        1,
        2**70,
        "ä\ud800",
        b"x",
        1.5,
        None,
        True,
        [1, [2]],
        {1: 2},
        {"a"},
        Pair("a", 1),
        dt.date(2024, 1, 2),
        Decimal(1),
    ],
)
def test_values_keep_their_types(value: Any) -> None:
    for other in (0, copy.copy(value)):
        state = State({"a": value, "b": other})
        made = restored(packed(Capture(state, "count", 1, full=True)))
        assert made == state
        assert type(made["a"]) is type(value)


def test_more_values_than_a_message_may_have() -> None:
    state = State({number: [number] * (8 + number % 2) for number in range(30_000)})
    assert restored(packed(Capture(state, "count", 1, full=True))) == state


@pytest.mark.parametrize("good", ["text", [1]])
def test_an_error_names_component_task_key_and_type(good: Any) -> None:
    state: State[str, Any] = State({"good": good, "bad": {"inner": [object()]}})
    with pytest.raises(
        UnsavableError, match=r"'count', task 3: the state of key 'bad' .*\(builtins.dict\): at .*inner"
    ):
        packed(Capture(state, "count", 3, full=True))
    state = State({"good": good, "bad": object()})
    state.touch_keys({"bad"})
    with pytest.raises(UnsavableError) as raised:
        check_savable(state, "count", 3)
    error = raised.value
    assert (error.component, error.task, error.key, error.kind) == ("count", 3, "bad", object)
    assert state.touched_keys == {"bad"}, "a check takes nothing"


def test_a_value_that_cannot_be_packed_fails_the_snapshot_and_not_the_batch() -> None:
    state: State[str, Any] = State({"a": [1], "bad": [object()]})
    capture = Capture(state, "count", 1, full=True)
    state.touch_keys({"bad"})
    assert state.watcher is None, "nothing more is packed for it"
    state["bad"].clear()
    with pytest.raises(UnsavableError):
        packed(capture)
    capture.give_back()
    assert restored(packed(Capture(state, "count", 1, full=True))) == {"a": [1], "bad": []}


@pytest.mark.parametrize("key", [math.nan, ("a", math.nan), frozenset({math.nan}), Decimal("NaN"), (1, (2, math.nan))])
def test_a_key_with_nan_is_refused(key: Any) -> None:
    with pytest.raises(UnsavableError, match="contains NaN"):
        packed(Capture(State({key: 1}), "count", 1, full=True))


def test_a_key_that_cannot_be_packed_is_refused() -> None:
    class Key:
        pass

    with pytest.raises(UnsavableError, match=r"Key\)"):
        packed(Capture(State({Key(): 1}), "count", 1, full=True))


# -- damage ------------------------------------------------------------------------------------------------------------


def test_chunks_that_are_cut_are_refused() -> None:
    (chunk,) = packed(Capture(State({"a": 1, "b": [2]}), "count", 1, full=True))
    for end in range(1, len(chunk.data)):
        with pytest.raises((DamagedError, ForeignError)):
            restored([PackedChunk(chunk.data[:end], 2)])


def test_an_unknown_record_is_not_damage() -> None:
    (chunk,) = packed(Capture(State({"a": Pair("x", 1)}), "count", 1, full=True))
    assert b"test_deltas:Pair" in chunk.data
    with pytest.raises(ForeignError, match="Register the records"):
        restored([PackedChunk(chunk.data.replace(b"test_deltas:Pair", b"test_deltas:Pail"), 1)])


# -- blobs -------------------------------------------------------------------------------------------------------------


def blobs_of(state: State[Any, Any], part_bytes: int, *, full: bool = True) -> Iterator[Any]:
    capture = Capture(state, "count", 7, full=full)
    writer = BlobWriter(7, 3, full=capture.full, part_bytes=part_bytes)
    for chunk in capture.slices(Ticking(0.002)):
        if (made := writer.add(chunk)) is not None:
            yield made
    if (made := writer.finish()) is not None:
        yield made


def test_blobs_are_split_and_read() -> None:
    state = State({number: str(number) for number in range(5000)})
    blobs = list(blobs_of(state, 20_000))
    assert [blob.ref.name for blob in blobs] == ["t7-3-f-0", "t7-3-f-1", "t7-3-f-2"]
    assert all(len(blob.data) <= 20_000 for blob in blobs)
    assert sum(blob.ref.rows for blob in blobs) == 5000
    bodies = [PackedChunk(bytes(body_of(blob.ref, blob.data)), 0) for blob in blobs]
    assert restored(bodies) == state


def test_an_empty_full_snapshot_has_a_blob_and_an_empty_delta_none() -> None:
    (blob,) = blobs_of(State(), 1000)
    assert bytes(body_of(blob.ref, blob.data)) == b""
    assert not list(blobs_of(State({"a": 1}), 1000, full=False))


def test_every_wrong_bit_of_a_blob_is_found() -> None:
    (blob,) = blobs_of(State({"a": 1}), 1000)
    for bit in range(8 * len(blob.data)):
        data = bytearray(blob.data)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError, match="t7-3-f-0: its checksum is wrong"):
            body_of(blob.ref, bytes(data))


def test_a_missing_a_cut_and_another_blob_are_found() -> None:
    (blob,) = blobs_of(State({"a": 1}), 1000)
    (other,) = blobs_of(State({"a": 2}), 1000)
    for data, text in ((None, "missing"), (blob.data[:-1], "bytes instead of"), (other.data, "checksum is wrong")):
        with pytest.raises(DamagedError, match=text):
            body_of(blob.ref, data)


def test_snapshots_that_fail_again_and_again_keep_no_more_keys_than_there_are() -> None:
    """Keys come and are removed while the disk is full: the removed ones are in no list."""
    state: State[int, int] = State()
    for number in range(0, 5_000, 10):
        for key in range(number, number + 10):
            state.put(key, 1)
            if key >= 5:
                state.discard(key)
        Capture(state, "count", 1, full=False).give_back()
        assert len(state.touched_keys) <= len(state)
    capture = Capture(state, "count", 1, full=False)
    assert capture.full
    assert capture.rows == 5
