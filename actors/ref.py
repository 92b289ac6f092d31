"""Ref: the address of an actor; all that others hold of it.

    tell ── room? ── yes ─► in the mailbox                   ask ─► as tell, then: reply, or why there is none
              └───── no ──► waits its turn, or is refused

1. Messages of one sender arrive in the order in which it sent them.
2. An ask ends: with the reply, with the actor's failure, with the actor's end, or with its time. It never cancels who
   asked, whatever becomes of the actor.
3. An actor that sleeps with an empty mailbox, and whose `receive` is a plain `def`, answers an ask at once, without a
   round of the loop. Nobody is overtaken: there is nobody. After `AT_ONCE` such answers one goes the long way, so that
   others get the loop.
4. A ref may lead to an actor of another process: it is used in the same way (RemoteRef, in transport).
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

from ..runtime import AiostormError
from .errors import AskTimeoutError, MailboxClosedError
from .messages import Begun, Question, Reply

if TYPE_CHECKING:
    from .cell import Cell
    from .deadlines import Deadlines
    from .deathwatch import DeathWatch
    from .inbox import Inbox

_FROM_SYSTEM: Any = object()

AT_ONCE: Final = 64
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict, set})
"""Types of replies that nobody awaits: known without asking `inspect`, which takes a while."""


class Ref:
    """Send messages to an actor, from its own event loop. Equal only to itself; valid over restarts of the actor."""

    __slots__ = ("_cell", "_mailbox")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._mailbox = cell.mailbox

    @property
    def path(self) -> str:
        """Where it stands in the tree of its system: "/parent/child"."""
        return self._cell.path

    @property
    def is_alive(self) -> bool:
        """False once the actor has ended (a restart is no end)."""
        return not self._cell.terminated.done()

    @property
    def inbox(self) -> Inbox:
        """Its actor's mailbox, for who brings messages of others."""
        return self._mailbox

    @property
    def deathwatch(self) -> DeathWatch:
        """What hears of its actor's end."""
        return self._cell.deathwatch

    async def tell(self, message: Any) -> None:
        """Send a message; waits while the mailbox is past its marks. MailboxClosedError if the actor has stopped.

        Cancelled while it waits, the message was not sent, unless that had just happened.
        """
        if not self._mailbox.offer(message):
            await self._mailbox.put(message)

    def tell_nowait(self, message: Any) -> bool:
        """Send a message if there is room now. False if not; MailboxClosedError if the actor has stopped."""
        if self._mailbox.offer(message):
            return True
        if self._mailbox.closed:
            raise MailboxClosedError(self._mailbox.close_reason)
        return False

    async def ask(self, message: Any, *, timeout_s: float | None = _FROM_SYSTEM) -> Any:
        """Send a message and wait for what `receive` returns for it.

        The time counts from here, waiting for room included. AskTimeoutError when it runs out, AskFailedError when
        `receive` raised, MailboxClosedError when the actor stopped before it answered. `timeout_s=None` waits for ever.
        A question that was accepted is handled even when nobody waits for the reply any more.
        """
        cell = self._cell
        mailbox = self._mailbox
        begun: Begun | None = None
        if cell.answer is not None and mailbox.reader_waits:
            if cell.answered < AT_ONCE:
                cell.answered += 1
                value = cell.answer(message)
                if type(value) in _PLAIN or not inspect.isawaitable(value):
                    return value
                begun = Begun(message, value)
            else:
                cell.answered = 0
        reply: asyncio.Future[Any] = cell.loop.create_future()
        question = Question(begun or message, reply)
        parked: _ParkedQuestion | None = None
        if begun is not None:
            mailbox.post(question)  # before all else: nothing is received while a question is half answered
        elif not mailbox.offer(question):
            if mailbox.closed:
                raise MailboxClosedError(mailbox.close_reason)
            parked = _ParkedQuestion(question)
            mailbox.park(parked)
        deadlines: Deadlines | None = None
        timer: asyncio.TimerHandle | None = None
        if timeout_s is _FROM_SYSTEM:
            deadlines = cell.system.ask_deadlines
            if deadlines is not None:
                deadlines.add(reply, self)
        elif timeout_s is not None:
            timer = cell.loop.call_later(timeout_s, time_out, reply, self, timeout_s)
        try:
            return await reply
        finally:
            if deadlines is not None:
                deadlines.discard(reply)
            if timer is not None:
                timer.cancel()
            if parked is not None:
                mailbox.unpark(parked)

    def ask_nowait(self, message: Any, reply: Reply) -> bool:
        """Ask for somebody else: what comes of it goes to `reply`. False if there is no room now, or never again."""
        cell = self._cell
        if cell.answer is not None and self._mailbox.reader_waits and cell.answered < AT_ONCE:
            cell.answered += 1
            try:
                value = cell.answer(message)
            except AiostormError as refusal:  # always one: see Actor
                reply.set_exception(refusal)
                return True
            if type(value) in _PLAIN or not inspect.isawaitable(value):
                reply.set_result(value)
            else:
                self._mailbox.post(Question(Begun(message, value), reply))
            return True
        cell.answered = 0
        return self._mailbox.offer(Question(message, reply))

    def stop(self) -> None:
        """Ask the actor to end in order: what it has accepted is processed first."""
        self._cell.stop()

    def kill(self) -> None:
        """End the actor and its children at once; what they had accepted becomes dead letters.

        What awaits in them is cancelled; one that does not end is given up after twice the system's `kill_timeout_s`.
        """
        self._cell.kill()

    async def wait_terminated(self) -> None:
        """Wait until the actor has ended. In order this has no bound of its own; after `kill` it has."""
        await asyncio.shield(self._cell.terminated)

    def __repr__(self) -> str:
        return f"Ref({self.path})"


class _ParkedQuestion:
    __slots__ = ("_question",)

    def __init__(self, question: Question) -> None:
        self._question: Question | None = question

    def next_piece(self) -> tuple[Any, int] | None:
        question, self._question = self._question, None
        return (question, 1) if question is not None and not question.reply.done() else None

    def has_more(self) -> bool:
        return False

    def refused(self, error: MailboxClosedError) -> None:
        if self._question is not None and not self._question.reply.done():
            self._question.reply.set_exception(error)


def time_out(reply: asyncio.Future[Any], ref: Ref, timeout_s: float) -> None:
    """No reply came."""
    if not reply.done():
        reply.set_exception(AskTimeoutError(f"no reply from {ref.path} within {timeout_s:g} s"))
