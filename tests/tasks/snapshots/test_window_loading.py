"""WindowLoader: chunks make the dump that was captured, or are refused, and what is wrong is named."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiostorm.state import Chunk, ForeignError
from aiostorm.tasks.snapshots.window_loading import WindowLoader, load_windows
from aiostorm.windows import Count, PlainWindows, Tumbling

SAME = {"version": 1, "kind": "plain", "settings": "s"}


def head(number: int, rows: int, since: int | None = None, dropped: Any = (), **changes: Any) -> Chunk:
    content = {**SAME, "number": number, "since": since, **changes}
    return Chunk(3, [None], [(content, rows, list(dropped))], [])


def rows(*of: tuple[Any, Any, tuple[Any, ...]], removed: Any = ()) -> Chunk:
    """(table, key, values), and the (table, key) of what is removed."""
    return Chunk(3, [(table, key) for table, key, _ in of], [values for *_, values in of], list(removed))


def loaded(*chunks: Chunk) -> tuple[Any, int]:
    loader = WindowLoader()
    for chunk in chunks:
        loader.apply(chunk)
    return loader.finish()


def test_a_full_dump_has_its_head_and_its_columns() -> None:
    assert loaded() == ({}, 0)
    content, size = loaded(head(5, 3), rows((0, "a", (1, 10)), (0, "b", (2, 20)), ("t", "a", (3,))))
    assert content == {
        "head": {**SAME, "number": 5, "since": None},
        "tables": {0: [{"a": 1, "b": 2}, {"a": 10, "b": 20}], "t": [{"a": 3}]},
    }
    assert size == 4, "the head is a row"


def test_a_delta_changes_removes_and_drops() -> None:
    first = [head(5, 4), rows((0, "a", (1,)), (0, "b", (2,)), (1, "x", (7,)), (2, "y", (8,)))]
    delta = [
        head(6, 4, since=5, dropped=[2, "none"]),
        rows((0, "a", (9,)), (3, "z", (1,)), removed=[(1, "x"), (9, "no")]),
    ]
    content, size = loaded(*first, *delta)
    assert list(content["tables"][0][0].items()) == [("b", 2), ("a", 9)], "the last changed is the last"
    assert content["tables"] == {0: [{"a": 9, "b": 2}], 3: [{"z": 1}]}, "an empty table is none"
    assert (content["head"]["number"], content["head"]["since"], size) == (6, None, 4)


def test_what_is_removed_and_comes_again_in_one_chunk_is_there() -> None:
    content, _ = loaded(head(5, 1), rows((0, "a", (1,))), head(6, 2, since=5), rows((0, "a", (2,)), removed=[(0, "a")]))
    assert content["tables"] == {0: [{"a": 2}]}


def test_a_full_dump_forgets_what_was_before() -> None:
    content, size = loaded(head(5, 1), rows((0, "a", (1,))), head(7, 1), rows((1, "b", (2,))))
    assert (content["tables"], size) == ({1: [{"b": 2}]}, 2)


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([rows((0, "a", (1,)))], "windows have no head"),
        ([head(5, 1)], "windows lack 1 rows"),
        ([head(5, 1), head(6, 0, since=5)], "windows lack 1 rows"),
        ([head(5, 1), rows((0, "a", (1,)), (0, "b", (2,)))], "windows lack -1 rows"),
        ([head(5, 1), rows((0, "a", (1,)), removed=[(0, "b")])], "windows lack -1 rows"),
        ([head(6, 0, since=5)], "changes of windows since snapshot 5, after None"),
        ([head(5, 0), head(7, 0, since=6)], "changes of windows since snapshot 6, after 5"),
        ([head(5, 0), head(6, 0, since=5, kind="other")], "changes of other windows than before"),
        ([head(5, 0), head(6, 0, since=5, settings="other")], "changes of other windows than before"),
        ([head(5, 0), head(6, 0, since=5, version=2)], "changes of other windows than before"),
        ([Chunk(3, [None], [({**SAME}, 0, [])], [])], "the head of windows has gaps"),
        ([Chunk(3, [None], [({"number": 1, "version": 1, "kind": "k"}, 0, [])], [])], "the head of windows has gaps"),
        ([Chunk(3, [None], [[{**SAME, "number": 1}, 0, []]], [])], "the head of windows is no head"),
        ([Chunk(3, [None], [({**SAME, "number": 1}, 0)], [])], "the head of windows is no head"),
        ([Chunk(3, [None], [([], 0, [])], [])], "the head of windows is no head"),
        ([Chunk(3, [None], [({**SAME, "number": 1}, None, [])], [])], "the head of windows is no head"),
        ([Chunk(3, [None], [({**SAME, "number": 1}, 0, ())], [])], "the head of windows is no head"),
        ([head(5, 1), Chunk(3, ["a"], [(1,)], [])], "a row of windows has the key 'a'"),
        ([head(5, 1), Chunk(3, [[0, "a"]], [(1,)], [])], "a row of windows has the key [0, 'a']"),
        ([head(5, 1), Chunk(3, [(0, "a", 1)], [(1,)], [])], "a row of windows has the key (0, 'a', 1)"),
        ([head(5, 1), Chunk(3, [], [], ["a"])], "a row of windows has the key 'a'"),
        ([head(5, 1), Chunk(3, [(0, "a")], [[1]], [])], "the values of key 'a' are no tuple"),
        ([head(5, 2), rows((0, "a", (1,)), (0, "b", (1, 2)))], "zip() argument 2 is longer"),
    ],
)
def test_what_does_not_fit_is_refused(chunks: list[Chunk], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        loaded(*chunks)


def test_nothing_is_loaded_of_an_empty_snapshot_and_other_windows_are_named() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    load_windows(machine, {}, "hours", 7)
    with pytest.raises(
        ForeignError, match=r"component 'hours', task 7: its windows cannot be restored: .* Restore the"
    ):
        load_windows(machine, {"head": {}, "tables": {}}, "hours", 7)
