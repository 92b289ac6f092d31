"""Lanes against a simple model: what is in, in which order, when the gate is open, which sender is next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiostorm.actors import EMPTY, Lanes, MailboxClosedError
from aiostorm.actors.gate import Gate

from ..tries import examples

Piece = tuple[int, int]  # sender, number


class Sender:
    """Parks with its pieces."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.hand: list[tuple[Piece, int]] = []
        self.parked = False
        self.refusals: list[MailboxClosedError] = []
        self.pulls: list[int] = []

    def next_piece(self) -> tuple[Piece, int] | None:
        return self.hand.pop(0) if self.hand else None

    def has_more(self) -> bool:
        self.parked = bool(self.hand)
        return self.parked

    def refused(self, error: MailboxClosedError) -> None:
        self.parked = False
        self.refusals.append(error)


class LanesMachine(RuleBasedStateMachine):
    """Any sequence of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.senders = [Sender(i) for i in range(4)]
        self.made = [0] * 4
        self.control: list[Any] = []
        self.data: list[tuple[Piece, int]] = []
        self.accepted: list[Piece] = []
        self.taken: list[Piece] = []
        self.was_open = True
        self.forced_over = False
        self.turns: list[int] = []

    @initialize(
        capacity=st.integers(1, 40),
        marks=st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda m: m[0] != m[1]),
    )
    def begin(self, capacity: int, marks: tuple[float, float]) -> None:
        low, high = sorted(marks)
        machine = self

        class Watched(Lanes):
            """Reports every acceptance to the model, as a mailbox wakes its reader."""

            arrivals = 0

            def _arrived(self) -> None:
                Watched.arrivals += 1

            def offer(self, item: Any, weight: int = 1) -> bool:
                taken = super().offer(item, weight)
                if taken:
                    machine.note(item, weight)
                return taken

        Watched.arrivals = 0
        self.kind = Watched
        self.lanes = Watched(capacity, high, low)

    def note(self, piece: Piece, weight: int) -> None:
        self.data.append((piece, weight))
        self.accepted.append(piece)

    def new_piece(self, sender: int) -> Piece:
        self.made[sender] += 1
        return sender, self.made[sender]

    # -- senders -----------------------------------------------------------------------------------------------------

    @rule(index=st.integers(0, 3), weight=st.integers(1, 40))
    def offer(self, index: int, weight: int) -> None:
        weight = min(weight, self.lanes.gate.max_piece)
        if self.senders[index].parked:
            return  # a sender that waits sends nothing else: that is what waiting means
        arrivals, was_open = self.kind.arrivals, self.lanes.gate.is_open
        assert self.lanes.offer(self.new_piece(index), weight) is was_open
        assert self.kind.arrivals == arrivals + was_open

    @rule(weight=st.integers(1, 100))
    def offer_too_much(self, weight: int) -> None:
        assume(weight > self.lanes.gate.capacity - self.lanes.gate.fill and self.lanes.gate.is_open)
        fill = self.lanes.gate.fill
        with pytest.raises(ValueError, match="smaller pieces"):
            self.lanes.offer("boulder", weight)
        assert self.lanes.gate.fill == fill

    @rule(index=st.integers(0, 3), weight=st.integers(1, 60))
    def force(self, index: int, weight: int) -> None:
        if self.senders[index].parked:
            return
        piece = self.new_piece(index)
        closed = self.lanes.closed
        assert self.lanes.force(piece, weight) is not closed
        if not closed:
            self.note(piece, weight)
            self.forced_over |= self.lanes.gate.fill > self.lanes.gate.capacity

    @rule(index=st.integers(0, 3), weights=st.lists(st.integers(1, 20), min_size=1, max_size=4))
    def park(self, index: int, weights: list[int]) -> None:
        sender = self.senders[index]
        if sender.parked:
            return
        sender.hand = [(self.new_piece(index), min(w, self.lanes.gate.max_piece)) for w in weights]
        sender.parked = True
        refusals = len(sender.refusals)
        self.lanes.park(sender)
        assert len(sender.refusals) == refusals + self.lanes.closed

    @rule(index=st.integers(0, 3))
    def unpark(self, index: int) -> None:
        self.lanes.unpark(self.senders[index])
        self.senders[index].parked = False
        self.senders[index].hand = []

    @rule(what=st.integers())
    def post(self, what: int) -> None:
        arrivals = self.kind.arrivals
        self.lanes.post(("control", what))
        self.control.append(("control", what))
        assert self.kind.arrivals == arrivals + 1

    # -- reader ------------------------------------------------------------------------------------------------------

    def expect(self, got: list[Piece]) -> None:
        """Data was taken from the front, in order. (Pieces pulled in meanwhile went to the back.)"""
        assert got == [piece for piece, _ in self.data[: len(got)]]
        del self.data[: len(got)]
        self.taken += got

    @rule()
    def take(self) -> None:
        had_data = bool(self.data)
        got = self.lanes.take()
        if self.control:
            assert got == self.control.pop(0)
        elif had_data:
            self.expect([got])
        else:
            assert got is EMPTY

    @rule()
    def take_control(self) -> None:
        assert self.lanes.take_control() == (self.control.pop(0) if self.control else EMPTY)

    @rule(limit=st.integers(1, 60))
    def take_batch(self, limit: int) -> None:
        weights = [weight for _, weight in self.data]
        got = self.lanes.take_batch(limit)
        assert bool(got) == bool(weights)
        assert sum(weights[: len(got) - 1]) < limit  # the last may go over
        assert len(got) == len(weights) or sum(weights[: len(got)]) >= limit
        self.expect(got)

    @rule(share=st.floats(0, 1))
    def hold(self, share: float) -> None:
        lanes = self.lanes
        limit = max(1, int(share * lanes.gate.capacity))
        lanes.set_limit(limit)
        assert (lanes.gate.limit, lanes.gate.high + lanes.gate.piece) == (limit, limit)
        assert 1 <= lanes.gate.piece <= lanes.gate.max_piece

    @precondition(lambda self: not self.lanes.closed)
    @rule()
    def remove_all(self) -> None:
        before = [*self.control, *(piece for piece, _ in self.data)]
        waited = any(sender.parked for sender in self.senders)
        self.control, self.data = [], []
        assert self.lanes.remove_all() == before
        self.taken += [piece for piece in before if piece[0] != "control"]
        assert not waited or self.data  # every waiting sender was let in

    @rule()
    def close(self) -> None:
        waiting = [sender for sender in self.senders if sender.parked]
        self.lanes.close("closed by the test")
        self.lanes.close("closed again")
        for sender in waiting:
            assert not sender.parked
            assert str(sender.refusals[-1]) == "closed by the test"

    # -- always ------------------------------------------------------------------------------------------------------

    @invariant()
    def fill_is_the_sum(self) -> None:
        if not hasattr(self, "lanes"):
            return
        assert self.lanes.gate.fill == sum(weight for _, weight in self.data)
        assert self.lanes.has_data is bool(self.data)
        assert self.lanes.has_control is bool(self.control)
        if self.lanes.gate.fill <= self.lanes.gate.capacity:
            self.forced_over = False
        assert self.lanes.gate.fill <= self.lanes.gate.capacity or self.forced_over

    @invariant()
    def gate(self) -> None:
        if not hasattr(self, "lanes"):
            return
        lanes = self.lanes
        assert 0 <= lanes.gate.low <= lanes.gate.high < lanes.gate.capacity
        assert lanes.is_high is not lanes.gate.is_open
        if lanes.closed or lanes.gate.fill > lanes.gate.high:
            assert not lanes.gate.is_open
        elif lanes.gate.fill <= lanes.gate.low:
            assert lanes.gate.is_open
        # Between the marks: as it was; pieces that were pulled in may have closed it again, never opened it.

    @invariant()
    def parked_only_while_the_gate_is_closed(self) -> None:
        if not hasattr(self, "lanes"):
            return
        assert self.lanes.parked == sum(sender.parked for sender in self.senders)
        assert not (self.lanes.parked and self.lanes.gate.is_open)
        assert not (self.lanes.parked and self.lanes.closed)

    @invariant()
    def nothing_lost_and_each_sender_in_order(self) -> None:
        inside = [piece for piece, _ in self.data]
        assert self.taken + inside == self.accepted
        for index in range(4):
            numbers = [number for sender, number in self.accepted if sender == index]
            assert numbers == sorted(set(numbers))


TestLanes = LanesMachine.TestCase
TestLanes.settings = settings(max_examples=examples(100), stateful_step_count=40)


@given(
    capacity=st.integers(2, 50),
    hands=st.lists(st.integers(1, 12), min_size=1, max_size=8),
)
def test_parked_senders_are_served_in_turn(capacity: int, hands: list[int]) -> None:
    lanes = Lanes(capacity)
    while lanes.offer(("filler", 0)):
        pass
    senders = [Sender(i) for i in range(len(hands))]
    for sender, count in zip(senders, hands, strict=True):
        sender.hand = [((sender.name, number), 1) for number in range(count)]
        sender.parked = True
        lanes.park(sender)
    served = []
    while (item := lanes.take()) is not EMPTY:
        if item[0] != "filler":
            served.append(item)
    # Round after round, each sender with pieces left delivers one: no sender delivers two while another waits.
    expected = [(index, round_) for round_ in range(max(hands)) for index, count in enumerate(hands) if round_ < count]
    assert served == expected
    assert lanes.parked == 0


@given(capacity=st.integers(1, 200), marks=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_the_gate_closes_above_the_high_mark_and_opens_at_the_low_one(
    capacity: int, marks: tuple[float, float]
) -> None:
    low, high = sorted(marks)
    assume(low < high)
    lanes = Lanes(capacity, high, low)
    accepted = 0
    while lanes.offer("x"):
        accepted += 1
    assert lanes.gate.fill == accepted == lanes.gate.high + 1 <= capacity
    while not lanes.gate.is_open:
        assert lanes.gate.fill > lanes.gate.low
        lanes.take()
    assert lanes.gate.fill == lanes.gate.low
    assert lanes.gate.max_piece >= 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((0,), "at least 1"), ((8, 0.2, 0.8), "marks"), ((8, 0.5, 0.5), "marks"), ((8, 1.5, 0.2), "marks")],
)
def test_impossible_marks(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Lanes(*arguments)


def test_a_lower_limit_accepts_less_and_what_is_in_stays() -> None:
    lanes = Lanes(100)
    sender = Sender(0)
    for n in range(50):
        assert lanes.offer(n)
    lanes.set_limit(10)
    assert (lanes.gate.high, lanes.gate.low, lanes.gate.piece, lanes.gate.max_piece) == (8, 2, 2, 20)
    assert not lanes.offer(50), "it holds more than it should: nothing more comes in"
    sender.hand = [((0, 1), 1)]
    lanes.park(sender)
    assert lanes.take_batch(47) == list(range(47))
    assert sender.hand
    assert lanes.take_batch(1) == [47]
    assert not sender.hand, "at its low mark, which is another one now, it opens"
    assert lanes.gate.closings == 0, "it was held to less: no more came than goes"
    lanes.offer("heavy", 20)
    assert lanes.gate.closings == 1
    assert lanes.gate.fill == 23
    assert not lanes.gate.is_open
    lanes.set_limit(100)
    assert not lanes.gate.is_open, "above the low mark: as ever"
    lanes.take_batch(3)
    assert lanes.gate.is_open


def test_none_is_a_message_and_empty_is_not() -> None:
    lanes = Lanes(4)
    lanes.offer(None)
    assert lanes.take() is None
    assert lanes.take() is EMPTY
    assert repr(EMPTY) == "EMPTY"


def test_messages_posted_after_the_close_go_to_on_late() -> None:
    lanes = Lanes(4)
    late: list[Any] = []
    lanes.on_late = late.append
    lanes.post("too late")
    assert late == ["too late"]
    assert not lanes.has_control


def test_a_sender_without_pieces_is_passed_over() -> None:
    lanes = Lanes(1)
    lanes.offer("first")
    unparked, waits = Sender(1), Sender(2)
    waits.hand = [((2, 1), 1)]
    lanes.park(unparked)
    lanes.park(waits)
    assert lanes.take() == "first"
    assert lanes.take() == (2, 1)
    assert lanes.parked == 0


@given(weights=st.lists(st.integers(1, 12), min_size=1, max_size=12), limit=st.integers(1, 40))
def test_a_batch_ends_when_the_limit_is_reached(weights: list[int], limit: int) -> None:
    """It has the fewest whole messages that reach the limit (only the last may exceed it), or all messages."""
    lanes = Lanes(capacity=1000)
    for weight in weights:
        assert lanes.offer(weight, weight)
    batch = lanes.take_batch(limit)
    assert batch == weights[: len(batch)]
    assert sum(batch) >= limit or batch == weights
    assert sum(batch[:-1]) < limit
    assert lanes.gate.fill == sum(weights[len(batch) :])


def test_the_marks_are_at_80_and_20_percent_unless_they_are_given() -> None:
    for gate in (Gate(100), Lanes(100).gate):
        assert (gate.high, gate.low, gate.max_piece, gate.largest_piece) == (80, 20, 20, 80)


def test_a_higher_limit_opens_the_gate_for_those_who_wait() -> None:
    lanes, sender = Lanes(10), Sender(1)
    lanes.set_limit(2)
    assert lanes.offer("first", 2)
    sender.hand = [((1, 1), 1)]
    lanes.park(sender)
    lanes.set_limit(9)
    assert (lanes.gate.is_open, lanes.parked) == (False, 1), "2 are more than the low mark of 9"
    lanes.set_limit(10)
    assert (lanes.gate.is_open, lanes.parked) == (True, 0)
    assert [lanes.take(), lanes.take(), lanes.take()] == ["first", (1, 1), EMPTY]
