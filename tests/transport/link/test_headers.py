"""Headers: a frame says what was meant, and noise says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import LinkSequence, ProtocolError
from aiostorm.transport.link.headers import (
    VERSION,
    LinkAck,
    LinkData,
    LinkFrame,
    LinkHello,
    LinkPulse,
    LinkRefused,
    decode,
    epoch_of,
)
from aiostorm.transport.link.parts import Lane, PayloadPart

longs = st.integers(0, 2**64 - 1)
some = st.integers(1, 2**64 - 1)
ints = st.integers(0, 2**32 - 1)
frames = st.one_of(
    st.builds(LinkHello, some, some, longs, longs, longs, st.booleans(), st.binary(max_size=99)),
    st.builds(LinkData, longs, longs, longs, st.binary(max_size=99), st.booleans()),
    st.builds(
        LinkData,
        longs,
        longs,
        longs,
        st.builds(PayloadPart, st.sampled_from(Lane), ints, ints, st.binary(max_size=99)),
        st.booleans(),
    ),
    st.builds(LinkAck, longs, longs, st.booleans()),
    st.builds(LinkRefused, longs, longs),
    st.builds(LinkPulse, longs, st.text("abc-9", min_size=1, max_size=20), st.binary(max_size=99)),
)


@given(frame=frames)
def test_a_frame_is_decoded_as_it_was_encoded(frame: LinkFrame) -> None:
    assert decode(frame.encode()) == frame


@given(frame=frames, cut=st.integers(1, 40), more=st.binary(max_size=3))
def test_a_part_of_a_frame_is_none(frame: LinkFrame, cut: int, more: bytes) -> None:
    encoded = frame.encode()
    for damaged in (encoded[:-cut], encoded + more):
        try:
            decoded = decode(damaged)
        except ProtocolError:
            continue
        variable = isinstance(decoded, LinkHello | LinkData | LinkPulse)
        assert variable or damaged == encoded, "what has no payload has one length"


@given(noise=st.binary(max_size=60))
def test_noise_is_an_error_or_a_frame_and_nothing_else(noise: bytes) -> None:
    end = LinkSequence(1)
    end.connect()
    try:
        received = end.receive(noise, 0.0)
    except ProtocolError:
        return
    assert list(received) == []


def test_a_pulse_is_refused_on_the_connection_of_a_link() -> None:
    end = LinkSequence(1)
    end.connect()
    with pytest.raises(ProtocolError, match="LinkPulse on the connection of a link"):
        end.receive(LinkPulse(7, "worker-2").encode(), 0.0)


def test_another_version_is_distinguished_from_noise() -> None:
    frame = bytearray(LinkHello(1, 1, greeting=b"worker-2").encode())
    for other in (VERSION - 1, VERSION + 1):
        frame[0] = other
        with pytest.raises(
            ProtocolError, match=f"worker-2 speaks protocol {other}, this process speaks {VERSION}: install"
        ):
            decode(bytes(frame))
    frame = bytearray(LinkAck(1, 1).encode())
    frame[0] = VERSION - 1
    with pytest.raises(ProtocolError, match="the peer speaks protocol"):
        decode(bytes(frame))
    with pytest.raises(ProtocolError, match="at most 4096"):
        decode(LinkHello(1, 1, greeting=bytes(5000)).encode())


@given(mine=some, other=some, another=some)
def test_epochs_distinguish_incarnations(mine: int, other: int, another: int) -> None:
    if other != another:
        assert epoch_of(mine, other) != epoch_of(mine, another)
        assert epoch_of(other, mine) != epoch_of(another, mine)


def test_an_epoch_has_64_bits_and_both_incarnations() -> None:
    assert [epoch_of(1, 2), epoch_of(2, 1), epoch_of(1, 130)] == [5, 7, 133]
    assert epoch_of(2**64 - 1, 2**64 - 1) == 2**64 - 4
    assert epoch_of(2**63, 2**62) == 2**63 + 2**62


def test_a_hello_names_no_peer_unless_one_is_given() -> None:
    assert LinkHello(5, 6) == LinkHello(5, 6, 0, 0, 0, False, b"") == decode(LinkHello(5, 6).encode())


@pytest.mark.parametrize("place", [2, 3, 11], ids=["established", "incarnation", "attempt"])
def test_a_hello_without_an_incarnation_or_an_attempt_is_refused(place: int) -> None:
    frame = bytearray(LinkHello(1, 1, established=True).encode())
    assert decode(bytes(frame)) == LinkHello(1, 1, established=True)
    frame[place : place + (1 if place == 2 else 8)] = b"\2" if place == 2 else bytes(8)
    with pytest.raises(ProtocolError, match="without an incarnation or an attempt"):
        decode(bytes(frame))


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", "a frame of 0 bytes that begins with b'' is no frame of a link"),
        (bytes((VERSION,)), "a frame of 1 bytes .* is no frame of a link"),
        (bytes((VERSION, 0)), "a frame of 2 bytes .* is no frame of a link"),
        (bytes((VERSION - 1, 1)), f"speaks protocol {VERSION - 1}"),
        (LinkHello(1, 1).encode()[:-1], "a HELLO of 42 bytes is cut short"),
        (LinkAck(1, 1).encode()[:-1], "a frame of 17 bytes and kind 3 is too short or too long"),
        (LinkPulse(1, "").encode(), "a PULSE of 10 bytes"),
        (LinkPulse(1, "", b"note").encode(), "a PULSE with a name of 0 bytes, and a note of 4"),
        (LinkPulse(1, "n" * 4087).encode(), "a PULSE with a name of 4087 bytes"),
        (LinkPulse(1, "n").encode() + b"\0", "a PULSE with a name of 1 bytes, and a note of 0"),
        (LinkPulse(1, "n", b"n" * 8181).encode(), "a PULSE of 8193 bytes"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_frame(frame: bytes, error: str) -> None:
    with pytest.raises(ProtocolError, match=error):
        decode(frame)


def test_the_lanes_have_these_numbers() -> None:
    assert {lane.name: lane.value for lane in Lane} == {"URGENT": 0, "ORDINARY": 1}
