"""Actor: state of its own, one message at a time, an address.

    spawn ──► started ──► receive … receive ──► stopped
                 ▲            │ raises
                 └─ backoff ◄─┘   (the guardian's policy; a new instance, the same mailbox)

1. `receive` is never run twice at once: an actor needs no locks for its own state.
2. Control messages (timers, Terminated, stop) are received before data.
3. An actor ends after its mailbox: `stop` closes the mailbox, what was accepted is processed, then the children end
   (youngest first), then `stopped` is called. A failure on the way does not change that, if its policy lets it go on.
4. `kill` cancels what `receive` awaits, and everything below; `stopped` is still called. Catch CancelledError only to
   clean up: an actor that swallows it is given up and reported.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from .errors import ActorEscalatedError
from .lanes import EMPTY
from .mailbox import Mailbox
from .messages import Begun, ChildEscalated, Question, Reply, Stop
from .policy import RestartPolicy
from .timers import Timer

if TYPE_CHECKING:
    from .cell import Cell
    from .dispatcher import Stepper
    from .ref import Ref
    from .system import ActorSystem

TURN_MESSAGES = 128
"""Messages received before other actors get the loop."""


_OURS: Final = frozenset({type(EMPTY), Question, Stop, Timer, ChildEscalated})
"""What a mailbox gives that is no message for `receive`."""


class _NoCell:
    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("an actor has no address, mailbox, children or timers before it is started: use `started`")


NO_CELL = cast("Cell", _NoCell())


class Actor:
    """Base of all actors: define `receive`, and `started` and `stopped` if needed. Each may be `def` or `async def`."""

    _cell: Cell = NO_CELL  # the system sets one before `started`

    def started(self) -> Any:
        """Called before the first message, and again after each restart."""

    def receive(self, message: Any) -> Any:
        """Handle one message. What it returns is the reply, if it was asked."""
        raise NotImplementedError(f"{type(self).__name__} must define receive")

    def stopped(self) -> Any:
        """Called at the end (not before a restart)."""

    def child_escalated(self, ref: Ref, error: BaseException) -> Any:
        """A child gave up, or failed for good while this actor was ending. By default this actor fails with it."""
        raise ActorEscalatedError(f"{ref.path} gave up: {error!r}") from error

    @property
    def ref(self) -> Ref:
        """This actor's own address."""
        return self._cell.ref

    @property
    def system(self) -> ActorSystem:
        """The system it lives in."""
        return self._cell.system

    @property
    def mailbox(self) -> Mailbox:
        """Its inbox."""
        return self._cell.mailbox

    @property
    def children(self) -> tuple[Ref, ...]:
        """Its living children, oldest first."""
        return tuple(child.ref for child in self._cell.children.values())

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None = None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a child: a class or factory (a restart makes a new instance), or an instance (a restart keeps it)."""
        return self._cell.spawn(actor, name, policy=policy, mailbox=mailbox)

    def watch(self, ref: Ref) -> None:
        """Receive `Terminated(ref, error)` when that actor ends, at once if it already has."""
        self._cell.deathwatch.watch(ref.deathwatch)

    def unwatch(self, ref: Ref) -> None:
        """Stop watching. What is in the mailbox already is still received."""
        self._cell.deathwatch.unwatch(ref.deathwatch)

    def after(self, delay_s: float, message: Any) -> Timer:
        """Send this actor a message in `delay_s` seconds."""
        return self._cell.timers.after(delay_s, message)

    def every(self, interval_s: float, message: Any) -> Timer:
        """Send this actor a message every `interval_s` seconds; late ones do not pile up."""
        return self._cell.timers.every(interval_s, message)

    def stop(self) -> None:
        """End in order, after what has been accepted."""
        self._cell.ref.stop()

    def stepper(self, step: Callable[[], None]) -> Stepper:
        """For an actor with a `run` of its own: what `mailbox.wait_steps` makes ready (see dispatcher.py)."""
        return self._cell.stepper(step)

    async def run(self) -> None:
        """The message loop. Ends after `Stop`; what it raises is decided by the guardian."""
        cell = self._cell
        cell.answer = None if inspect.iscoroutinefunction(self.receive) else self._answer_at_once
        try:
            await self._receive_all(cell)
        finally:
            cell.answer = None

    async def _receive_all(self, cell: Cell) -> None:
        mailbox = cell.mailbox
        while True:
            for _ in range(TURN_MESSAGES):
                message = mailbox.take()
                if type(message) not in _OURS:
                    handled = self.receive(message)  # looked up each time: an actor may become another
                    if handled is not None and inspect.isawaitable(handled):
                        await handled
                elif message is not EMPTY:
                    await self._obey(cell, message)
                elif cell.stop_asked or cell.killed:  # killed, and still here: user code has swallowed the cancel
                    return
                else:
                    await mailbox.wait_nudge()
                    if cell.raised is not None:
                        error, cell.raised = cell.raised, None
                        raise error
                    break
            else:
                await asyncio.sleep(0)  # there may be more: others first

    async def _obey(self, cell: Cell, message: Any) -> None:
        """Handle what is not the user's own."""
        kind = type(message)
        if kind is Question:
            later = self._answer(message)
            if later is not None:
                await later
        elif kind is Stop:
            cell.mailbox.close(f"actor {cell.path} is stopping")
            cell.stop_asked = True  # outlives this incarnation
        elif kind is Timer:
            if message.received():
                await self._handle(message.message)
        elif cell.concerns(message):
            await maybe_await(self.child_escalated(message.ref, message.error))

    async def _handle(self, message: Any) -> Any:
        return await maybe_await(self.receive(message))

    def _answer(self, question: Question) -> Awaitable[None] | None:
        """Handle a question. What is left to await, if `receive` is async: most answers need no coroutine."""
        reply = question.reply
        if type(question.message) is Begun:
            return self._answer_later(question.message.value, reply)
        try:
            value = self.receive(question.message)
            if value is not None and inspect.isawaitable(value):
                return self._answer_later(value, reply)
        except BaseException as error:
            self._refuse(reply, error)
            raise
        if not reply.done():  # if it is, the asker has given up: the work may still matter, the reply does not
            reply.set_result(value)
        return None

    def _answer_at_once(self, message: Any) -> Any:
        """Answer in the step of whoever asks, as this actor's asyncio task: it sleeps, its mailbox is empty."""
        try:
            return self._cell.as_task(self.receive, message)
        except BaseException as error:
            # As if it had been received: the guardian decides, the asker hears that it failed.
            self._cell.raised = error
            self._cell.mailbox.nudge()
            raise self._cell.refusal(error) from error

    async def _answer_later(self, value: Awaitable[Any], reply: Reply) -> None:
        try:
            result = await value
        except BaseException as error:
            self._refuse(reply, error)
            raise
        if not reply.done():
            reply.set_result(result)

    def _refuse(self, reply: Reply, error: BaseException) -> None:
        # Never a cancelled reply: the asker would take it for a cancel of its own.
        if not reply.done():
            reply.set_exception(self._cell.refusal(error))


async def maybe_await(value: Any) -> Any:
    """What a user method gave back: awaited if it was `async def`."""
    if value is not None and inspect.isawaitable(value):
        return await value
    return value
