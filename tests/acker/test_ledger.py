"""The ledger against a model that keeps the set of open edges of each root, without any XOR."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from aiostorm.acker import Ledger, Verdict, VerdictKind

from ..tries import examples
from .trees import Frame, Tree, ids, new_id, shapes, tree

Delivered = tuple[int, VerdictKind, int, int, Any]  # owner, kind, root, index, failure


def as_delivered(out: list[tuple[int, Verdict]]) -> list[Delivered]:
    return [(owner, v.kind, v.root, v.index, v.failure) for owner, v in out]


@dataclass
class ModelRow:
    owner: int | None  # None: an early row
    since_s: float
    open: set[int] = field(default_factory=set)
    failures: dict[int, Any] = field(default_factory=dict)


class Model:
    """What the ledger promises, in the plainest code. Rows and early rows are kept in the order of their clocks."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.rows: dict[int, ModelRow] = {}

    def early_row(self, root: int, now_s: float) -> ModelRow:
        return self.rows.setdefault(root, ModelRow(None, now_s))

    def init(self, owner: int, root: int, edges: set[int], now_s: float) -> list[Delivered]:
        row = self.early_row(root, now_s)
        if row.owner is not None:
            return []
        row.owner, row.since_s = owner, now_s
        row.open ^= edges
        self.rows[root] = self.rows.pop(root)
        delivered: list[Delivered] = [
            (owner, VerdictKind.FAIL, root, i, failure) for i, failure in row.failures.items()
        ]
        return delivered + self.complete(root)

    def ack(self, root: int, edges: set[int], now_s: float) -> list[Delivered]:
        self.early_row(root, now_s).open ^= edges
        return self.complete(root)

    def complete(self, root: int) -> list[Delivered]:
        row = self.rows[root]
        if row.open or row.owner is None:
            return []
        del self.rows[root]
        return [(row.owner, VerdictKind.ACK, root, -1, row.failures or None)]

    def fail(self, root: int, index: int, failure: Any, now_s: float) -> list[Delivered]:
        row = self.early_row(root, now_s)
        known = index in row.failures
        row.failures.setdefault(index, failure)
        return [(row.owner, VerdictKind.FAIL, root, index, failure)] if row.owner is not None and not known else []

    def reset(self, root: int, now_s: float) -> list[Delivered]:
        row = self.rows.get(root)
        if row is None or row.owner is None:
            return []
        row.since_s = now_s
        self.rows[root] = self.rows.pop(root)
        return [(row.owner, VerdictKind.RESET, root, -1, None)]

    def forget(self, owner: int) -> None:
        self.rows = {root: row for root, row in self.rows.items() if row.owner != owner}

    def expire(self, now_s: float, early_timeout_s: float) -> list[Delivered]:
        delivered: list[Delivered] = []
        for root, row in list(self.rows.items()):
            timeout_s = early_timeout_s if row.owner is None else self.timeout_s
            if timeout_s is not None and row.since_s + timeout_s <= now_s:
                del self.rows[root]
                if row.owner is not None:
                    delivered.append((row.owner, VerdictKind.EXPIRED, root, -1, None))
        return delivered


