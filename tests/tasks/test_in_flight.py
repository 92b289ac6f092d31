"""In flight: which rows a bolt holds, which of them are old, and when anything has to be checked."""

from __future__ import annotations

from aiostorm.actors import Mailbox
from aiostorm.tasks.in_flight import _FIRST_SWEEP, InFlight, Taken
from aiostorm.topology import Fields, Origin, Segment

ORIGIN = Origin("spout", 1, "default", Fields("n"))


def segment(rows: int = 2, root: int = 7) -> Segment:
    return Segment(ORIGIN, list(range(rows)), root, 1 if root else 0, [0] * rows if root else None)


def flight(**options: bool) -> tuple[InFlight, list[int]]:
    """And how many segments there were at each call of `watch`."""
    watched = list[int]()
    made = InFlight(lambda: watched.append(len(made)), **options)
    return made, watched


def test_what_a_bolt_has_not_settled_is_held_in_the_order_of_arrival() -> None:
    held, _ = flight()
    one, two, three = segment(), segment(), segment()
    held.add([one, two])
    held.add([three])
    assert (len(held), held.has_open) == (3, True)
    two.open = 0
    assert held.take_open() == [one, three]
    assert (len(held), held.has_open, held.take_open()) == (0, False, [])


def test_segments_that_are_executed_and_settled_or_untracked_are_forgotten() -> None:
    held, _ = flight()
    settled, waits, untracked = segment(), segment(), segment(root=0)
    held.add([settled, waits, untracked])
    settled.open = 0
    assert [held.executed(one) for one in (settled, waits, untracked)] == [False, True, False]
    assert held.take_open() == [waits]
    assert not held.executed(untracked), "twice is once"


def test_untracked_rows_are_held_if_that_is_wanted() -> None:
    held, _ = flight(untracked=True)
    settled, untracked = segment(root=0), segment(root=0)
    held.add([settled, untracked])
    settled.open = 0
    assert [held.executed(one) for one in (settled, untracked)] == [False, False]
    assert len(held) == 1, "what is settled is forgotten"
    assert held.take_open() == [untracked]


def test_what_was_settled_later_is_removed_when_there_is_much_of_it() -> None:
    held, _ = flight()
    kept = [segment() for _ in range(_FIRST_SWEEP)]
    held.add(kept)
    assert held.executed(kept[0])
    kept[1].open = 0
    assert held.executed(kept[0])
    assert len(held) == _FIRST_SWEEP, "not yet"
    more = segment()
    held.add([more])
    held.executed(more)
    assert len(held) == _FIRST_SWEEP, "the one that is settled"
    for one in (*kept, more):
        one.open = 0
    others = [segment() for _ in range(_FIRST_SWEEP)]
    held.add(others)
    held.executed(others[0])
    assert len(held) == 2 * _FIRST_SWEEP, "the limit is twice what was held"
    held.add([one := segment()])
    held.executed(one)
    assert len(held) == _FIRST_SWEEP + 1


def test_the_old_ones_are_those_that_were_open_so_many_checks_ago() -> None:
    held, watched = flight()
    first, second, settled, untracked = segment(3), segment(2), segment(9), segment(5, root=0)
    held.add([first, settled, untracked])
    settled.open = 0
    assert held.check(1) == (0, 0, True), "it came after the check before"
    held.add([second])
    assert held.check(1) == (3, 2, True)
    assert held.check(1) == (5, 3, False)
    assert held.check(2) == (5, 4, False)
    assert held.check(3) == (5, 5, False)
    assert held.check(5) == (3, 6, False)
    assert held.check(7) == (0, 0, False)
    first.open = 1
    assert held.check(1) == (3, 8, False)
    assert watched == [3], "once, while something is held"


def test_it_is_watched_while_something_is_open() -> None:
    held, watched = flight()
    assert not held.watched
    assert held.check(0) == (0, 0, False), "nothing has come"
    one, other = segment(), segment()
    held.add([one])
    assert (held.watched, watched) == (True, [1])
    one.open = 0
    held.check(1)
    assert not held.watched
    held.add([other])
    assert (held.watched, watched) == (True, [1, 2])
    held.check(1)
    assert held.watched
    held.stop_watching()
    assert not held.watched
    held.add([segment()])
    assert watched == [1, 2, 3]


async def test_rows_that_were_taken_and_not_executed() -> None:
    taken = Taken(Mailbox(10))
    assert (taken.rows, taken.dry, taken.snapshots) == (0, False, None)
    taken.segments += [segment(5), segment(2)]
    taken.start = 3
    assert taken.rows == 4
