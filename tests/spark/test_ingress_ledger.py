"""The ingress ledger: whatever writers do, a chunk is emitted once at a time, and all its writers get the outcome."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiostorm.spark.datasource.ingress_ledger import ActionKind, ChunkOffer, IngressLedger, LedgerAction

from ..tries import examples

MAX_BYTES = 100
RETRIES = 1


def asked(
    chunk: str = "w/0/0", *, digest: bytes = b"a", size: int = 10, stream: str = "", batch: int = -1
) -> ChunkOffer:
    return ChunkOffer(stream, batch, chunk, digest, size)


def kinds(actions: list[LedgerAction]) -> list[tuple[ActionKind, object, int]]:
    return [(step.kind, step.writer, step.seq) for step in actions]


def flown(ledger: IngressLedger, chunk: str = "w/0/0", writer: str = "a", seq: int = 1) -> None:
    assert kinds(ledger.offer(writer, seq, asked(chunk))) == [(ActionKind.SEND, writer, seq)]
    ledger.arrived(writer, seq, chunk)


def test_a_chunk_comes_flies_and_is_done() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    flown(ledger)
    assert ledger.held_bytes == 10
    assert kinds(ledger.acked("w/0/0")) == [(ActionKind.DONE, "a", 1)]
    assert ledger.held_bytes == ledger.under_way == 0


def test_a_second_attempt_joins_the_first() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    flown(ledger)
    assert ledger.offer("b", 7, asked()) == []
    assert kinds(ledger.acked("w/0/0")) == [(ActionKind.DONE, "a", 1), (ActionKind.DONE, "b", 7)]
    assert kinds(ledger.offer("c", 1, asked())) == [(ActionKind.DONE, "c", 1)]
    assert ledger.duplicates == 2


def test_a_writer_that_goes_before_its_data_came_leaves_it_to_the_next() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    ledger.offer("a", 1, asked())
    assert ledger.offer("b", 1, asked()) == []
    assert kinds(ledger.writer_lost("a")) == [(ActionKind.SEND, "b", 1)]
    assert ledger.writer_lost("b") == []
    assert ledger.under_way == ledger.held_bytes == 0


def test_chunks_beyond_the_limit_wait_in_order() -> None:
    ledger = IngressLedger(max_bytes=15, retries=0)
    flown(ledger)
    assert ledger.offer("b", 1, asked("w/1/0")) == []
    assert ledger.offer("c", 1, asked("w/2/0", size=1)) == []  # it would fit, but is behind the other
    assert kinds(ledger.acked("w/0/0")) == [
        (ActionKind.DONE, "a", 1),
        (ActionKind.SEND, "b", 1),
        (ActionKind.SEND, "c", 1),
    ]


def test_a_chunk_larger_than_the_limit_goes_alone() -> None:
    ledger = IngressLedger(max_bytes=5, retries=0)
    flown(ledger)


def test_other_contents_under_one_identity_are_refused() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    flown(ledger)
    [step] = ledger.offer("b", 1, asked(digest=b"b"))
    assert step.kind is ActionKind.FAILED
    assert "sort" in step.error
    ledger.acked("w/0/0")
    assert ledger.offer("b", 2, asked(digest=b"b"))[0].kind is ActionKind.FAILED


def test_a_failed_batch_is_retried_and_then_reported() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=1)
    flown(ledger)
    assert kinds(ledger.failed("w/0/0", "no")) == [(ActionKind.AGAIN, None, 0)]
    [step] = ledger.failed("w/0/0", "no")
    assert (step.kind, step.writer, step.error) == (ActionKind.FAILED, "a", "no (2 times)")
    flown(ledger, writer="b")  # the next attempt of Spark's task begins afresh


def test_a_batch_that_was_committed_is_done_when_it_comes_again() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0, remembered=1)
    ledger.committed("query", 3)
    ledger.committed("query", 2)
    [step] = ledger.offer("a", 1, asked("q/b3/0/0", stream="query", batch=3))
    assert step.kind is ActionKind.DONE
    assert ledger.offer("a", 2, asked("q/b4/0/0", stream="query", batch=4))[0].kind is ActionKind.SEND
    assert ledger.offer("a", 3, asked("q/b3/0/0", stream="another", batch=3))[0].kind is ActionKind.SEND


def test_only_the_writer_that_was_asked_sends_data() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    ledger.offer("a", 1, asked())
    ledger.offer("b", 1, asked())
    with pytest.raises(KeyError):
        ledger.arrived("b", 1, "w/0/0")


def test_verdicts_on_what_is_not_known_change_nothing() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    assert ledger.acked("w/0/0") == ledger.failed("w/0/0", "no") == []
    ledger.offer("a", 1, asked())
    assert ledger.acked("w/0/0") == []


class AnyOrder(RuleBasedStateMachine):
    """Writers come and go, trees are acked and fail, in any order."""

    CHUNKS = tuple(f"w/{n}/0" for n in range(5))

    def __init__(self) -> None:
        super().__init__()
        self.ledger = IngressLedger(max_bytes=25, retries=RETRIES)
        self.seq = 0
        self.waits: dict[tuple[str, int], str] = {}  # offers without an answer
        self.asked_for: dict[tuple[str, int], str] = {}
        self.flying: Counter[str] = Counter()
        self.done: set[str] = set()

    def take(self, actions: list[LedgerAction]) -> None:
        for step in actions:
            if step.kind is ActionKind.AGAIN:
                self.flying[step.chunk] += 1
                continue
            offer = (str(step.writer), step.seq)
            assert self.waits[offer] == step.chunk
            if step.kind is ActionKind.SEND:
                self.asked_for[offer] = step.chunk
                continue
            del self.waits[offer]
            if step.kind is ActionKind.DONE:
                assert step.chunk in self.done

    @rule(writer=st.sampled_from("abc"), chunk=st.sampled_from(CHUNKS))
    def offer(self, writer: str, chunk: str) -> None:
        self.seq += 1
        self.waits[writer, self.seq] = chunk
        self.take(self.ledger.offer(writer, self.seq, asked(chunk)))

    @precondition(lambda self: self.asked_for)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        offer = data.draw(st.sampled_from(sorted(self.asked_for)))
        chunk = self.asked_for.pop(offer)
        self.ledger.arrived(*offer, chunk)
        self.flying[chunk] += 1

    @precondition(lambda self: +self.flying)
    @rule(data=st.data(), fails=st.booleans())
    def verdict(self, data: st.DataObject, fails: bool) -> None:
        chunk = data.draw(st.sampled_from(sorted(+self.flying)))
        self.flying[chunk] -= 1
        if fails:
            self.take(self.ledger.failed(chunk, "no"))
        else:
            self.done.add(chunk)
            self.take(self.ledger.acked(chunk))

    @rule(writer=st.sampled_from("abc"))
    def goes(self, writer: str) -> None:
        self.waits = {offer: chunk for offer, chunk in self.waits.items() if offer[0] != writer}
        self.asked_for = {offer: chunk for offer, chunk in self.asked_for.items() if offer[0] != writer}
        self.take(self.ledger.writer_lost(writer))

    @invariant()
    def a_chunk_flies_once(self) -> None:
        assert all(count <= 1 for count in self.flying.values())
        assert len(set(self.asked_for.values())) == len(self.asked_for)
        assert not set(self.asked_for.values()) & set(+self.flying)

    @invariant()
    def memory_is_bounded_and_nothing_is_forgotten(self) -> None:
        held = len(self.asked_for) + len(+self.flying)
        assert self.ledger.held_bytes == 10 * held <= 25
        assert self.ledger.under_way == len({*self.waits.values(), *(+self.flying)})
        if self.waits:  # an offer waits: then a chunk is under way whose end grants it
            assert held


AnyOrder.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase


def test_a_chunk_that_was_sent_is_processed_without_its_writer() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    flown(ledger)
    assert ledger.writer_lost("a") == []
    assert (ledger.under_way, ledger.held_bytes) == (1, 10)
    assert ledger.acked("w/0/0") == []
    assert kinds(ledger.offer("b", 1, asked())) == [(ActionKind.DONE, "b", 1)]


def test_a_writer_that_only_waits_changes_nothing_when_it_is_lost() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=0)
    assert kinds(ledger.offer("a", 1, asked())) == [(ActionKind.SEND, "a", 1)]
    assert ledger.offer("b", 1, asked()) == []
    assert ledger.writer_lost("b") == []
    ledger.arrived("a", 1, "w/0/0")
    assert kinds(ledger.acked("w/0/0")) == [(ActionKind.DONE, "a", 1)]


def test_only_a_chunk_that_was_emitted_can_fail() -> None:
    ledger = IngressLedger(max_bytes=MAX_BYTES, retries=1)
    ledger.offer("a", 1, asked())
    assert (ledger.failed("w/0/0", "no"), ledger.failed("other", "no"), ledger.acked("w/0/0")) == ([], [], [])
    ledger.arrived("a", 1, "w/0/0")
    assert [step.kind for step in ledger.failed("w/0/0", "no")] == [ActionKind.AGAIN], "it is the first failure"
