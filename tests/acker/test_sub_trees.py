"""Sub-trees in the ledger, one case at a time. In a world of tasks, in any order: tests/tasks/detached_world.py."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.acker import Ledger, Verdict


class WatermarkEmitter:
    """A ledger whose verdicts are written down in short."""

    def __init__(self, timeout_s: float | None = 10.0) -> None:
        self.ledger = Ledger(timeout_s)
        self.now_s = 0.0

    def __call__(self, what: str, *arguments: Any) -> list[Any]:
        out: list[tuple[int, Verdict]] = []
        match what:
            case "init" | "fail":
                getattr(self.ledger, what)(*arguments, self.now_s, out)
            case "ack" | "detach":
                getattr(self.ledger, what)(arguments, self.now_s, out)
            case "reset":
                self.ledger.reset(arguments[0], self.now_s, out)
            case "expire":
                self.now_s = arguments[0]
                self.ledger.expire(self.now_s, out)
        return [(v.kind.name, v.root, v.index, v.left) for _, v in out]


def detached_twice() -> WatermarkEmitter:
    """Tree 7 of owner 1: its rows of messages 2 and 3 are detached, and nothing else is open."""
    tell = WatermarkEmitter()
    assert tell("init", 1, 7, 100) == []
    assert tell("detach", (7, 2, 8, 200), (7, 3, 9, 300)) == []
    assert tell("ack", (7, 100)) == [("ACK", 7, -1, (2, 3))]
    return tell


def test_what_has_left_its_tree_is_acked_by_itself() -> None:
    tell = detached_twice()
    assert tell("ack", (8, 200)) == [("ACK", 7, 2, ())]
    assert 7 in tell.ledger
    assert tell("ack", (9, 301)) == []
    assert tell("ack", (9, 1)) == [("ACK", 7, 3, ())]
    assert not len(tell.ledger)


def test_a_sub_tree_that_is_complete_before_its_tree_is_acked_with_it() -> None:
    tell = WatermarkEmitter()
    assert tell("ack", (8, 200)) == []  # before anybody has told of it
    assert tell("detach", (7, 2, 8, 200)) == []  # before INIT
    assert tell("ack", (7, 100)) == []
    assert tell("init", 1, 7, 100) == [("ACK", 7, -1, ())]
    assert not len(tell.ledger)


def test_a_message_with_two_sub_trees_is_acked_with_the_last() -> None:
    tell = WatermarkEmitter()
    tell("init", 1, 7, 100)
    tell("detach", (7, 2, 8, 200), (7, 2, 9, 300))
    assert tell("ack", (7, 100)) == [("ACK", 7, -1, (2,))]
    assert tell("ack", (8, 200)) == []
    assert tell("ack", (9, 300)) == [("ACK", 7, 2, ())]


def test_a_failure_in_a_sub_tree_fails_its_message_alone_and_once() -> None:
    tell = detached_twice()
    assert tell("fail", 8, 2, "bad") == [("FAIL", 7, 2, ())]
    assert tell("fail", 8, 2, "bad") == []
    assert tell("ack", (8, 200)) == []
    assert tell("ack", (9, 300)) == [("ACK", 7, 3, ())]
    assert not len(tell.ledger)


def test_a_failure_before_the_detach_and_before_init() -> None:
    tell = WatermarkEmitter()
    tell("fail", 8, 2, "bad")
    tell("detach", (7, 2, 8, 200))
    tell("ack", (7, 100))
    assert tell("init", 1, 7, 100) == [("FAIL", 7, 2, ()), ("ACK", 7, -1, ())]
    assert tell("ack", (8, 200)) == []
    assert not len(tell.ledger)


def test_an_expired_sub_tree_fails_its_message_alone() -> None:
    tell = detached_twice()
    assert tell("expire", 5.0) == []
    assert tell("reset", 9) == [("RESET", 7, 3, ())]
    assert tell("expire", 10.0) == [("FAIL", 7, 2, ())]
    assert tell("expire", 15.0) == [("FAIL", 7, 3, ())]
    assert not len(tell.ledger)


def test_a_reset_of_a_sub_tree_is_of_its_message_and_of_a_tree_that_is_not_complete() -> None:
    tell = WatermarkEmitter()
    tell("init", 1, 7, 100)
    tell("detach", (7, 2, 8, 200), (7, 2, 9, 300))
    tell("expire", 5.0)
    assert tell("reset", 9) == [("RESET", 7, -1, ())]
    assert tell("expire", 14.0) == []
    assert tell("expire", 15.0) == [("FAIL", 7, 2, ()), ("EXPIRED", 7, -1, ())]
    assert not len(tell.ledger)


def test_sub_trees_end_with_their_tree() -> None:
    tell = WatermarkEmitter()
    tell("init", 1, 7, 100)
    tell("expire", 5.0)
    tell("detach", (7, 2, 8, 200))
    assert tell("expire", 10.0) == [("EXPIRED", 7, -1, ())]
    assert not len(tell.ledger)
    tell("detach", (17, 2, 18, 200))  # an early row, which expires
    assert len(tell.ledger) == 2
    tell("expire", 20.0)
    assert not len(tell.ledger)
    tell = detached_twice()
    tell.ledger.forget(2)
    assert len(tell.ledger) == 3
    tell.ledger.forget(1)
    assert not len(tell.ledger)


def test_a_tree_that_is_repeated_while_sub_trees_are_open_acks_nothing() -> None:
    tell = detached_twice()
    for _ in range(2):
        assert tell("detach", (7, 2, 8, 200), (7, 3, 9, 300), (7, 1, 6, 400)) == []
        assert tell("init", 1, 7, 100) == []
        assert tell("ack", (7, 100)) == []
        assert tell("fail", 7, 1, "late") == []
    assert tell("ack", (8, 200)) == [("ACK", 7, 2, ())]
    assert tell("ack", (9, 300)) == [("ACK", 7, 3, ())]


@pytest.mark.parametrize("root", [7, 8])
def test_a_sub_tree_that_two_trees_tell_of_or_one_that_is_split_again_acks_nothing(root: int) -> None:
    tell = WatermarkEmitter()
    tell("init", 1, 7, 100)
    tell("detach", (7, 2, 8, 200))
    if root == 7:
        tell("init", 1, 17, 100)
        tell("detach", (17, 5, 8, 200))
        assert tell("ack", (17, 100)) == [("ACK", 17, -1, (5,))]
    else:
        tell("detach", (8, 2, 9, 300))
        assert tell("ack", (7, 100)) == [("ACK", 7, -1, (2,))]
    acked = tell("ack", (8, 200))
    assert ("ACK", 17, 5, ()) not in acked
    assert root == 7 or acked == []
    assert tell.ledger.may_expire or root == 8
