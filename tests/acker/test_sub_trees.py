"""Sub-trees in the ledger, one case at a time. In a world of tasks, in any order: tests/tasks/detached_world.py."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.acker import Ledger, Verdict


class LedgerDriver:
    """Sends to a ledger, and returns its verdicts in short."""

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


def detached_twice() -> LedgerDriver:
    """Tree 7 of owner 1: its rows of messages 2 and 3 are detached, and nothing else is open."""
    send = LedgerDriver()
    assert send("init", 1, 7, 100) == []
    assert send("detach", (7, 2, 8, 200), (7, 3, 9, 300)) == []
    assert send("ack", (7, 100)) == [("ACK", 7, -1, (2, 3))]
    return send


def test_a_detached_row_is_acked_by_itself() -> None:
    send = detached_twice()
    assert send("ack", (8, 200)) == [("ACK", 7, 2, ())]
    assert 7 in send.ledger
    assert send("ack", (9, 301)) == []
    assert send("ack", (9, 1)) == [("ACK", 7, 3, ())]
    assert not len(send.ledger)


def test_a_sub_tree_that_is_complete_before_its_tree_is_acked_with_it() -> None:
    send = LedgerDriver()
    assert send("ack", (8, 200)) == []  # before its DETACH
    assert send("detach", (7, 2, 8, 200)) == []  # before INIT
    assert send("ack", (7, 100)) == []
    assert send("init", 1, 7, 100) == [("ACK", 7, -1, ())]
    assert not len(send.ledger)


def test_a_message_with_two_sub_trees_is_acked_with_the_last() -> None:
    send = LedgerDriver()
    send("init", 1, 7, 100)
    send("detach", (7, 2, 8, 200), (7, 2, 9, 300))
    assert send("ack", (7, 100)) == [("ACK", 7, -1, (2,))]
    assert send("ack", (8, 200)) == []
    assert send("ack", (9, 300)) == [("ACK", 7, 2, ())]


def test_a_failure_in_a_sub_tree_fails_its_message_alone_and_once() -> None:
    send = detached_twice()
    assert send("fail", 8, 2, "bad") == [("FAIL", 7, 2, ())]
    assert send("fail", 8, 2, "bad") == []
    assert send("ack", (8, 200)) == []
    assert send("ack", (9, 300)) == [("ACK", 7, 3, ())]
    assert not len(send.ledger)


def test_a_failure_before_the_detach_and_before_init() -> None:
    send = LedgerDriver()
    send("fail", 8, 2, "bad")
    send("detach", (7, 2, 8, 200))
    send("ack", (7, 100))
    assert send("init", 1, 7, 100) == [("FAIL", 7, 2, ()), ("ACK", 7, -1, ())]
    assert send("ack", (8, 200)) == []
    assert not len(send.ledger)


def test_an_expired_sub_tree_fails_its_message_alone() -> None:
    send = detached_twice()
    assert send("expire", 5.0) == []
    assert send("reset", 9) == [("RESET", 7, 3, ())]
    assert send("expire", 10.0) == [("FAIL", 7, 2, ())]
    assert send("expire", 15.0) == [("FAIL", 7, 3, ())]
    assert not len(send.ledger)


def test_a_reset_of_a_sub_tree_is_of_its_message_and_of_a_tree_that_is_not_complete() -> None:
    send = LedgerDriver()
    send("init", 1, 7, 100)
    send("detach", (7, 2, 8, 200), (7, 2, 9, 300))
    send("expire", 5.0)
    assert send("reset", 9) == [("RESET", 7, -1, ())]
    assert send("expire", 14.0) == []
    assert send("expire", 15.0) == [("FAIL", 7, 2, ()), ("EXPIRED", 7, -1, ())]
    assert not len(send.ledger)


def test_sub_trees_end_with_their_tree() -> None:
    send = LedgerDriver()
    send("init", 1, 7, 100)
    send("expire", 5.0)
    send("detach", (7, 2, 8, 200))
    assert send("expire", 10.0) == [("EXPIRED", 7, -1, ())]
    assert not len(send.ledger)
    send("detach", (17, 2, 18, 200))  # an early row, which expires
    assert len(send.ledger) == 2
    send("expire", 20.0)
    assert not len(send.ledger)
    send = detached_twice()
    send.ledger.forget(2)
    assert len(send.ledger) == 3
    send.ledger.forget(1)
    assert not len(send.ledger)


def test_a_tree_that_is_repeated_while_sub_trees_are_open_acks_nothing() -> None:
    send = detached_twice()
    for _ in range(2):
        assert send("detach", (7, 2, 8, 200), (7, 3, 9, 300), (7, 1, 6, 400)) == []
        assert send("init", 1, 7, 100) == []
        assert send("ack", (7, 100)) == []
        assert send("fail", 7, 1, "late") == []
    assert send("ack", (8, 200)) == [("ACK", 7, 2, ())]
    assert send("ack", (9, 300)) == [("ACK", 7, 3, ())]


@pytest.mark.parametrize("root", [7, 8])
def test_a_sub_tree_of_two_trees_or_one_that_is_split_again_acks_nothing(root: int) -> None:
    send = LedgerDriver()
    send("init", 1, 7, 100)
    send("detach", (7, 2, 8, 200))
    if root == 7:
        send("init", 1, 17, 100)
        send("detach", (17, 5, 8, 200))
        assert send("ack", (17, 100)) == [("ACK", 17, -1, (5,))]
    else:
        send("detach", (8, 2, 9, 300))
        assert send("ack", (7, 100)) == [("ACK", 7, -1, (2,))]
    acked = send("ack", (8, 200))
    assert ("ACK", 17, 5, ()) not in acked
    assert root == 7 or acked == []
    assert send.ledger.may_expire or root == 8
