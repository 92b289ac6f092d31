"""Parts: whatever is cut, however, wherever it breaks off: what comes out is what went in, and memory is bounded."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from aiostorm.transport import LinkSequence, PeerStarted, ProtocolError, SequenceLimits
from aiostorm.transport.link.headers import LinkData, decode
from aiostorm.transport.link.parts import Lane, PartAssembler, PayloadPart, PayloadSplitter

from ...tries import examples

lanes = st.sampled_from(Lane)
payloads = st.binary(min_size=1, max_size=400)


def put_together(assembler: PartAssembler, parts: list[PayloadPart]) -> list[bytes]:
    return [whole for part in parts if (whole := assembler.add(part)) is not None]


@given(payload=payloads, lane=lanes, sizes=st.lists(st.integers(1, 500), min_size=1))
def test_parts_of_any_sizes_are_assembled_again(payload: bytes, lane: Lane, sizes: list[int]) -> None:
    cutter, assembler, parts = PayloadSplitter(), PartAssembler(len(payload)), []
    cutter.begin(lane, payload)
    for i in range(len(payload)):
        at_most = sizes[i % len(sizes)]
        assert cutter.next_size(at_most) == min(at_most, cutter.size_bytes)
        part = cutter.next_part(at_most)
        if part is None:
            break
        assert len(part) <= at_most
        parts.append(part)
    assert (len(cutter.open), cutter.size_bytes, cutter.next_size(1), cutter.next_part(1)) == (0, 0, 0, None)
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert put_together(assembler, parts) == [payload]
    assert assembler.held_bytes == 0


@given(urgent=payloads, ordinary=payloads, first=st.integers(1, 399), size=st.integers(1, 300))
def test_an_urgent_one_overtakes_and_the_two_are_not_mixed_up(
    urgent: bytes, ordinary: bytes, first: int, size: int
) -> None:
    cutter, assembler, parts = PayloadSplitter(), PartAssembler(400), []
    cutter.begin(Lane.ORDINARY, ordinary)
    if (part := cutter.next_part(first)) is not None:
        parts.append(part)
    if cutter.open:
        assert cutter.may_begin(Lane.URGENT)
        assert not cutter.may_begin(Lane.ORDINARY)
    cutter.begin(Lane.URGENT, urgent)
    assert not cutter.may_begin(Lane.URGENT)
    assert not cutter.may_begin(Lane.ORDINARY), "it would overtake what is urgent"
    while (part := cutter.next_part(size)) is not None:
        parts.append(part)
    expected = [urgent, ordinary] if first < len(ordinary) else [ordinary, urgent]
    assert put_together(assembler, parts) == expected


@given(parts=st.lists(st.builds(PayloadPart, lanes, st.integers(0, 60), st.integers(0, 60), st.binary(max_size=20))))
def test_no_noise_makes_more_be_kept_than_one_payload_of_each_lane(parts: list[PayloadPart]) -> None:
    assembler = PartAssembler(50)
    for part in parts:
        before = assembler.held_bytes
        try:
            whole = assembler.add(part)
        except ProtocolError:
            assert assembler.held_bytes == before, "nothing of it is kept"
            continue
        assert part.total <= 50
        assert whole is None or len(whole) == part.total
        assert assembler.held_bytes <= before + len(part)
        assert assembler.held_bytes < len(Lane) * 50


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (PayloadPart(Lane.ORDINARY, 101, 0, b"x"), "of 101 bytes in parts: at most 100"),
        (PayloadPart(Lane.ORDINARY, 2**32 - 1, 0, b"x"), "at most 100"),
        (PayloadPart(Lane.ORDINARY, 10, 3, b"x"), "not the next part: that begins at 2 of 10"),
        (PayloadPart(Lane.ORDINARY, 10, 1, b"x"), "not the next part"),
        (PayloadPart(Lane.ORDINARY, 10, 0, b"xx"), "not the next part"),
        (PayloadPart(Lane.ORDINARY, 11, 2, b"x"), "not the next part"),
        (PayloadPart(Lane.ORDINARY, 10, 2, b""), "not the next part"),
        (PayloadPart(Lane.ORDINARY, 10, 2, bytes(9)), "not the next part"),
        (PayloadPart(Lane.URGENT, 10, 2, b"x"), "not the next part: that begins at 0 of 10"),
        (PayloadPart(Lane.URGENT, 0, 0, b""), "not the next part"),
    ],
)
def test_a_wrong_next_part_is_refused_before_anything_is_kept(part: PayloadPart, what: str) -> None:
    assembler = PartAssembler(100)
    assembler.add(PayloadPart(Lane.ORDINARY, 10, 0, b"ab"))
    with pytest.raises(ProtocolError, match=what):
        assembler.add(part)
    assert assembler.held_bytes == 2
    assert assembler.add(PayloadPart(Lane.ORDINARY, 10, 2, bytes(8))) == b"ab" + bytes(8)


def test_a_new_sender_and_a_new_receiver_begin_afresh() -> None:
    cutter, assembler = PayloadSplitter(), PartAssembler(100)
    cutter.begin(Lane.ORDINARY, b"abcdef")
    part = cutter.next_part(2)
    assert part is not None
    assembler.add(part)
    assert cutter.restart() == 1
    assembler.restart()
    cutter.begin(Lane.ORDINARY, b"xyz")
    part = cutter.next_part(3)
    assert part is not None
    assert assembler.add(part) == b"xyz"


# -- in a link ---------------------------------------------------------------------------------------------------------


class Ends:
    """Two ends of a link whose line carries so much a second; connections break, and either end may restart."""

    def __init__(self, limits: SequenceLimits) -> None:
        self.limits = limits
        self.now_s = 0.0
        self.incarnations = 0
        self.ends = [self.born(), self.born()]
        self.under_way: list[deque[bytes]] = [deque(), deque()]
        self.offered: dict[tuple[int, int], dict[bool, list[bytes]]] = {}
        self.waiting: list[dict[bool, list[bytes]]] = [{}, {}]
        self.got: dict[tuple[int, int], dict[bool, list[bytes]]] = {}
        self.numbers = 0
        self.parts = 0
        self.connect()

    def born(self) -> LinkSequence:
        self.incarnations += 1
        return LinkSequence(self.incarnations, limits=self.limits)

    def connect(self) -> None:
        """Another connection: what was under way on the one before is lost."""
        self.under_way = [deque(), deque()]
        for end in self.ends:
            end.connect()

    def restart(self, side: int) -> None:
        self.ends[side] = self.born()
        self.waiting[side] = {}
        self.connect()

    def offer(self, side: int, size: int, urgent: bool) -> None:
        self.numbers += 1
        payload = b"%d %d " % (urgent, self.numbers)
        payload += bytes((self.numbers + i) % 251 for i in range(size))
        end = self.ends[side]
        if end.offer(payload, urgent=urgent):
            kept = self.offered.setdefault((end.incarnation, end.peer), {}) if end.peer else self.waiting[side]
            kept.setdefault(urgent, []).append(payload)

    def carry(self, size: int) -> None:
        """So much goes over the line, each way."""
        self.now_s += 0.1
        if self.now_s % 2.0 < 0.1:
            for end in self.ends:
                end.ack_due = end.established  # a heartbeat
        for side in (0, 1):
            left_bytes = size
            while left_bytes > 0:
                frame = self.ends[side].next_frame()
                if frame is None:
                    break
                left_bytes -= len(frame)
                self.under_way[1 - side].append(frame)
            while self.under_way[1 - side]:
                self.come(1 - side, self.under_way[1 - side].popleft())

    def come(self, side: int, frame: bytes) -> None:
        end = self.ends[side]
        data = decode(frame)
        self.parts += isinstance(data, LinkData) and isinstance(data.payload, PayloadPart)
        for received in end.receive(frame, self.now_s):
            if isinstance(received, PeerStarted):
                self.offered[end.incarnation, end.peer] = self.waiting[side]
                self.waiting[side] = {}
            else:
                urgent = received.startswith(b"1")
                got = self.got.setdefault((end.peer, end.incarnation), {}).setdefault(urgent, [])
                got.append(received)
                wanted = self.offered[end.peer, end.incarnation][urgent]
                assert got == wanted[: len(got)], "what was sent, in the order of its lane, once"
        assert end.assembled_bytes <= 2 * LARGEST

    def check(self) -> None:
        one, two = self.ends
        for sender, receiver in ((one, two), (two, one)):
            pair = (sender.incarnation, receiver.incarnation)
            assert self.got.get(pair, {}) == self.offered.get(pair, {})
            assert not sender.unacked_frames
            assert not sender.unacked_bytes
            assert not receiver.assembled_bytes


LARGEST = 120_000
sides = st.integers(0, 1)
happenings = st.one_of(
    st.tuples(st.just("offer"), sides, st.sampled_from([0, 10, 3000, 30_000, LARGEST - 20]), st.booleans()),
    st.tuples(st.just("carry"), st.sampled_from([1, 1000, 5000, 100_000])),
    st.tuples(st.just("connect")),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    script=st.lists(st.one_of(happenings, st.tuples(st.just("restart"), sides)), max_size=60),
    max_frames=st.sampled_from([1, 3, 64]),
    max_bytes=st.sampled_from([20_000, 2_000_000]),
)
def test_a_link_carries_any_sizes_at_any_rate_over_breaking_connections(
    script: list[tuple[Any, ...]], max_frames: int, max_bytes: int
) -> None:
    ends = Ends(SequenceLimits(max_frames=max_frames, max_bytes=max_bytes))
    for name, *arguments in script:
        getattr(ends, name)(*arguments)
    ends.connect()
    for _ in range(2000):
        ends.carry(50_000)
        if not any(end.unacked_frames or not end.established for end in ends.ends):
            break
    ends.check()
    event(f"{min(ends.parts, 20)} parts")


def linked(**limits: Any) -> Ends:
    ends = Ends(SequenceLimits(**limits))
    for _ in range(5):
        ends.carry(1000)
    return ends


def test_a_new_connection_resumes_at_the_first_part_that_has_not_come() -> None:
    ends = linked()
    ends.offer(0, LARGEST - 20, False)
    for _ in range(3):
        ends.carry(1)
    come = ends.ends[1].assembled_bytes
    assert 0 < come < LARGEST
    before = ends.parts
    ends.connect()
    assert ends.ends[1].assembled_bytes == come
    for _ in range(100):
        ends.carry(50_000)
    ends.check()
    assert ends.parts > before > 1


def test_an_urgent_one_goes_between_the_parts_and_an_ordinary_one_does_not() -> None:
    ends = linked()
    end = ends.ends[0]
    ends.offer(0, LARGEST - 20, False)
    ends.carry(1)
    assert not end.offer(b"ordinary")
    ends.offer(0, 10, True)
    assert end.unacked_frames == 2
    for _ in range(3):
        ends.carry(1)
    got = ends.got[end.incarnation, ends.ends[1].incarnation]
    assert list(got) == [True], "the large one is still on its way"
    for _ in range(100):
        ends.carry(50_000)
    ends.check()


def test_payloads_are_counted_and_not_their_parts() -> None:
    ends = linked()
    ends.offer(0, LARGEST - 20, False)
    assert ends.ends[0].unacked_frames == 1
    ends.carry(1)
    ends.carry(1)
    assert ends.ends[0].unacked_frames == 1
    ends.ends[1] = ends.born()
    ends.connect()
    reports: list[Any] = []
    for _ in range(5):
        for side in (0, 1):
            while (frame := ends.ends[side].next_frame()) is not None:
                reports += ends.ends[1 - side].receive(frame, ends.now_s)
    assert [started.dropped for started in reports] == [1, 0]
