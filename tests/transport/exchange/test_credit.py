"""Credit: what a receiver buffers is bounded for all senders, and none of them waits for ever."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.transport import ReceiverCredit, SenderCredit, split_capacity

from ...tries import examples


class Sender:
    """Sends frames of random weights as long as it may; what is under way both ways keeps its order."""

    def __init__(self, quota: int, chance: random.Random, largest: int) -> None:
        self.sender_credit = SenderCredit()
        self.credit = ReceiverCredit(quota)
        self.chance = chance
        self.largest = largest
        self.frames: list[int] = []
        self.limits: list[int] = []
        self.waiting: list[int] = []  # came, and was not taken
        self.begin()

    def begin(self) -> None:
        self.limits.append(self.credit.next_limit())

    def steps(self) -> list[str]:
        possible = ["send"] if self.sender_credit.has_credit else []
        return possible + ["arrive"] * bool(self.frames) + ["grant"] * bool(self.limits) + ["take"] * bool(self.waiting)

    def step(self, what: str) -> None:
        if what == "send":
            weight = self.chance.randint(1, self.largest)
            self.sender_credit.spend(weight)
            self.frames.append(weight)
        elif what == "arrive":
            weight = self.frames.pop(0)
            self.credit.buffered += weight
            self.waiting.append(weight)
        elif what == "grant":
            self.sender_credit.grant(self.limits.pop(0))
        elif self.credit.accepted(self.waiting.pop(0)):
            self.limits.append(self.credit.next_limit())

    def restart(self) -> None:
        """Either process is a new one: what was under way is lost, what had come is still held."""
        self.frames.clear()
        self.limits.clear()
        self.sender_credit.restart()
        self.credit.restart()
        self.begin()


@given(
    capacity=st.integers(1, 200),
    senders=st.integers(1, 5),
    largest=st.integers(1, 50),
    seed=st.integers(0, 2**32),
    restarts=st.sets(st.integers(0, 300), max_size=3),
)
@settings(max_examples=examples(60))
def test_buffered_tuples_are_bounded_and_all_are_sent(
    capacity: int, senders: int, largest: int, seed: int, restarts: set[int]
) -> None:
    chance = random.Random(seed)
    own, quota = split_capacity(capacity, senders)
    them = [Sender(quota, chance, largest) for _ in range(senders)]
    for number in range(300):
        if number in restarts:
            chance.choice(them).restart()
        steps = [(sender, what) for sender in them for what in sender.steps()]
        assert steps, "all wait for each other"
        sender, what = chance.choice(steps)
        sender.step(what)
        held = [sum(one.waiting) for one in them]
        assert all(weight <= quota - 1 + largest for weight in held)
        assert own + sum(held) <= capacity + senders * largest
        assert [one.credit.buffered for one in them] == held
    for sender in them:  # whatever happened: once all is taken, it may send again
        while sender.frames or sender.waiting or sender.limits:
            sender.step(next(what for what in ("arrive", "take", "grant") if what in sender.steps()))
        assert sender.sender_credit.has_credit


@given(capacity=st.integers(1, 5000), senders=st.integers(0, 60))
def test_shares_are_the_capacity(capacity: int, senders: int) -> None:
    own, quota = split_capacity(capacity, senders)
    assert own >= 1
    assert own + senders * max(0, quota - 1) <= capacity
    assert (quota >= 1) == (senders >= 1)


def test_a_late_or_repeated_limit_changes_nothing() -> None:
    sender_credit = SenderCredit()
    for limit in (5, 9, 5, 9, 0):
        sender_credit.grant(limit)
    assert sender_credit.limit == 9


@pytest.mark.parametrize(
    ("capacity", "senders", "shares"),
    [
        (1024, 0, (1024, 0)),
        (1024, 1, (896, 128)),
        (1024, 4, (896, 32)),
        (1023, 1, (896, 127)),
        (15, 1, (14, 1)),
        (8, 3, (5, 1)),
        (3, 3, (1, 1)),
        (1, 9, (1, 1)),
    ],
)
def test_an_eighth_of_a_mailbox_is_for_the_other_workers(capacity: int, senders: int, shares: tuple[int, int]) -> None:
    assert split_capacity(capacity, senders) == shares


def test_a_limit_is_sent_when_half_a_quota_was_accepted() -> None:
    credit = ReceiverCredit(8)
    assert credit.next_limit() == 8
    credit.buffered += 6
    assert [credit.accepted(weight) for weight in (1, 2, 1, 1)] == [False, False, True, True]
    assert (credit.buffered, credit.next_limit()) == (1, 13)
    assert not credit.accepted(1)
    for quota, worth in ((0, True), (1, True), (2, True), (3, True), (4, False)):
        small = ReceiverCredit(quota)
        assert small.next_limit() == max(1, quota)
        small.buffered += 1
        assert small.accepted(1) is worth


def test_a_limit_that_was_sent_is_not_taken_back() -> None:
    credit = ReceiverCredit(8)
    assert credit.next_limit() == 8
    credit.quota = 2
    credit.buffered += 7
    assert not credit.accepted(6)
    credit.quota = 1
    assert not credit.accepted(1), "the limit would stay the same"
    assert credit.next_limit() == 8
    credit.buffered += 1
    assert credit.accepted(1)
    assert credit.next_limit() == 9


def test_what_is_buffered_of_the_previous_incarnation_counts_against_the_new_one() -> None:
    credit = ReceiverCredit(8)
    credit.next_limit()
    credit.buffered += 3
    credit.accepted(1)
    credit.restart()
    assert (credit.buffered, credit.next_limit()) == (2, 6)
    credit.buffered += 10
    credit.restart()
    assert credit.next_limit() == 0, "there is no limit below 0"
    assert credit.accepted(12)
    assert credit.next_limit() == 8


def test_a_sender_may_send_while_it_is_below_its_limit() -> None:
    credit = SenderCredit()
    assert not credit.has_credit
    credit.grant(3)
    for weight in (2, 5):
        assert credit.has_credit
        credit.spend(weight)
    assert (credit.sent, credit.has_credit) == (7, False)
    credit.grant(8)
    assert credit.has_credit
    credit.restart()
    assert (credit.sent, credit.limit, credit.has_credit) == (0, 0, False)
    credit.grant(1)
    assert credit.has_credit