class LedgerMachine(RuleBasedStateMachine):
    """Any trees, in any order, frames repeated and lost, failures, resets, time."""

    trees = Bundle("trees")

    @initialize(timeout_s=st.sampled_from([None, 10.0]), seed=st.integers(0, 2**32))
    def begin(self, timeout_s: float | None, seed: int) -> None:
        self.source = ids(seed)
        self.ledger = Ledger(timeout_s)
        self.model = Model(timeout_s)
        self.now_s = 1_000.0
        self.came: dict[int, set[int]] = {}  # root -> the frames that came at least once

    @rule(target=trees, shape=shapes())
    def emit(self, shape: list[list[int]]) -> Tree:
        made = tree(shape, self.source)
        self.came[made.root] = set()
        return made

    def check(self, out: list[tuple[int, Verdict]], expected: list[Delivered]) -> None:
        assert as_delivered(out) == expected

    @rule(which=trees, owner=st.integers(0, 3))
    def init(self, which: Tree, owner: int) -> None:
        self.came[which.root].add(0)
        out: list[tuple[int, Verdict]] = []
        self.ledger.init(owner, which.root, which.frames[0].xor, self.now_s, out)
        self.never_too_soon(which, out)
        self.check(out, self.model.init(owner, which.root, which.frames[0].edges, self.now_s))

    @rule(which=trees, picks=st.lists(st.integers(1, 7), min_size=1, max_size=6))
    def ack(self, which: Tree, picks: list[int]) -> None:
        """Frames of one tree, in one message (two acker items of one root are two turns)."""
        chosen = [i for i in picks if i < len(which.frames)]
        out: list[tuple[int, Verdict]] = []
        self.came[which.root] |= set(chosen)
        self.ledger.ack([(which.root, which.frames[i].xor) for i in chosen], self.now_s, out)
        self.never_too_soon(which, out)
        expected: list[Delivered] = []
        for i in chosen:
            expected += self.model.ack(which.root, which.frames[i].edges, self.now_s)
        self.check(out, expected)

    @rule(first=trees, second=trees)
    def ack_two_roots(self, first: Tree, second: Tree) -> None:
        """The last frame of each, in one message."""
        out: list[tuple[int, Verdict]] = []
        both = [which for which in (first, second) if len(which.frames) > 1]
        expected: list[Delivered] = []
        for which in both:
            self.came[which.root].add(len(which.frames) - 1)
            expected += self.model.ack(which.root, which.frames[-1].edges, self.now_s)
        self.ledger.ack(((which.root, which.frames[-1].xor) for which in both), self.now_s, out)
        self.check(out, expected)

    @rule(which=trees, index=st.integers(0, 3), failure=st.sampled_from("ab"))
    def fail(self, which: Tree, index: int, failure: str) -> None:
        out: list[tuple[int, Verdict]] = []
        self.ledger.fail(which.root, index, failure, self.now_s, out)
        self.check(out, self.model.fail(which.root, index, failure, self.now_s))

    @rule(which=trees)
    def reset(self, which: Tree) -> None:
        out: list[tuple[int, Verdict]] = []
        self.ledger.reset(which.root, self.now_s, out)
        self.check(out, self.model.reset(which.root, self.now_s))

    @rule(delay_s=st.sampled_from([0.0, 1.0, 5.0, 10.0, 4_000.0]))
    def expire(self, delay_s: float) -> None:
        self.now_s += delay_s
        out: list[tuple[int, Verdict]] = []
        self.ledger.expire(self.now_s, out)
        self.check(out, self.model.expire(self.now_s, self.ledger.early_timeout_s))

    @rule(owner=st.integers(0, 3))
    def forget(self, owner: int) -> None:
        self.ledger.forget(owner)
        self.model.forget(owner)

    @rule()
    def clear(self) -> None:
        self.ledger.clear()
        self.model.rows.clear()

    def never_too_soon(self, which: Tree, out: list[tuple[int, Verdict]]) -> None:
        """The promise itself: no ACK before every frame of the tree has come."""
        if any(verdict.kind is VerdictKind.ACK for _, verdict in out):
            assert self.came[which.root] == set(range(len(which.frames)))

    @invariant()
    def same_rows(self) -> None:
        if not hasattr(self, "ledger"):
            return
        assert len(self.ledger) == len(self.model.rows)
        assert all(root in self.ledger for root in self.model.rows)
        owned = any(row.owner is not None for row in self.model.rows.values())
        early = any(row.owner is None for row in self.model.rows.values())
        assert self.ledger.may_expire == (early or (owned and self.model.timeout_s is not None))


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=examples(150), stateful_step_count=40)


# -- all orders of small trees -----------------------------------------------------------------------------------------


def small_shapes(frames: int) -> list[list[list[int]]]:
    """Every way in which `frames` frames can come from one another, one segment each."""
    return [[[maker] for maker in makers] for makers in product(*(range(child) for child in range(1, frames)))]


def deliver(ledger: Ledger, which: Tree, frame: int, now_s: float = 0.0) -> list[VerdictKind]:
    out: list[tuple[int, Verdict]] = []
    if frame:
        ledger.ack([(which.root, which.frames[frame].xor)], now_s, out)
    else:
        ledger.init(7, which.root, which.frames[0].xor, now_s, out)
    return [verdict.kind for _, verdict in out]


