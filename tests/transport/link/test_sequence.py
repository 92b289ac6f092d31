"""LinkSequence over connections that break anywhere: what was promised, and the steps of handshake and replay."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from aiostorm.transport import (
    MAX_FRAME_BYTES,
    MAX_PAYLOAD_BYTES,
    FrameTooLargeError,
    LinkSequence,
    PeerStarted,
    ProtocolError,
    SequenceLimits,
)
from aiostorm.transport.link.headers import LinkAck, LinkData, LinkHello, LinkRefused, decode, epoch_of

from ...tries import examples
from .ends import SMALL, World

sides = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("offer"), sides),
    st.tuples(st.just("send"), sides, st.integers(1, 6)),
    st.tuples(st.just("deliver"), sides, st.integers(1, 6)),
    st.tuples(st.just("heartbeat"), sides),
)
breaks = st.one_of(
    st.tuples(st.just("reconnect")),
    st.tuples(st.just("cut"), sides),
    st.tuples(st.just("restart"), sides),
)


def all_arrived(world: World) -> None:
    one, two = world.ends
    for sender, receiver in ((one, two), (two, one)):
        pair = (sender.incarnation, receiver.incarnation)
        assert world.delivered[pair] == world.offered[pair]


@settings(max_examples=examples(300))
@given(script=st.lists(steps | breaks, max_size=120))
def test_connections_that_break_anywhere_lose_and_repeat_no_frame(script: list[tuple[Any, ...]]) -> None:
    world = World()
    world.reconnect()
    for name, *arguments in script:
        getattr(world, name)(*arguments)
    event(f"healed in {min(world.heal(), 10)} steps")
    all_arrived(world)


@settings(max_examples=examples(100))
@given(script=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=60), frames=st.integers(1, 12))
def test_a_flow_in_one_direction_is_never_stuck(script: list[tuple[int, int]], frames: int) -> None:
    """Without heartbeats: the sender asks for acknowledgements before its buffer is full."""
    world = World(SequenceLimits(max_frames=frames, max_bytes=10 * frames))
    world.reconnect()
    world.exchange()
    for sent, arrived in script:
        for _ in range(3):
            world.offer(0)
        world.send(0, sent)
        world.deliver(1, arrived)
        world.send(1, 9)
        world.deliver(0, 9)
    world.exchange()
    before = len(world.offered[world.ends[0].incarnation, world.ends[1].incarnation])
    for _ in range(3 * frames):
        world.offer(0)
        world.exchange()
    after = world.offered[world.ends[0].incarnation, world.ends[1].incarnation]
    assert len(after) >= before + 2 * frames, "each time the buffer is full, an answer makes it free"
    all_arrived(world)


@settings(max_examples=examples(50))
@given(seed=st.integers(0, 2**32))
def test_a_long_stream_over_many_connections(seed: int) -> None:
    """Long enough to meet what few steps do not: full buffers, replays of replays, reconnects under load."""
    random = Random(seed)
    world = World()
    world.reconnect()
    for _ in range(400):
        for side in (0, 1):
            world.offer(side)
            world.send(side, random.randrange(4))
            world.deliver(side, random.randrange(5))
        world.now_s += random.choice([0.001, 0.01, 0.1])
        if random.random() < 0.05:
            world.reconnect()
        if random.random() < 0.005:
            world.restart(random.randrange(2))
            world.reconnect()
    world.heal()
    all_arrived(world)


# -- the handshake -----------------------------------------------------------------------------------------------------


def linked(limits: SequenceLimits = SMALL) -> World:
    world = World(limits)
    world.heal()
    return world


def kinds(frames: Any) -> list[type]:
    return [type(decode(frame)) for frame in frames]


def test_a_handshake_takes_a_round_trip() -> None:
    world = World()
    world.ends[0].connect()
    world.offer(0)
    world.send(0, 9)
    assert kinds(world.in_flight[1]) == [LinkHello], "no data before the peer is known"
    world.ends[1].connect()
    world.deliver(1)
    world.send(1, 9)
    assert kinds(world.in_flight[0]) == [LinkHello]
    world.deliver(0)
    assert world.ends[0].established
    assert not world.ends[1].established
    world.send(0, 9)
    assert kinds(world.in_flight[1]) == [LinkHello, LinkData]
    world.deliver(1, 2)
    assert world.ends[1].established
    assert list(world.delivered.values()) == [[b"0"]]
    world.send(1, 9)
    assert kinds(world.in_flight[0]) == [LinkAck], "a buffer of 4 frames asks at each"
    world.deliver(0)
    assert world.ends[0].unacked_frames == 0
    assert [end.next_frame() for end in world.ends] == [None, None]


def test_a_hello_is_sent_once() -> None:
    end = LinkSequence(1)
    assert end.next_frame() is None
    end.connect()
    assert end.next_frame() is not None
    assert end.next_frame() is None
    end.connect()
    assert end.next_frame() is not None


def test_a_new_incarnation_starts_afresh_and_frames_of_the_old_one_are_refused() -> None:
    world = linked()
    one, old = world.ends
    for _ in range(3):
        world.offer(0)
        world.offer(1)
    world.send(0, 9)
    world.send(1, 9)
    late = world.in_flight[0].popleft()
    world.restart(1)
    world.heal()
    new = world.ends[1]
    assert world.started[-2:] == [PeerStarted(new.incarnation, 3, b""), PeerStarted(one.incarnation, 0, b"")]
    assert world.offered[one.incarnation, new.incarnation] == []
    with pytest.raises(ProtocolError, match="another incarnation"):
        one.receive(late, world.now_s)
    assert old.incarnation != new.incarnation


def test_an_ack_of_another_incarnation_releases_nothing() -> None:
    world = linked()
    one, two = world.ends
    world.offer(0)
    world.send(0, 9)
    with pytest.raises(ProtocolError, match="another incarnation"):
        one.receive(LinkAck(epoch_of(two.incarnation + 1, one.incarnation), 1).encode(), world.now_s)
    assert one.unacked_frames == 1


def test_frames_before_the_handshake_are_refused() -> None:
    world = linked()
    one, two = world.ends
    one.connect()
    for frame in (LinkAck(epoch_of(two.incarnation, one.incarnation), 0), LinkData(-1 % 2**64, 0, 0, b"")):
        with pytest.raises(ProtocolError, match="before the handshake"):
            one.receive(frame.encode(), world.now_s)


def test_a_replaced_incarnation_is_refused() -> None:
    world = linked()
    one, old = world.ends
    world.restart(1)
    world.heal()
    world.ends[1] = old  # it was cut off, not dead
    world.reconnect()
    world.send(1, 9)
    world.deliver(0)
    world.send(0, 1)
    assert decode(world.in_flight[1][0]) == LinkRefused(old.incarnation, 2)
    world.exchange()
    assert old.superseded
    assert not one.superseded
    old.connect()
    assert old.next_frame() is None


def test_a_refusal_is_for_one_incarnation_only() -> None:
    world = linked()
    _, old = world.ends
    world.restart(1)
    world.heal()
    old.connect()
    world.arrive(0, old.next_frame() or b"")
    refusal = world.ends[0].next_frame() or b""
    assert isinstance(decode(refusal), LinkRefused)
    world.arrive(1, refusal)
    assert not world.ends[1].superseded


def test_an_answer_to_an_earlier_attempt_is_not_believed() -> None:
    world = World()
    world.reconnect()
    world.send(0, 1)
    world.deliver(1)
    dead = world.ends[1]
    late = dead.next_frame() or b""
    assert decode(late) == LinkHello(dead.incarnation, 1, world.ends[0].incarnation, 1)
    world.restart(1)
    world.heal()
    world.reconnect()
    world.arrive(0, late)
    assert not world.ends[0].established
    assert world.heal() < 5


def test_a_hello_of_a_dead_process_changes_nothing() -> None:
    """Its connection was accepted late: the process that sent it has died since."""
    world = World()
    one, dead = world.ends
    dead.connect()
    late = dead.next_frame() or b""
    world.restart(1)
    world.heal()
    living = world.ends[1]
    world.reconnect()
    assert list(one.receive(late, world.now_s)) == []
    assert one.peer == living.incarnation
    assert world.heal() < 5


def test_another_name_is_refused() -> None:
    end = LinkSequence(1, expected_greeting=b"b")
    end.connect()
    end.receive(LinkHello(2, 1, greeting=b"b").encode(), 0.0)
    with pytest.raises(ProtocolError, match="another process answers in the place of b: b'c'"):
        end.receive(LinkHello(2, 1, greeting=b"c").encode(), 0.0)


# -- acknowledgements and replay ---------------------------------------------------------------------------------------


def test_after_a_reconnect_only_what_is_missing_is_sent_again() -> None:
    world = linked()
    for _ in range(4):
        world.offer(0)
    world.send(0, 9)
    world.deliver(1, 2)
    world.reconnect()  # two frames and all acks were lost with the connection
    world.send(0, 9)
    world.deliver(1)
    world.send(1, 9)
    world.deliver(0, 9)
    world.send(0, 9)
    assert [decode(frame).sequence for frame in list(world.in_flight[1])[1:]] == [2, 3]  # type: ignore[union-attr]


def test_a_frame_that_has_arrived_before_is_dropped_at_the_begin_of_a_replay_only() -> None:
    world = linked()
    one, two = world.ends
    for _ in range(3):
        world.offer(0)
    world.send(0, 2)
    world.deliver(1, 2)
    world.reconnect()
    world.exchange()
    epoch = epoch_of(one.incarnation, two.incarnation)
    assert world.delivered[one.incarnation, two.incarnation] == [b"0", b"1", b"2"]
    with pytest.raises(ProtocolError, match="frame 1 has arrived; the next one is 3"):
        two.receive(LinkData(epoch, 1, 0, b"1").encode(), world.now_s)
    world.reconnect()
    world.exchange()
    assert list(two.receive(LinkData(epoch, 1, 0, b"1").encode(), world.now_s)) == []
    assert list(two.receive(LinkData(epoch, 3, 0, b"3").encode(), world.now_s)) == [b"3"]
    with pytest.raises(ProtocolError, match="frame 2 has arrived; the next one is 4"):
        two.receive(LinkData(epoch, 2, 0, b"2").encode(), world.now_s)


def test_a_gap_is_an_error() -> None:
    world = linked()
    one, two = world.ends
    with pytest.raises(ProtocolError, match="frame 1 has arrived; the next one is 0"):
        two.receive(LinkData(epoch_of(one.incarnation, two.incarnation), 1, 0, b"1").encode(), world.now_s)


def test_a_sender_asks_at_each_quarter_of_its_buffer_and_every_payload_acknowledges() -> None:
    world = linked(SequenceLimits(max_frames=40, max_bytes=1000))
    for _ in range(25):
        world.offer(0)
    world.send(0, 99)
    asked = [decode(frame).asks for frame in world.in_flight[1]]  # type: ignore[union-attr]
    assert [number for number, asks in enumerate(asked) if asks] == [9, 19]
    world.deliver(1, 99)
    world.send(1, 99)
    assert kinds(world.in_flight[0]) == [LinkAck], "one answer for both"
    world.deliver(0, 99)
    assert world.ends[0].unacked_frames == 0
    world.offer(0)
    world.send(0, 1)
    world.deliver(1)
    assert world.ends[1].next_frame() is None, "the sender did not ask"
    world.offer(1)
    world.send(1, 9)
    world.deliver(0, 9)
    assert world.ends[0].unacked_frames == 0


def test_large_frames_are_asked_for_by_their_bytes() -> None:
    world = linked(SequenceLimits(max_frames=1000, max_bytes=1000))
    end = world.ends[0]
    for size in (100, 100, 100, 500):
        assert end.offer(bytes(size))
    asked = [decode(end.next_frame() or b"").asks for _ in range(4)]  # type: ignore[union-attr]
    assert asked == [False, False, True, True]


def test_a_payload_that_does_not_fit_makes_the_sender_ask() -> None:
    world = linked(SequenceLimits(max_frames=1000, max_bytes=1000))
    one = world.ends[0]
    assert one.offer(bytes(200))
    world.in_flight[1].append(one.next_frame() or b"")
    assert not one.offer(bytes(900))
    question = one.next_frame() or b""
    assert decode(question) == LinkAck(epoch_of(one.incarnation, one.peer), 0, asks=True)
    assert not one.offer(bytes(900))
    assert one.next_frame() is None, "one question is enough"
    list(world.ends[1].receive(world.in_flight[1].popleft(), world.now_s))
    list(world.ends[1].receive(question, world.now_s))
    answer = decode(world.ends[1].next_frame() or b"")
    assert isinstance(answer, LinkAck)
    assert not answer.asks, "an answer asks nothing"
    list(one.receive(answer.encode(), world.now_s))
    assert one.frame_due, "something waited for capacity"
    assert one.offer(bytes(900))


def test_a_heartbeat_is_an_ack() -> None:
    world = linked()
    end = world.ends[0]
    assert end.next_frame() is None
    end.ack_due = True
    assert isinstance(decode(end.next_frame() or b""), LinkAck)
    assert end.next_frame() is None


def test_a_peer_that_lies_is_not_believed() -> None:
    world = linked()
    one, two = world.ends
    epoch = epoch_of(two.incarnation, one.incarnation)
    with pytest.raises(ProtocolError, match="acknowledges 1 frames: 0 were acknowledged before, and 0 were sent"):
        one.receive(LinkAck(epoch, 1).encode(), world.now_s)
    world.offer(0)
    with pytest.raises(ProtocolError, match="acknowledges 1 frames"):
        one.receive(LinkAck(epoch, 1).encode(), world.now_s)
    world.exchange()
    world.heartbeat(1)
    world.exchange()
    with pytest.raises(ProtocolError, match="acknowledges 0 frames: 1 were"):
        one.receive(LinkAck(epoch, 0).encode(), world.now_s)
    with pytest.raises(ProtocolError, match="our own incarnation"):
        one.receive(LinkHello(one.incarnation, 1).encode(), world.now_s)
    for expected in (0, 5):
        one.connect()
        attempt = decode(one.next_frame() or b"").attempt  # type: ignore[union-attr]
        with pytest.raises(ProtocolError, match=f"continue with frame {expected}: there are 1 to 1 here"):
            one.receive(LinkHello(two.incarnation, 9, one.incarnation, attempt, expected).encode(), world.now_s)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_payload_has_a_largest_size() -> None:
    end = LinkSequence(1)
    with pytest.raises(FrameTooLargeError, match="split it"):
        end.offer(bytes(MAX_PAYLOAD_BYTES + 1))
    assert end.offer(bytes(MAX_PAYLOAD_BYTES))
    with pytest.raises(FrameTooLargeError, match="split it"):
        end.offer(bytes(MAX_PAYLOAD_BYTES + 1))
    assert len(LinkData(0, 0, 0, bytes(MAX_PAYLOAD_BYTES)).encode()) == MAX_FRAME_BYTES


def test_a_buffer_is_bounded_and_takes_one_of_any_size() -> None:
    end = LinkSequence(1, limits=SMALL)
    assert end.has_capacity(1_000)
    assert end.offer(bytes(1_000))
    assert not end.has_capacity(0)
    assert not end.offer(b"")
    end = LinkSequence(1, limits=SMALL)
    assert [end.offer(b"x" * 10) for _ in range(5)] == [True] * 4 + [False]


class Payloads:
    """A source of payloads of 10 bytes."""

    is_empty = last_was_urgent = False

    def __init__(self) -> None:
        self.asked = 0

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        self.asked += 1
        return b"%10d" % self.asked


def test_a_source_is_asked_while_there_is_capacity() -> None:
    source = Payloads()
    end = LinkSequence(1, limits=SequenceLimits(max_frames=9, max_bytes=100), source=source)
    end.connect()
    assert end.next_frame() is not None
    assert (end.next_frame(), source.asked) == (None, 0), "not before the peer has answered"
    end.receive(LinkHello(2, 1, 1, 1, 0, True).encode(), 0.0)
    frames = []
    while (frame := end.next_frame()) is not None:
        frames.append(frame)
    assert source.asked == len(frames) == 6
    end.receive(LinkAck(epoch_of(2, 1), 2).encode(), 0.0)
    assert end.frame_due
    assert decode(end.next_frame() or b"").payload == b"%10d" % 7  # type: ignore[union-attr]


@pytest.mark.parametrize("incarnation", [0, -1, 2**64])
def test_an_incarnation_is_a_number_of_64_bits(incarnation: int) -> None:
    with pytest.raises(ValueError, match="an incarnation"):
        LinkSequence(incarnation)


@pytest.mark.parametrize("limits", [{"max_frames": 0}, {"max_bytes": 0}])
def test_limits_that_cannot_work_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="limits of 1"):
        SequenceLimits(**limits)
