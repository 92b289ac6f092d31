"""Ref: the address of an actor; all that other actors need to know of it.

    tell ── free capacity? ─ yes ─► in the mailbox           ask ─► like tell, then: the reply, or an error
               └──────────── no ──► waits, or is refused

1. Messages of one sender arrive in the order in which they were sent.
2. An ask ends with the reply, with the actor's failure, with the actor's end, or with its timeout. It never cancels the
   caller, whatever happens to the actor.
3. An actor that sleeps with an empty mailbox, and whose `receive` is a plain `def`, answers an ask at once, without an
   iteration of the event loop. No message is overtaken, since there is none. After `AT_ONCE` such answers one question
   goes through the mailbox, so that other tasks can run.
4. A ref may lead to an actor of another process; it is used in the same way (RemoteRef, in transport).
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Final

from ..runtime import AiostormError
from .errors import AskTimeoutError, MailboxClosedError
from .messages import Answer, Message, Question, Reply, StartedAnswer

if TYPE_CHECKING:
    from .cell import Cell
    from .deadlines import Deadlines
    from .deathwatch import DeathWatch
    from .inbox import Inbox

_FROM_SYSTEM: Final = float("nan")
"""The default of `timeout_s`: only this very object means the system's timeout."""

AT_ONCE: Final = 64
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict, set})
"""Types of replies that are never awaitable: a set lookup is faster than `inspect`."""


class Ref:
    """Sends messages to an actor, in that actor's event loop. Equal only to itself; stays valid after restarts."""

    __slots__ = ("_asks", "_mailbox", "cell")

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self._mailbox = cell.mailbox
        self._asks = cell.asks

    @property
    def path(self) -> str:
        """The place in the tree of its system: "/parent/child"."""
        return self.cell.path

    @property
    def is_alive(self) -> bool:
        """False after the actor has ended (a restart is not an end)."""
        return not self.cell.termination.ended.done()

    @property
    def inbox(self) -> Inbox:
        """The actor's mailbox, for code that forwards messages of other senders."""
        return self._mailbox

    @property
    def deathwatch(self) -> DeathWatch:
        """The actor's side of the death watch."""
        return self.cell.deathwatch

    async def tell(self, message: Message) -> None:
        """Send a message; wait while the mailbox is full. MailboxClosedError if the actor has stopped.

        If the call is cancelled while it waits, the message was not sent, unless that had just happened.
        """
        if not self._mailbox.offer(message):
            await self._mailbox.put(message)

    def tell_nowait(self, message: Message) -> bool:
        """Send a message if there is free capacity. False if not; MailboxClosedError if the actor has stopped."""
        if self._mailbox.offer(message):
            return True
        if self._mailbox.closed:
            raise MailboxClosedError(self._mailbox.close_reason)
        return False

    async def ask(self, message: Message, *, timeout_s: float | None = _FROM_SYSTEM) -> Answer:
        """Send a message and wait for the return value of `receive`.

        The timeout includes waiting for free capacity; `timeout_s=None` waits without limit. AskTimeoutError when it
        expires, AskFailedError if `receive` raised, MailboxClosedError if the actor stopped before it answered. An
        accepted question is handled even if its caller no longer waits.
        """
        asks, mailbox = self._asks, self._mailbox
        started: StartedAnswer | None = None
        if asks.answer is not None and mailbox.reader_waits:
            if asks.at_once < AT_ONCE:
                asks.at_once += 1
                value = asks.answer(message)
                if type(value) in _PLAIN or not inspect.isawaitable(value):
                    return value
                started = StartedAnswer(message, value)
            else:
                asks.at_once = 0
        reply: asyncio.Future[Answer] = asks.loop.create_future()
        question = Question(started or message, reply)
        parked: _ParkedQuestion | None = None
        if started is not None:
            mailbox.post(question)  # on the control lane: nothing may be received before this answer is finished
        elif not mailbox.offer(question):
            if mailbox.closed:
                raise MailboxClosedError(mailbox.close_reason)
            parked = _ParkedQuestion(question)
            mailbox.park(parked)
        deadlines: Deadlines[Ref] | None = None
        timer: asyncio.TimerHandle | None = None
        if timeout_s is _FROM_SYSTEM:
            deadlines = asks.deadlines
            if deadlines is not None:
                deadlines.add(reply, self)
        elif timeout_s is not None:
            timer = asks.loop.call_later(timeout_s, time_out, reply, self, timeout_s)
        try:
            return await reply
        finally:
            if deadlines is not None:
                deadlines.discard(reply)
            if timer is not None:
                timer.cancel()
            if parked is not None:
                mailbox.unpark(parked)

    def ask_nowait(self, message: Message, reply: Reply) -> bool:
        """Ask; the answer or error goes to `reply`. False if there is no free capacity, or the actor has stopped."""
        asks = self._asks
        if asks.answer is not None and self._mailbox.reader_waits and asks.at_once < AT_ONCE:
            asks.at_once += 1
            try:
                value = asks.answer(message)
            except AiostormError as refusal:  # the only kind of error: see Actor._answer_at_once
                reply.set_exception(refusal)
                return True
            if type(value) in _PLAIN or not inspect.isawaitable(value):
                reply.set_result(value)
            else:
                self._mailbox.post(Question(StartedAnswer(message, value), reply))
            return True
        asks.at_once = 0
        return self._mailbox.offer(Question(message, reply))

    def stop(self) -> None:
        """Ask the actor to stop after it has processed all accepted messages."""
        self.cell.stop()

    def kill(self) -> None:
        """End the actor and its children at once; their accepted messages become dead letters.

        Their awaits are cancelled; an actor that does not end is abandoned after twice the system's `kill_timeout_s`.
        """
        self.cell.kill()

    async def wait_terminated(self) -> None:
        """Wait until the actor has ended. After `kill` this has a bound; after `stop` it has none."""
        await asyncio.shield(self.cell.termination.ended)

    def __repr__(self) -> str:
        return f"Ref({self.path})"


class _ParkedQuestion:
    __slots__ = ("_question",)

    def __init__(self, question: Question) -> None:
        self._question: Question | None = question

    def next_piece(self) -> tuple[Question, int] | None:
        question, self._question = self._question, None
        return (question, 1) if question is not None and not question.reply.done() else None

    def has_more(self) -> bool:
        return False

    def refused(self, error: MailboxClosedError) -> None:
        if self._question is not None and not self._question.reply.done():
            self._question.reply.set_exception(error)


def time_out(reply: asyncio.Future[Answer], ref: Ref, timeout_s: float) -> None:
    """End a question that got no reply."""
    if not reply.done():
        reply.set_exception(AskTimeoutError(f"no reply from {ref.path} within {timeout_s:g} s"))
