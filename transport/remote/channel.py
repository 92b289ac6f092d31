"""Channel: the sending end of the way to one actor of another process.

    tell, ask ─► capacity? ─ yes ─► outbox ─► send queue
                     └ no ─► wait in line ─► taken (some are in its mailbox) ─► outbox

1. Messages go in the order in which they were given to the channel, waiting ones included.
2. A waiting sender returns when its message was sent, or gets the error; a caller of `ask` gets the answer or the
   error. A call that was cancelled or timed out leaves nothing behind.
3. A channel ends once: the actor ended, does not exist, or the peer is lost. Then all waiting senders, all callers and
   all watchers are notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...actors import DeathWatch, Ref
from .flow_control import SenderFlow
from .notes import TELL, ask_note, note

if TYPE_CHECKING:
    from ...actors import Answer, Message
    from ...runtime import AiostormError


class _IgnoreTermination:
    def post(self, item: Message) -> None:
        """Do nothing."""


IGNORE_TERMINATION: Final = _IgnoreTermination()
"""The Watcher of a DeathWatch that is only watched by others."""


class Channel:
    """To one actor. `send` puts a note into the peer's outbox; `asks` are the open questions, by number."""

    __slots__ = ("_asks", "_ref", "_send", "_waiting", "deathwatch", "error", "flow", "number", "over")

    def __init__(
        self,
        number: int,
        ref: Ref,
        send: Callable[[bytes], None],
        asks: dict[int, tuple[asyncio.Future[Answer], Channel]],
    ) -> None:
        self.number = number
        self.flow = SenderFlow()
        self.deathwatch = DeathWatch(ref, IGNORE_TERMINATION)
        self.over = False
        self.error: Callable[[], AiostormError] | None = None
        self._ref = ref
        self._send = send
        self._asks = asks
        self._waiting: dict[asyncio.Future[Answer], tuple[bytes, int, bool]] = {}  # note, size, is it a question

    @property
    def path(self) -> str:
        """The actor's path, for people to read."""
        return self._ref.path

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def offer(self, message: bytes) -> bool:
        """Send a message if there is capacity now."""
        if self.over or self.flow.is_full or self._waiting:
            return False
        self.flow.sent(len(message))
        self._send(note(TELL, self.number, message))
        return True

    async def tell(self, message: bytes) -> None:
        """Wait for capacity, then send. A cancelled call has not sent the message, unless it had just done so."""
        if self.offer(message):
            return
        self.check()
        sent = asyncio.get_running_loop().create_future()
        self._waiting[sent] = note(TELL, self.number, message), len(message), False
        try:
            await sent
        finally:
            self._waiting.pop(sent, None)

    def ask(self, number: int, message: bytes, reply: asyncio.Future[Answer]) -> None:
        """Send a question as soon as there is capacity. The caller calls `forget` in the end."""
        self.check()
        self._asks[number] = reply, self
        packed, size = ask_note(self.number, number, message), 8 + len(message)
        if self.flow.is_full or self._waiting:
            self._waiting[reply] = packed, size, True
        else:
            self.flow.sent(size)
            self._send(packed)

    def forget(self, number: int, reply: asyncio.Future[Answer]) -> None:
        """The caller does not wait for the answer any more."""
        self._asks.pop(number, None)
        if self._waiting:
            self._waiting.pop(reply, None)

    def taken(self, messages: int, size_bytes: int) -> None:
        """The actor's mailbox has taken so much. ProtocolError if that is wrong."""
        self.flow.taken(messages, size_bytes)
        while self._waiting and not self.flow.is_full:
            sent = next(iter(self._waiting))
            waiting, size, is_question = self._waiting.pop(sent)
            if sent.done():
                continue
            self.flow.sent(size)
            self._send(waiting)
            if not is_question:
                sent.set_result(None)

    def end(self, error: Callable[[], AiostormError], of_actor: BaseException | None) -> None:
        """End the channel. `error` makes the error for senders and callers; `of_actor` is the one for watchers."""
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
        """Raise the error of a channel that has ended."""
        if self.over and self.error is not None:
            raise self.error()