@pytest.mark.parametrize("frames", range(1, 7))
def test_every_order_of_every_small_tree_completes_with_its_last_frame(frames: int) -> None:
    source = ids(frames)
    for shape in small_shapes(frames):
        which = tree(shape, source)
        for order in permutations(range(frames)):
            ledger = Ledger(30.0)
            verdicts = [deliver(ledger, which, frame) for frame in order]
            assert verdicts == [[]] * (frames - 1) + [[VerdictKind.ACK]]
            assert not len(ledger)


@pytest.mark.parametrize("frames", range(2, 6))
def test_one_frame_repeated_anywhere_never_gives_a_false_ack(frames: int) -> None:
    """A repeated INIT changes nothing; a repeated ACK blocks the tree until it expires; neither ends it too soon."""
    source = ids(frames)
    blocked = completed = 0
    for shape in small_shapes(frames):
        which = tree(shape, source)
        for order in permutations(range(frames)):
            for repeated, at in product(range(frames), range(frames + 1)):
                if at <= order.index(repeated):
                    continue  # the same as the other order of the two
                sequence = [*order[:at], repeated, *order[at:]]
                ledger = Ledger(30.0)
                came: set[int] = set()
                acks = 0
                for frame in sequence:
                    came.add(frame)
                    if VerdictKind.ACK in deliver(ledger, which, frame):
                        assert len(came) == frames
                        acks += 1
                if repeated and at < frames:
                    assert acks == 0
                    out: list[tuple[int, Verdict]] = []
                    ledger.expire(30.0, out)
                    assert [verdict.kind for _, verdict in out] == [VerdictKind.EXPIRED]
                    blocked += 1
                else:
                    assert acks == 1
                    completed += 1
    assert blocked > 0 or frames == 2
    assert completed > 0


@pytest.mark.parametrize("frames", range(2, 6))
def test_one_frame_lost_never_gives_a_false_ack_however_the_others_are_repeated(frames: int) -> None:
    source = ids(frames)
    for shape in small_shapes(frames):
        which = tree(shape, source)
        for lost in range(frames):
            others = [frame for frame in range(frames) if frame != lost]
            for times in product((1, 2, 3), repeat=len(others)):
                for order in permutations(others):
                    ledger = Ledger(30.0)
                    for frame in order:
                        for _ in range(times[others.index(frame)]):
                            assert VerdictKind.ACK not in deliver(ledger, which, frame)


@given(shape=shapes(), seed=st.integers(0, 2**32), data=st.data())
def test_an_ack_that_comes_an_odd_number_of_times_counts_once(
    shape: list[list[int]], seed: int, data: st.DataObject
) -> None:
    which = tree(shape, ids(seed))
    times = [data.draw(st.sampled_from([1, 1, 3, 5])) for _ in which.frames]
    sequence = data.draw(st.permutations([frame for frame, n in enumerate(times) for _ in range(n)]))
    ledger = Ledger(None)
    acked_at = None
    for at, frame in enumerate(sequence):
        if VerdictKind.ACK in deliver(ledger, which, frame) and acked_at is None:
            acked_at = at
    assert acked_at is not None
    assert set(sequence[: acked_at + 1]) == set(range(len(which.frames)))


# -- details -----------------------------------------------------------------------------------------------------------


def test_a_repeated_init_is_what_would_have_been_a_false_success() -> None:
    """The reason for rule 5, shown: XORed twice, an INIT leaves zero, which is what a complete tree leaves."""
    which = tree([[0]], ids(1))
    assert which.frames[0].xor ^ which.frames[0].xor == 0
    ledger = Ledger(30.0)
    assert deliver(ledger, which, 0) == []
    assert deliver(ledger, which, 0) == []
    assert deliver(ledger, which, 1) == [VerdictKind.ACK]


def test_a_tree_without_edges_is_complete() -> None:
    ledger = Ledger(30.0)
    assert deliver(ledger, Tree(5, [Frame()]), 0) == [VerdictKind.ACK]
    assert not len(ledger)


