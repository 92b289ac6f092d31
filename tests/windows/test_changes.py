"""Changes of windows: each rule alone. (With machines: test_dump_load.py and test_frozen.py.)"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from aiostorm.windows import WindowStateError
from aiostorm.windows.changes import Changed, Changes


class Kept:
    """A watcher that lists what is going to change, and what was recorded before."""

    def __init__(self, changes: Changes) -> None:
        self.calls: list[tuple[Any, list[Any]]] = []
        self.counts: list[int] = []
        self._changes = changes

    def keep(self, table: Any, keys: Collection[Any]) -> None:
        self.calls.append((table, sorted(keys)))
        self.counts.append(self._changes.count(1))


def shown(changed: Changed) -> tuple[Any, list[Any]]:
    return {table: list(keys) for table, keys in changed.touched.items()}, list(changed.dropped)


def begun(*numbers: int) -> Changes:
    made = Changes()
    for number in numbers:
        made.begin(number)
    return made


def test_what_changes_after_a_dump_is_known_with_the_last_changed_at_the_end() -> None:
    made = Changes()
    made.changed(10, "before")
    made.begin(1)
    made.changed(10, "a")
    made.changed_all(10, ["b", "c"])
    made.changed(20, "x")
    made.changed(10, "a")
    made.changed_all(10, ["b", "d"])
    found = made.since(1)
    assert found.number == 1
    assert shown(found) == ({10: ["b", "c", "a", "d"], 20: ["x"]}, [])
    assert made.count(1) == 5


def test_before_a_dump_nothing_is_known() -> None:
    made = Changes()
    made.changed(10, "a")
    made.drop(10)
    assert not made.knows(1)
    assert made.count(0) == 0
    with pytest.raises(WindowStateError, match=r"since dump 1 were recorded \(but since \[\]\): make a full dump"):
        made.since(1)


def test_a_dump_is_known_until_a_later_one_is_committed() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.begin(2)
    made.changed(10, "b")
    made.changed(10, "a")
    assert (made.knows(1), made.knows(2), made.knows(3)) == (True, True, False)
    assert (made.count(1), made.count(2), made.count(3)) == (3, 2, 0)
    assert shown(made.since(1)) == ({10: ["b", "a"]}, []), "a key once, where it changed last"
    made.committed(2)
    assert (made.knows(1), made.knows(2)) == (False, True)
    assert shown(made.since(2)) == ({10: ["b", "a"]}, [])
    with pytest.raises(WindowStateError, match=r"since dump 1 were recorded \(but since \[2\]\)"):
        made.since(1)


def test_to_ask_for_the_changes_since_a_dump_forgets_earlier_ones() -> None:
    made = begun(1, 2)
    made.since(2)
    assert not made.knows(1)


def test_a_commit_of_a_number_between_keeps_the_later_dumps() -> None:
    made = begun(3, 7)
    made.committed(5)
    assert (made.knows(3), made.knows(7)) == (False, True)
    made.committed(7)
    assert made.knows(7)


def test_what_was_asked_for_stays_as_it_was() -> None:
    made = begun(1, 2)
    made.changed(10, "a")
    joined = made.since(1)
    made.changed(10, "b")
    made.drop(10)
    assert shown(joined) == ({10: ["a"]}, [])


def test_a_dropped_table_has_no_changes_until_it_is_made_again() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.changed(20, "x")
    made.drop(10)
    assert shown(made.since(1)) == ({20: ["x"]}, [10])
    made.changed(10, "b")
    assert shown(made.since(1)) == ({20: ["x"], 10: ["b"]}, [10])
    made.begin(2)
    made.drop(20)
    made.drop(30)
    made.changed(30, "z")
    assert shown(made.since(1)) == ({10: ["b"], 30: ["z"]}, [10, 20, 30])
    assert shown(made.since(2)) == ({30: ["z"]}, [20, 30])


# -- aborted dumps -----------------------------------------------------------------------------------------------------


def test_changes_since_an_aborted_dump_belong_to_the_one_before_also_later_ones() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.changed(20, "x")
    made.begin(2)
    made.changed(10, "b")
    made.drop(20)
    made.aborted(2)
    assert not made.knows(2)
    made.changed(10, "c")
    assert shown(made.since(1)) == ({10: ["a", "b", "c"]}, [20])


def test_the_first_dump_may_be_aborted_and_nothing_is_known_then() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.aborted(1)
    made.changed(10, "b")
    assert not made.knows(1)
    made.begin(2)
    made.changed(10, "c")
    assert shown(made.since(2)) == ({10: ["c"]}, [])


def test_an_abort_of_a_dump_between_two_leaves_the_later_one_alone() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.begin(2)
    made.changed(10, "b")
    made.begin(3)
    made.changed(10, "c")
    made.aborted(2)
    made.changed(10, "d")
    assert shown(made.since(1)) == ({10: ["a", "b", "c", "d"]}, [])
    assert shown(made.since(3)) == ({10: ["c", "d"]}, [])


def test_an_abort_of_an_unknown_dump_changes_nothing() -> None:
    made = begun(1)
    made.changed(10, "a")
    made.aborted(7)
    assert shown(made.since(1)) == ({10: ["a"]}, [])


# -- the watcher -------------------------------------------------------------------------------------------------------


def test_a_watcher_is_notified_before_the_first_change_of_a_key() -> None:
    made = begun(1)
    made.changed(10, "old")
    made.begin(2)
    made.watcher = kept = Kept(made)
    made.changed(10, "a")
    made.changed(10, "a")
    made.changed(20, "a")
    made.changed_all(10, ["a", "b", "c"])
    made.changed_all(10, ["b"])
    made.changed(10, "old")
    assert kept.calls == [(10, ["a"]), (20, ["a"]), (10, ["b", "c"]), (10, []), (10, ["old"])]
    assert kept.counts == [1, 2, 3, 5, 5], "not recorded yet"


def test_a_watcher_is_notified_of_all_states_that_users_get() -> None:
    made = begun(1)
    made.leaving(10, ["a"])
    made.changed(10, "a")
    made.watcher = kept = Kept(made)
    made.leaving(10, ["a", "b"])
    assert kept.calls == [(10, ["a", "b"])]
    assert made.count(1) == 1
