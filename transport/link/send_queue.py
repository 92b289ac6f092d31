"""SendQueue: payloads that wait for the link to one peer, in two lanes. The link takes them when it has capacity.

    post(payload), schedule(gatherer) ─► control ─┐
                                                  ├─► next_payload ─► link
    data: ready(gatherer) ─► gatherers in turn ───┘

1. Control goes before all data: it waits only behind what the link has already taken. It also overtakes a large data
   payload that the link sends in parts: between two parts the link asks for urgent payloads.
2. A gatherer is asked when its turn comes, so all that it has gathered meanwhile goes in one payload. Gatherers of data
   take turns, one payload each, so no task's data delays another's. Payloads are bundled up to BUNDLE_BYTES.
3. Nothing is taken while there is no connection. What waits then is kept for the next connection; if the peer is a new
   incarnation, `restarted` drops what was meant for the previous one.
4. Nothing is refused here. Credits bound the data (exchange/credit.py), the number of pending messages bounds control.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..codec.payloads import pack_bundle

BUNDLE_BYTES: Final = 48 * 1024


class Gatherer(Protocol):
    """Gathers what is to be sent until it is asked for a payload."""

    def next_payload(self) -> tuple[bytes | None, bool]:
        """The next payload, if there is one, and whether there are more: if not, it is asked after it was scheduled."""
        ...


class PayloadSource(Protocol):
    """Payloads that wait until a link has capacity."""

    @property
    def is_empty(self) -> bool:
        """Is there nothing to send?"""
        ...

    @property
    def last_was_urgent(self) -> bool:
        """Was part of the last payload urgent? Then no later payload may overtake it."""
        ...

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        """The next payload for the link; None if there is none.

        `urgent`: only a payload that may overtake those returned before that were not urgent.
        """
        ...


def _no_link() -> None:
    """There is no link to wake yet."""


class SendQueue:
    """A PayloadSource for the link to one peer. `wake` is called when there is something for the link."""

    def __init__(self, wake: Callable[[], None] = _no_link) -> None:
        self.wake = wake
        self.last_was_urgent = False
        """Did the last payload contain control?"""
        self.is_empty = True
        """Is there nothing to send? (An attribute: a link asks before each frame.)"""
        self._control: deque[bytes | Gatherer] = deque()
        self._data: deque[Gatherer] = deque()
        self._waiting: set[Gatherer] = set()
        self._deferred: dict[bool, bytes] = {}  # is it control? → a payload that was too large for the last bundle

    def post(self, payload: bytes) -> None:
        """Put a payload into the control lane."""
        self._control.append(payload)
        self.is_empty = False
        self.wake()

    def schedule(self, gatherer: Gatherer) -> None:
        """The gatherer has something for the control lane. A repeated call does nothing."""
        if gatherer not in self._waiting:
            self._waiting.add(gatherer)
            self._control.append(gatherer)
            self.is_empty = False
            self.wake()

    def ready(self, gatherer: Gatherer) -> None:
        """The gatherer has data. A repeated call does nothing."""
        if gatherer not in self._waiting:
            self._waiting.add(gatherer)
            self._data.append(gatherer)
            self.is_empty = False
            self.wake()

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        """The next payload, a bundle if there are several small ones; None if there is none. `urgent`: control only."""
        control, data, deferred = self._control, self._data, self._deferred
        self.last_was_urgent = False
        payloads: list[bytes] = []
        size = 0
        while size < BUNDLE_BYTES:
            payload = self._next(control, True) if control or deferred else None
            is_control = payload is not None
            if payload is None and not urgent and (data or deferred):
                payload = self._next(data, False)
            if payload is None:
                break
            size += len(payload)
            if payloads and size > 2 * BUNDLE_BYTES:
                deferred[is_control] = payload  # a large one goes alone
                break
            payloads.append(payload)
            self.last_was_urgent = self.last_was_urgent or is_control
        self.is_empty = not (control or data or deferred)
        if len(payloads) > 1:
            return pack_bundle(payloads)
        return payloads[0] if payloads else None

    def _next(self, lane: deque[Any], is_control: bool) -> bytes | None:
        if self._deferred and is_control in self._deferred:
            return self._deferred.pop(is_control)
        while lane:
            found = lane.popleft()
            if isinstance(found, bytes):
                return found
            payload: bytes | None
            payload, more = found.next_payload()
            if more:
                lane.append(found)  # the others have their turns first
            else:
                self._waiting.discard(found)
            if payload is not None:
                return payload
        return None

    def restarted(self) -> None:
        """The peer is a new incarnation: drop the payloads that wait for a bundle."""
        self._deferred.clear()
        self.is_empty = not (self._control or self._data)
