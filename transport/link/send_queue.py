"""SendQueue: what waits for a link to one peer: two lanes, of which the link's writer takes when it has room.

    post(payload), urge(source) ─► control ─┐
                                            ├─► next_payload ─► link
    data: ready(source) ─► sources in turn ─┘

1. Control goes first, always: it waits behind what the link has taken, and never behind data that waits. Data that is
   so large that the link cuts it up it overtakes there, too: the link asks for what is urgent between the parts.
2. A source is asked when its turn comes, not before: so what it has gathered meanwhile goes in one payload. Sources of
   data take turns, a payload each: no task's data holds up another's. What is ready goes together, up to BUNDLE_BYTES.
3. Nothing is taken while there is no connection. What waits then is kept for whoever comes back; for a new incarnation
   of the peer, `restarted` drops what was meant for the one before.
4. Nothing is refused here. Data is bounded by credits (exchange/credit.py), control by what is pending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..codec.payloads import pack_bundle

BUNDLE_BYTES: Final = 48 * 1024


class Gatherer(Protocol):
    """Gathers what is to be sent, until it is asked for it."""

    def next_payload(self) -> bytes | None:
        """The next payload; None when there is none for now: then it is asked again only when it is announced again."""
        ...


class PayloadSource(Protocol):
    """Payloads that wait for a link to have room."""

    @property
    def is_empty(self) -> bool:
        """Is there nothing to send?"""
        ...

    @property
    def took_urgent(self) -> bool:
        """Was any of what `next_payload` gave last urgent? Then nothing that it gives later may overtake it."""
        ...

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        """The next one, which the link takes; None if there is none. FrameTooLargeError is for whoever makes them.

        `urgent`: nothing that must not overtake what was given before and was not urgent.
        """
        ...


def _nobody() -> None:
    """No link waits yet."""


class SendQueue:
    """A PayloadSource for the link to one peer. `wake` is called when there is something for the link."""

    def __init__(self, wake: Callable[[], None] = _nobody) -> None:
        self.wake = wake
        self.took_urgent = False
        """Was there anything of the control lane in what `next_payload` gave last?"""
        self._control: deque[bytes | Gatherer] = deque()
        self._data: deque[Gatherer] = deque()
        self._waiting: set[Gatherer] = set()
        self._kept: dict[bool, bytes] = {}  # is it of the control lane? → what was too large for the bundle before

    @property
    def is_empty(self) -> bool:
        """Is there nothing to send?"""
        return not (self._control or self._data or self._kept)

    def post(self, payload: bytes) -> None:
        """A payload for the control lane."""
        self._control.append(payload)
        self.wake()

    def schedule(self, gatherer: Gatherer) -> None:
        """It has something for the control lane. Twice is once."""
        if gatherer not in self._waiting:
            self._waiting.add(gatherer)
            self._control.append(gatherer)
            self.wake()

    def ready(self, gatherer: Gatherer) -> None:
        """It has data. Twice is once."""
        if gatherer not in self._waiting:
            self._waiting.add(gatherer)
            self._data.append(gatherer)
            self.wake()

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        """What goes next, several payloads in one if they are small; None if nothing does. `urgent`: control only."""
        payloads: list[bytes] = []
        size = 0
        self.took_urgent = False
        while size < BUNDLE_BYTES:
            is_control = True
            payload = self._next(self._control, is_control)
            if payload is None and not urgent:
                is_control = False
                payload = self._next(self._data, is_control)
            if payload is None:
                break
            size += len(payload)
            if payloads and size > 2 * BUNDLE_BYTES:
                self._kept[is_control] = payload  # a large one goes alone
                break
            payloads.append(payload)
            self.took_urgent = self.took_urgent or is_control
        return pack_bundle(payloads) if payloads else None

    def _next(self, lane: deque[Any], is_control: bool) -> bytes | None:
        if self._kept and is_control in self._kept:
            return self._kept.pop(is_control)
        while lane:
            found = lane.popleft()
            if isinstance(found, bytes):
                return found
            payload: bytes | None = found.next_payload()
            if payload is not None:
                lane.append(found)  # there may be more: it is its turn again after the others
                return payload
            self._waiting.discard(found)
        return None

    def restarted(self) -> None:
        """The peer is a new incarnation: what was made for the one before, and waits for a bundle, is lost."""
        self._kept.clear()
