"""Channel: the near end of the way to one actor of another process.

    tell, ask ─► room in the window? ─ yes ─► outbox ─► send queue
                     └ no ─► wait in line ─► taken (some are in its mailbox) ─► outbox

1. Messages go in the order in which they were given to the channel, those that waited included.
2. Who waits is told: that it was sent, or why not. Who has asked is told: the answer, or why there is none. Nobody who
   has given up (cancelled, out of time) leaves anything behind.
3. A channel ends once: the actor ended, there is none, the peer is lost. Then all that wait and all that have asked are
   told, and whoever watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ...actors import DeathWatch, Ref
from ...runtime import AiostormError
from .flow_control import SenderFlow
from .notes import TELL, ask_note, note


class _IgnoreTermination:
    def post(self, item: Any) -> None:
        """Whoever watches nobody hears nothing."""


IGNORE_TERMINATION: Final = _IgnoreTermination()
"""The Watcher of what is only watched."""


class Channel:
    """To one actor. `send` puts a note into the peer's outbox; `asks` are its questions that have no answer yet."""

    __slots__ = ("_asks", "_ref", "_send", "_waiting", "deathwatch", "error", "number", "over", "window")

    def __init__(
        self,
        number: int,
        ref: Ref,
        send: Callable[[bytes], None],
        asks: dict[int, tuple[asyncio.Future[Any], Channel]],
    ) -> None:
        self.number = number
        self.window = SenderFlow()
        self.deathwatch = DeathWatch(ref, IGNORE_TERMINATION)
        self.over = False
        self.error: Callable[[], AiostormError] | None = None
        self._ref = ref
        self._send = send
        self._asks = asks
        self._waiting: dict[asyncio.Future[Any], tuple[bytes, int, bool]] = {}  # note, size, is it a question?

    @property
    def path(self) -> str:
        """The actor's, for people to read."""
        return self._ref.path

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self._waiting)

    def offer(self, message: bytes) -> bool:
        """Send a message if there is room now."""
        if self.over or self.window.is_full or self._waiting:
            return False
        self.window.sent(len(message))
        self._send(note(TELL, self.number, message))
        return True

    async def tell(self, message: bytes) -> None:
        """Wait for room, then send it. Cancelled, it was not sent, unless that had just happened."""
        if self.offer(message):
            return
        self.check()
        sent = asyncio.get_running_loop().create_future()
        self._waiting[sent] = note(TELL, self.number, message), len(message), False
        try:
            await sent
        finally:
            self._waiting.pop(sent, None)

    def ask(self, number: int, message: bytes, reply: asyncio.Future[Any]) -> None:
        """Send a question as soon as there is room. Whatever becomes of it: `forget` it then."""
        self.check()
        self._asks[number] = reply, self
        asked, size = ask_note(self.number, number, message), 8 + len(message)
        if self.window.is_full or self._waiting:
            self._waiting[reply] = asked, size, True
        else:
            self.window.sent(size)
            self._send(asked)

    def forget(self, number: int, reply: asyncio.Future[Any]) -> None:
        """Nobody waits for this answer any more."""
        self._asks.pop(number, None)
        if self._waiting:
            self._waiting.pop(reply, None)

    def taken(self, messages: int, size_bytes: int) -> None:
        """So much is in the actor's mailbox. ProtocolError."""
        self.window.taken(messages, size_bytes)
        while self._waiting and not self.window.is_full:
            sent = next(iter(self._waiting))
            waiting, size, is_question = self._waiting.pop(sent)
            if sent.done():
                continue
            self.window.sent(size)
            self._send(waiting)
            if not is_question:
                sent.set_result(None)

    def end(self, error: Callable[[], AiostormError], of_actor: BaseException | None) -> None:
        """It leads nowhere any more. `error` makes what who uses it is told; `of_actor` is what watchers are."""
        self.over = True
        self.error = error
        waiting = list(self._waiting)
        self._waiting.clear()
        asks = [number for number, (_, channel) in self._asks.items() if channel is self]
        for reply in [*waiting, *(self._asks.pop(number)[0] for number in asks)]:
            if not reply.done():
                reply.set_exception(error())
        self.deathwatch.end(of_actor)

    def check(self) -> None:
        """Raise why it leads nowhere, if it does."""
        if self.over and self.error is not None:
            raise self.error()
