"""SendQueue: control first, sources in turn, asked as late as possible."""

from __future__ import annotations

import pytest

from aiostorm.transport import (
    PayloadKind,
    ProtocolError,
    SendQueue,
    pack_payload,
    unpack_all,
    unpack_payload,
    unpack_value,
)
from aiostorm.transport.link.send_queue import BUNDLE_BYTES


class Pile:
    """A gatherer."""

    def __init__(self, *payloads: bytes) -> None:
        self.payloads = list(payloads)

    def next_payload(self) -> tuple[bytes | None, bool]:
        payload = self.payloads.pop(0) if self.payloads else None
        return payload, bool(self.payloads)


def everything(send_queue: SendQueue) -> list[bytes]:
    found: list[bytes] = []
    while (payload := send_queue.next_payload()) is not None:
        found += [bytes(part) for part in parts(payload)]
    return found


def parts(payload: bytes) -> list[bytes]:
    """What is in it: a bundle, or one payload."""
    if payload[0] != PayloadKind.BUNDLE:
        return [payload]
    return list(unpack_value(unpack_payload(payload)[2]))


def test_control_goes_first_and_sources_take_turns() -> None:
    send_queue = SendQueue()
    send_queue.ready(Pile(b"a1", b"a2", b"a3"))
    send_queue.ready(Pile(b"b1"))
    send_queue.post(b"c1")
    send_queue.schedule(Pile(b"u1", b"u2"))
    send_queue.post(b"c2")
    assert everything(send_queue) == [b"c1", b"u1", b"c2", b"u2", b"a1", b"b1", b"a2", b"a3"]
    assert send_queue.is_empty


def test_a_source_that_is_announced_twice_is_asked_once() -> None:
    send_queue, pile = SendQueue(), Pile(b"1")
    for _ in range(3):
        send_queue.ready(pile)
    assert everything(send_queue) == [b"1"]
    pile.payloads = [b"2"]
    send_queue.ready(pile)
    assert everything(send_queue) == [b"2"], "after its last payload it is forgotten, and may be announced again"


def test_control_that_comes_meanwhile_overtakes_data() -> None:
    send_queue = SendQueue()
    send_queue.ready(Pile(b"d1" * 30_000, b"d2"))
    assert send_queue.next_payload() == b"d1" * 30_000
    send_queue.post(b"c")
    assert everything(send_queue) == [b"c", b"d2"]


def test_small_payloads_are_bundled_and_large_ones_are_sent_alone() -> None:
    send_queue = SendQueue()
    for size in (10, 20, 100_000, 30, 40):
        send_queue.post(bytes(size))
    sizes: list[list[int]] = []
    while (payload := send_queue.next_payload()) is not None:
        assert send_queue.is_empty == (len(sizes) == 2)
        sizes.append([len(part) for part in parts(payload)])
    assert sizes == [[10, 20], [100_000], [30, 40]]


@pytest.mark.parametrize(
    "noise", [b"\xc0", b"\x91\x01", b"\x91\xc4\x01\x04", b"\x91\xc4\x05\x05\0\0\0\0", b"\x92\xc4\x05\x04\0\0\0\0"]
)
def test_a_malformed_bundle_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(unpack_all(pack_payload(PayloadKind.BUNDLE, 0, noise)))


def test_the_link_is_woken_for_each_news() -> None:
    woken: list[int] = []
    send_queue = SendQueue(lambda: woken.append(1))
    pile = Pile(b"1")
    send_queue.ready(pile)
    send_queue.ready(pile)
    send_queue.post(b"c")
    assert len(woken) == 2


def test_a_payload_has_its_kind_and_target() -> None:
    kind, target, body = unpack_payload(pack_payload(PayloadKind.SEGMENTS, 70_000, b"body"))
    assert (kind, target, bytes(body)) == (PayloadKind.SEGMENTS, 70_000, b"body")


@pytest.mark.parametrize("noise", [b"", b"\x01\x00", b"\x00\x00\x00\x00\x00", b"\xff\x00\x00\x00\x00x"])
def test_noise_is_no_payload(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        unpack_payload(noise)


def test_a_payload_waiting_for_a_bundle_is_not_sent_to_the_next_incarnation() -> None:
    send_queue = SendQueue()
    pile = Pile(b"\x01small", b"\x01large" + bytes(2 * BUNDLE_BYTES), b"\x01next")
    send_queue.ready(pile)
    assert send_queue.next_payload() == b"\x01small"
    send_queue.restarted()
    assert send_queue.next_payload() == b"\x01next"
    assert send_queue.is_empty


def test_a_bundle_is_closed_at_48_kib() -> None:
    send_queue = SendQueue()
    sizes = (24_576, 24_575, 1, 10, 49_151, 1, 20)
    for size in sizes:
        send_queue.post(bytes(size))
    found = []
    while (payload := send_queue.next_payload()) is not None:
        found.append([len(part) for part in parts(payload)])
    assert found == [[24_576, 24_575, 1], [10, 49_151], [1, 20]]


def test_a_large_payload_of_data_keeps_its_place() -> None:
    send_queue = SendQueue()
    large = b"large" + bytes(2 * BUNDLE_BYTES)
    send_queue.ready(Pile(b"small", large, b"next"))
    assert [send_queue.next_payload(), send_queue.is_empty] == [b"small", False]
    send_queue.post(b"control")
    assert send_queue.next_payload() == b"control", "with a large one it does not fit into a bundle"
    assert everything(send_queue) == [large, b"next"]


def test_a_large_payload_that_was_put_back_is_still_to_be_sent() -> None:
    send_queue = SendQueue()
    assert send_queue.is_empty
    send_queue.post(b"small")
    send_queue.post(bytes(3 * BUNDLE_BYTES))
    assert (send_queue.next_payload(), send_queue.is_empty) == (b"small", False)
    assert (send_queue.next_payload(), send_queue.is_empty) == (bytes(3 * BUNDLE_BYTES), True)


def test_whether_a_payload_was_urgent() -> None:
    send_queue = SendQueue()
    send_queue.ready(Pile(b"data"))
    assert (send_queue.next_payload(), send_queue.last_was_urgent) == (b"data", False)
    send_queue.post(b"control")
    assert (send_queue.next_payload(), send_queue.last_was_urgent) == (b"control", True)
    send_queue.post(b"control")
    send_queue.ready(Pile(b"data"))
    payload = send_queue.next_payload()
    assert payload is not None
    assert (parts(payload), send_queue.last_was_urgent) == ([b"control", b"data"], True)
    assert (send_queue.next_payload(), send_queue.last_was_urgent) == (None, False)


def test_a_gatherer_of_control_that_is_scheduled_twice_is_asked_once() -> None:
    send_queue, woken = SendQueue(), list[int]()
    send_queue.wake = lambda: woken.append(1)
    pile = Pile(b"1")
    for _ in range(3):
        send_queue.schedule(pile)
    assert (len(woken), everything(send_queue)) == (1, [b"1"])
    pile.payloads = [b"2"]
    send_queue.schedule(pile)
    assert (len(woken), everything(send_queue)) == (2, [b"2"])


@pytest.mark.parametrize("lane", ["control", "data", "none"])
def test_what_was_not_asked_for_is_sent_to_the_next_incarnation(lane: str) -> None:
    send_queue = SendQueue()
    if lane == "control":
        send_queue.post(b"1")
    elif lane == "data":
        send_queue.ready(Pile(b"1"))
    send_queue.restarted()
    assert send_queue.is_empty == (lane == "none")
    assert everything(send_queue) == ([] if lane == "none" else [b"1"])
