"""Frames of a client that are not masked: found at once, however they are cut; and the connection is closed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import Connection, WebSocketNetwork
from aiostorm.transport.net.masking import ClientFrames

Frame = tuple[int, bool]
"""Its size, and whether it is masked."""


def framed(size: int, *, masked: bool) -> bytes:
    bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", 0x82, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x82, bit | 126, size)
    else:
        head = struct.pack("!BBQ", 0x82, bit | 127, size)
    return head + (b"\xff\xff\x00\x00" if masked else b"") + b"\x82\x05" * (size // 2) + b"x" * (size % 2)


frames = st.lists(st.tuples(st.sampled_from((0, 1, 5, 125, 126, 300, 65_535, 70_000)), st.booleans()), max_size=6)


@given(frames=frames, data=st.data())
def test_the_first_that_is_not_masked_is_found(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(framed(size, masked=masked) for size, masked in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    look, good = ClientFrames(), True
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        good = good and look.feed(stream[start:end])
    assert good == all(masked for _, masked in frames)


@pytest.mark.sockets
@pytest.mark.parametrize("masked", [True, False])
async def test_a_client_that_does_not_mask_is_turned_away(masked: bool, caplog: pytest.LogCaptureFixture) -> None:
    came: list[Connection] = []
    async with WebSocketNetwork() as network, asyncio.timeout(20):
        listener = await network.listen("127.0.0.1:0", came.append)
        host, _, port = listener.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        key = base64.b64encode(bytes(16)).decode()
        writer.write(
            f"GET /aiostorm/link HTTP/1.1\r\nHost: {listener.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(framed(5, masked=masked))
        if masked:
            assert len(await came[0].receive()) == 5
        else:
            with contextlib.suppress(ConnectionResetError):  # an end is as good as a reset
                assert not await reader.read()
            assert "sends frames without a mask" in caplog.text
        writer.close()
