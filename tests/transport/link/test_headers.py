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
    st.builds(LinkPulse, longs, st.text("abc-9", min_size=1, max_size=20)),
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