def test_failures_before_init_are_remembered_one_per_message_and_come_before_the_ack() -> None:
    which = tree([[0]], ids(2))
    ledger = Ledger(30.0)
    out: list[tuple[int, Verdict]] = []
    for index, failure in ((3, "first"), (3, "second"), (1, "other")):
        ledger.fail(which.root, index, failure, 0.0, out)
    ledger.ack([(which.root, which.frames[1].xor)], 0.0, out)
    assert out == []
    ledger.init(7, which.root, which.frames[0].xor, 0.0, out)
    assert as_delivered(out) == [
        (7, VerdictKind.FAIL, which.root, 3, "first"),
        (7, VerdictKind.FAIL, which.root, 1, "other"),
        (7, VerdictKind.ACK, which.root, -1, {3: "first", 1: "other"}),
    ]


def test_edges_after_the_verdict_expire_without_another_verdict() -> None:
    which = tree([[0], [1]], ids(3))
    ledger = Ledger(30.0)
    out: list[tuple[int, Verdict]] = []
    deliver(ledger, which, 0)
    ledger.expire(30.0, out)
    assert [verdict.kind for _, verdict in out] == [VerdictKind.EXPIRED]
    out.clear()
    for frame in (1, 2):
        assert deliver(ledger, which, frame, 31.0) == []
    ledger.fail(which.root, 0, "late", 31.0, out)
    ledger.reset(which.root, 50.0, out)
    assert which.root in ledger
    ledger.expire(60.9, out)
    assert which.root in ledger
    ledger.expire(61.0, out)
    assert out == []
    assert not len(ledger)


def test_early_rows_end_also_where_trees_do_not() -> None:
    """An acker that was restarted receives frames of trees whose INIT will never come."""
    which, lost = tree([[0]], ids(4)), tree([[0]], ids(5))
    ledger = Ledger(None)
    assert not ledger.may_expire
    deliver(ledger, which, 0)
    assert not ledger.may_expire
    deliver(ledger, lost, 1)
    assert ledger.may_expire
    ledger.expire(1e9, [])
    assert lost.root not in ledger
    assert deliver(ledger, which, 1, 1e9) == [VerdictKind.ACK]


def test_the_clock_runs_from_the_init_or_the_last_reset() -> None:
    slow, reset, plain = (tree([[0], [0]], ids(seed)) for seed in (6, 7, 8))
    ledger = Ledger(10.0)
    out: list[tuple[int, Verdict]] = []
    deliver(ledger, slow, 1, 0.0)  # an early row at first
    deliver(ledger, reset, 0, 1.0)
    deliver(ledger, plain, 0, 2.0)
    deliver(ledger, slow, 0, 5.0)
    ledger.reset(reset.root, 6.0, out)
    ended = {}
    for now_s in range(20):
        out.clear()
        ledger.expire(float(now_s), out)
        ended.update({verdict.root: now_s for _, verdict in out})
    assert ended == {plain.root: 12, slow.root: 15, reset.root: 16}


def test_the_repr_of_a_verdict() -> None:
    assert repr(Verdict(VerdictKind.FAIL, 255, 3, "bad")) == "Verdict(FAIL, 0xff, index=3, 'bad')"
    assert repr(Verdict(VerdictKind.ACK, 255)) == "Verdict(ACK, 0xff)"


def test_a_row_is_constant_size_however_large_the_tree() -> None:
    import sys

    source = ids(9)
    ledger = Ledger(30.0)
    root = new_id(source)
    edges = [new_id(source) for _ in range(5000)]
    folded = 0
    for edge in edges:
        folded ^= edge
    out: list[tuple[int, Verdict]] = []
    ledger.init(0, root, folded, 0.0, out)
    for edge in edges[:-1]:
        ledger.ack([(root, edge)], 0.0, out)
    row = ledger._rows[root]
    assert sys.getsizeof(row) + sys.getsizeof(row.xor) <= 120
    assert len(ledger) == 1
    ledger.ack([(root, edges[-1])], 0.0, out)
    assert [verdict.kind for _, verdict in out] == [VerdictKind.ACK]
