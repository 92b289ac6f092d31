"""LinkSequence against a network that does whatever it likes: what was promised, and the steps of a handshake."""

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

from .ends import SMALL, World

sides = st.integers(0, 1)
numbers = st.integers(0, 30)
happenings = st.one_of(
    st.tuples(st.just("offer"), sides),
    st.tuples(st.just("send"), sides, st.integers(1, 6)),
    st.tuples(st.just("deliver"), sides, numbers, st.booleans()),
    st.tuples(st.just("deliver"), sides, st.just(0), st.just(False)),
    st.tuples(st.just("lose"), sides, numbers),
    st.tuples(st.just("pass_time"), st.sampled_from([0.01, 0.2, 0.5, 3.0])),
)
cuts = st.one_of(
    st.tuples(st.just("reconnect")),
    st.tuples(st.just("cut"), sides),
    st.tuples(st.just("restart"), sides),
)


@settings(max_examples=300)
@given(script=st.lists(happenings | cuts, max_size=120))
def test_whatever_the_network_does_nothing_is_lost_twice_or_early(script: list[tuple[Any, ...]]) -> None:
    world = World()
    world.reconnect()
    for name, *arguments in script:
        getattr(world, name)(*arguments)
    steps = world.heal()
    event(f"healed in {min(steps, 10)} steps")
    one, two = world.ends
    for sender, receiver in ((one, two), (two, one)):
        pair = (sender.incarnation, receiver.incarnation)
        assert world.delivered[pair] == world.offered[pair]


@settings(max_examples=100)
@given(script=st.lists(happenings, max_size=80))
def test_what_the_network_loses_is_sent_again_without_a_new_connection(script: list[tuple[Any, ...]]) -> None:
    world = World()
    world.reconnect()
    for name, *arguments in script:
        getattr(world, name)(*arguments)
    world.under_way = [[], []]  # all of it is lost
    world.heal(reconnect=False)
    one, two = world.ends
    for sender, receiver in ((one, two), (two, one)):
        pair = (sender.incarnation, receiver.incarnation)
        assert world.delivered[pair] == world.offered[pair]


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), loss=st.floats(0, 0.3), twice=st.floats(0, 0.5))
def test_a_stream_through_a_bad_network(seed: int, loss: float, twice: float) -> None:
    """Long enough to meet what few steps do not: windows that are full, resends of resends, reconnects under load."""
    random = Random(seed)
    world = World()
    world.reconnect()
    for _ in range(400):
        for side in (0, 1):
            world.offer(side)
            world.send(side, random.randrange(4))
            for _ in range(random.randrange(5)):
                if random.random() < loss:
                    world.lose(side, random.randrange(30))
                world.deliver(side, random.randrange(3), random.random() < twice)
            while len(world.under_way[side]) > 200:
                world.lose(side, random.randrange(200))
        world.pass_time(random.choice([0.001, 0.01, 0.1]))
        if random.random() < 0.01:
            world.reconnect()
        if random.random() < 0.005:
            world.restart(random.randrange(2))
            world.reconnect()
    world.heal()
    one, two = world.ends
    assert world.delivered[one.incarnation, two.incarnation] == world.offered[one.incarnation, two.incarnation]


# -- the steps ---------------------------------------------------------------------------------------------------------


def linked(limits: SequenceLimits = SMALL) -> World:
    world = World(limits)
    world.heal()
    return world


def test_a_handshake_takes_a_round_trip() -> None:
    world = World()
    world.reconnect()
    world.offer(0)
    world.send(0, 9)
    assert [type(decode(frame)) for frame in world.under_way[1]] == [LinkHello], "no data before the peer is known"
    world.deliver(1, 0, False)
    world.send(1, 9)
    assert [type(decode(frame)) for frame in world.under_way[0]] == [LinkHello]
    world.deliver(0, 0, False)
    assert world.ends[0].established
    assert not world.ends[1].established
    world.send(0, 9)
    assert [type(decode(frame)) for frame in world.under_way[1]] == [LinkHello, LinkData]
    world.deliver(1, 0, False)
    world.deliver(1, 0, False)
    assert world.ends[1].established
    assert list(world.delivered.values()) == [[b"0"]]
    assert world.ends[0].next_frame(world.now_s) is None, "the data was an ack, too"
    world.send(1, 9)
    assert [type(decode(frame)) for frame in world.under_way[0]] == [LinkAck]
    world.deliver(0, 0, False)
    assert world.ends[0].unacked_frames == 0
    for end in world.ends:
        assert end.next_frame(world.now_s) is None
        assert end.due_s() == float("inf")


