"""Pending against a plain model: every message settled exactly once, the count right, deadlines in order."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiostorm.acker import Emission, Pending, Settled

from ..tries import examples

ROOTS = st.integers(1, 8)


class PendingMachine(RuleBasedStateMachine):
    """Any order of emits and verdicts, also of verdicts about settled messages."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0
        self.next_id = 0
        self.open: dict[int, dict[int, Any]] = {}  # root -> index -> message id
        self.own: dict[tuple[int, int], Any] = {}  # messages with clocks of their own
        self.since_s: dict[Any, float] = {}
        self.emitted: dict[Any, tuple[int, float, Emission | None]] = {}  # id -> attempts, emitted_s, emission
        self.settled: list[Any] = []

    @initialize(timeout_s=st.sampled_from([None, 10.0]))
    def begin(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.pending = Pending(timeout_s)

    @rule(root=ROOTS, count=st.integers(1, 5), attempts=st.integers(0, 2), keep=st.booleans())
    def add(self, root: int, count: int, attempts: int, keep: bool) -> None:
        ids = [f"m{self.next_id + i}" for i in range(count)]
        self.next_id += count
        emissions = [Emission((message_id,), "default") for message_id in ids] if keep else None
        if root in self.open:
            with pytest.raises(ValueError, match="already pending"):
                self.pending.add(root, ids, emissions, attempts, self.now_s)
            return
        self.pending.add(root, ids, emissions, attempts, self.now_s)
        self.open[root] = dict(enumerate(ids))
        self.since_s[root] = self.now_s
        for i, message_id in enumerate(ids):
            self.emitted[message_id] = (attempts, self.now_s, emissions[i] if emissions else None)
        ids.clear()  # the caller may do with its list what it likes

    def ends(self, root: int) -> list[Any]:
        self.since_s.pop(root, None)
        messages = list(self.open.pop(root, {}).values())
        self.settled += messages
        return messages

    def check(self, settled: list[Settled], messages: list[Any], failure: Any) -> None:
        assert [s.message_id for s in settled] == messages
        for s in settled:
            assert s.failure == failure
            assert (s.attempts, s.emitted_s, s.emission) == self.emitted[s.message_id]

    @rule(root=ROOTS)
    def acked(self, root: int) -> None:
        was_pending = root in self.open
        tree = self.pending.acked(root)
        assert (tree is not None) is was_pending
        if tree is not None:
            messages = self.ends(root)
            assert list(tree.open_ids()) == messages
            assert tree.open == len(messages)
            self.check(tree.settled(), messages, None)

    def takes(self, root: int, index: int) -> list[Any]:
        """One message, if it is open."""
        if (root, index) in self.own:
            self.since_s.pop((root, index))
            return [self.own.pop((root, index))]
        tree = self.open.get(root, {})
        taken = [tree.pop(index)] if index in tree else []
        if root in self.open and not tree:
            self.ends(root)
        return taken

    @rule(root=ROOTS, left=st.lists(st.integers(0, 4), unique=True))
    def acked_but_for_some(self, root: int, left: list[int]) -> None:
        tree = self.pending.acked(root, left)
        messages = self.open.get(root, {})
        acked = [message_id for index, message_id in messages.items() if index not in left]
        assert (tree is not None) is bool(acked)
        if tree is not None:
            assert tree.open == len(acked)
            self.check(tree.settled(), acked, None)
            self.settled += acked
        if root in self.open:
            self.open[root] = {index: messages[index] for index in left if index in messages}
            if not self.open[root]:
                self.ends(root)

    @rule(root=ROOTS, index=st.integers(-2, 5))
    def message_acked(self, root: int, index: int) -> None:
        tree = self.pending.message_acked(root, index)
        messages = self.takes(root, index)
        assert (tree is not None) is bool(messages)
        if tree is not None:
            self.check(tree.settled(), messages, None)
            self.settled += messages

    @rule(root=ROOTS, index=st.integers(-2, 5))
    def failed(self, root: int, index: int) -> None:
        settled = self.pending.failed(root, index, "bad")
        messages = self.takes(root, index)
        self.settled += messages
        self.check([settled] if settled is not None else [], messages, "bad")

    @rule(root=ROOTS)
    def expired(self, root: int) -> None:
        settled = self.pending.expired(root, "late")
        self.check(settled, self.ends(root), "late")

    @rule(root=ROOTS, index=st.integers(0, 4))
    def reset_of_a_message(self, root: int, index: int) -> None:
        self.pending.reset(root, self.now_s, index)
        for message_id in self.takes(root, index):
            self.own[root, index] = message_id
            self.since_s[root, index] = self.now_s

    @rule()
    def overdue_messages_fail(self) -> None:
        for key in self.pending.overdue(self.now_s):
            settled = self.pending.expired(key, "late")
            if isinstance(key, tuple):
                self.check(settled, [self.own.pop(key)], "late")
                self.settled += [s.message_id for s in settled]
                self.since_s.pop(key)
            else:
                self.check(settled, self.ends(key), "late")

    @rule(root=ROOTS)
    def reset(self, root: int) -> None:
        self.pending.reset(root, self.now_s)
        if root in self.open:
            self.open[root] = self.open.pop(root)
            self.since_s.pop(root)
            self.since_s[root] = self.now_s

    @rule(delay_s=st.sampled_from([0.0, 1.0, 9.0, 10.0]))
    def time_passes(self, delay_s: float) -> None:
        self.now_s += delay_s
        due = [
            key
            for key, since_s in self.since_s.items()
            if self.timeout_s is not None and since_s + self.timeout_s <= self.now_s
        ]
        assert self.pending.overdue(self.now_s) == due
        assert due == sorted(due, key=self.since_s.__getitem__)

    @invariant()
    def count_is_right_and_nothing_is_settled_twice(self) -> None:
        if not hasattr(self, "pending"):
            return
        messages = [
            message_id
            for key in self.since_s
            for message_id in ([self.own[key]] if isinstance(key, tuple) else self.open[key].values())
        ]
        assert self.pending.count == len(messages)
        assert self.pending.message_ids() == messages
        assert self.pending.all() == list(self.since_s)
        assert len(self.pending) == len(self.open) + len(self.own)
        assert all(root in self.pending for root in self.open)
        assert len(set(self.settled)) == len(self.settled)
        assert set(self.settled) | set(messages) == set(self.emitted)


TestPending = PendingMachine.TestCase
TestPending.settings = settings(max_examples=examples(100), stateful_step_count=40)


def test_any_object_is_a_message_id_none_and_unhashable_ones_too() -> None:
    pending = Pending(None)
    ids: list[Any] = [None, [1, 2], 0, ""]
    pending.add(1, ids, None, 0, 0.0)
    settled = pending.failed(1, 0, "bad")
    assert settled is not None
    assert settled.message_id is None
    assert pending.failed(1, 0, "bad") is None
    assert pending.message_ids() == [[1, 2], 0, ""]


def test_a_tree_is_small() -> None:
    pending = Pending(30.0)
    pending.add(1, ["id"], None, 0, 0.0)
    tree = pending._trees[1]
    assert sys.getsizeof(tree) + sys.getsizeof(tree.ids) <= 150