def test_a_hello_is_repeated_until_it_is_answered() -> None:
    world = World()
    end = world.ends[0]
    end.connect(world.now_s)
    assert end.due_s() <= world.now_s
    assert end.next_frame(world.now_s) is not None
    assert end.next_frame(world.now_s) is None
    assert end.due_s() == world.now_s + 0.2
    assert end.next_frame(world.now_s + 0.2) is not None


def test_resending_slows_down_until_a_frame_that_was_sent_once_is_acked() -> None:
    world = linked()
    end = world.ends[0]
    world.offer(0)
    times = []
    for _ in range(6):
        assert end.next_frame(world.now_s) is not None
        assert end.next_frame(world.now_s) is None
        times.append(end.due_s() - world.now_s)
        world.now_s = end.due_s()
    assert times == pytest.approx([0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    for acked in (1, 2):
        world.come(0, LinkAck(epoch_of(end.peer, end.incarnation), acked).encode())
        assert end.due_s() == float("inf")
        world.offer(0)
        assert end.next_frame(world.now_s) is not None
        # The ack of a frame that was sent again says nothing of the time it takes; the next one does.
        assert end.due_s() - world.now_s == pytest.approx({1: 2.0, 2: 0.2}[acked])


def test_a_heartbeat_in_the_buffer_is_no_reason_not_to_send_again() -> None:
    """It goes out just before every fifth resend of 10 s, and the frame that was lost would be lost for good."""
    world = linked()
    end = world.ends[0]
    world.offer(0)
    sent = end.next_frame(world.now_s, resend=True)
    assert end.next_frame(world.now_s + 0.1, resend=False) is None
    assert end.due_s() == world.now_s + 0.2
    assert end.next_frame(world.now_s + 0.2, resend=False) is None, "it may still be in the buffer: as long again"
    assert end.due_s() == pytest.approx(world.now_s + 0.4)
    assert end.next_frame(world.now_s + 0.3, resend=True) is None, "the buffer is empty: it has left"
    end.heartbeat()
    assert end.next_frame(world.now_s + 0.35, resend=True) is not None
    assert end.next_frame(world.now_s + 0.41, resend=False) == sent


def test_a_slow_network_is_waited_for() -> None:
    world = linked()
    end = world.ends[0]
    for number in range(1, 30):
        world.offer(0)
        while end.next_frame(world.now_s) is not None:
            pass
        world.pass_time(0.19 if number < 5 else 1.0)
        world.come(0, LinkAck(epoch_of(end.peer, end.incarnation), number).encode())
    world.offer(0)
    assert end.next_frame(world.now_s) is not None
    assert 1.0 < end.due_s() - world.now_s <= 2.0, "round trips of 1 s: after 0.2 s nothing is wrong"


def test_one_that_came_early_is_not_asked_for_again() -> None:
    world = linked()
    for _ in range(3):
        world.offer(0)
    world.send(0, 9)
    world.lose(1, 0)
    world.deliver(1, 0, False)
    world.deliver(1, 0, False)
    one, two = world.ends
    assert world.delivered[one.incarnation, two.incarnation] == []
    assert two.held_bytes == 2
    world.pass_time(0.2)
    world.send(0, 1)
    world.deliver(1, 0, False)
    assert world.delivered[one.incarnation, two.incarnation] == [b"0", b"1", b"2"]
    assert two.held_bytes == 0


def test_after_a_reconnect_only_what_is_missing_is_sent_again() -> None:
    world = linked()
    for _ in range(4):
        world.offer(0)
    world.send(0, 9)
    world.deliver(1, 0, False)
    world.deliver(1, 0, False)
    world.under_way[:] = [[], []]  # two frames and all acks were lost with the connection
    world.reconnect()
    world.send(0, 9)
    world.deliver(1, 0, False)
    world.send(1, 9)
    world.deliver(0, 0, False)
    world.send(0, 9)
    assert [decode(frame).sequence for frame in world.under_way[1][1:]] == [2, 3]  # type: ignore[union-attr]


def test_a_new_incarnation_starts_afresh_and_frames_of_the_old_one_are_refused() -> None:
    world = linked()
    one, old = world.ends
    for _ in range(3):
        world.offer(0)
        world.offer(1)
    world.send(0, 9)
    world.send(1, 9)
    late = world.under_way[0].pop(0)
    world.under_way[:] = [[], []]
    world.restart(1)
    world.heal()
    new = world.ends[1]
    assert world.started[-2:] == [PeerStarted(new.incarnation, 3, b""), PeerStarted(one.incarnation, 0, b"")]
    assert world.offered[one.incarnation, new.incarnation] == []
    before = one.refused
    assert one.receive(late, world.now_s) == []
    assert one.refused == before + 1
    assert old.incarnation != new.incarnation


def test_a_replaced_incarnation_is_refused() -> None:
    world = linked()
    one, old = world.ends
    world.restart(1)
    world.heal()
    world.ends[1] = old  # it was cut off, not dead
    world.reconnect()
    world.send(1, 9)
    world.deliver(0, 0, False)
    world.send(0, 1)
    assert decode(world.under_way[1][0]) == LinkRefused(old.incarnation, 2)
    world.exchange()
    assert old.superseded
    assert not one.superseded
    assert old.next_frame(world.now_s + 10) is None
    assert old.due_s() == float("inf")


def test_a_refusal_is_for_one_incarnation_only() -> None:
    world = linked()
    _, old = world.ends
    world.restart(1)
    world.heal()
    old.connect(world.now_s)
    world.come(0, old.next_frame(world.now_s) or b"")
    refusal = world.ends[0].next_frame(world.now_s) or b""
    assert isinstance(decode(refusal), LinkRefused)
    world.come(1, refusal)
    assert not world.ends[1].superseded


def test_an_answer_of_the_dead_to_an_earlier_attempt_is_not_believed() -> None:
    world = World()
    world.reconnect()
    world.send(0, 1)
    world.deliver(1, 0, False)
    dead = world.ends[1]
    late = dead.next_frame(world.now_s) or b""
    assert decode(late) == LinkHello(dead.incarnation, 1, world.ends[0].incarnation, 1)
    world.under_way = [[], []]
    world.restart(1)
    world.heal()
    world.reconnect()
    world.come(0, late)
    assert not world.ends[0].established
    assert world.heal() < 5


def test_a_hello_of_the_dead_changes_nothing() -> None:
    world = World()
    one, two = world.ends
    two.connect(world.now_s)
    late = two.next_frame(world.now_s)
    assert late is not None
    world.restart(1)
    world.heal()
    living = world.ends[1]
    world.reconnect()
    assert one.receive(late, world.now_s) == []
    assert one.peer == living.incarnation
    assert world.heal() < 5


def test_a_heartbeat_is_an_ack() -> None:
    world = linked()
    end = world.ends[0]
    assert end.next_frame(world.now_s) is None
    end.heartbeat()
    assert end.due_s() <= world.now_s
    assert isinstance(decode(end.next_frame(world.now_s) or b""), LinkAck)
    assert end.next_frame(world.now_s) is None


def test_a_payload_has_a_largest_size() -> None:
    end = LinkSequence(1)
    with pytest.raises(FrameTooLargeError, match="split it"):
        end.offer(bytes(MAX_PAYLOAD_BYTES + 1))
    assert end.offer(bytes(MAX_PAYLOAD_BYTES))
    assert len(LinkData(0, 0, 0, bytes(MAX_PAYLOAD_BYTES)).encode()) == MAX_FRAME_BYTES


def test_a_window_is_bounded_and_takes_one_of_any_size() -> None:
    end = LinkSequence(1, limits=SMALL)
    assert end.has_room(1_000)
    assert end.offer(bytes(1_000))
    assert not end.has_room(0)
    assert not end.offer(b"")
    end = LinkSequence(1, limits=SMALL)
    assert [end.offer(b"x" * 10) for _ in range(5)] == [True] * 4 + [False]


@pytest.mark.parametrize("incarnation", [0, -1, 2**64])
def test_an_incarnation_is_a_number_of_64_bits(incarnation: int) -> None:
    with pytest.raises(ValueError, match="an incarnation"):
        LinkSequence(incarnation)


@pytest.mark.parametrize(
    "limits", [{"max_frames": 0}, {"max_bytes": 0}, {"resend_s": 0.0}, {"resend_s": 1.0, "max_resend_s": 0.5}]
)
def test_limits_that_cannot_work_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="limits of 1"):
        SequenceLimits(**limits)


def test_a_peer_that_lies_is_not_listened_to() -> None:
    world = linked()
    one, two = world.ends
    with pytest.raises(ProtocolError, match="acks 1 frames, and 0"):
        one.receive(LinkAck(epoch_of(two.incarnation, one.incarnation), 1).encode(), world.now_s)
    with pytest.raises(ProtocolError, match="our own incarnation"):
        one.receive(LinkHello(one.incarnation, 1).encode(), world.now_s)
    one.connect(world.now_s)
    with pytest.raises(ProtocolError, match="acks 5 frames, and 0"):
        one.receive(LinkHello(two.incarnation, 9, one.incarnation, 2, 5).encode(), world.now_s)
