"""Actor: it has its own state, receives one message at a time, and has an address.

    spawn ──► started ──► receive … receive ──► stopped
                 ▲            │ raises
                 └─ backoff ◄─┘   (by the restart policy; a new instance, the same mailbox)

1. `receive` never runs twice at the same time: an actor needs no locks for its own state.
2. Control messages (timers, Terminated, stop) are received before data.
3. `stop` closes the mailbox; accepted messages are processed; then the children stop (youngest first); then `stopped`
   is called. A failure in between does not change this order if the policy lets the actor continue.
4. `kill` cancels what `receive` awaits, in this actor and in all its children; `stopped` is still called. Catch
   CancelledError only to clean up: an actor that swallows it is abandoned and reported.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NoReturn, cast

from .errors import ActorEscalatedError
from .lanes import EMPTY
from .messages import Answer, ChildEscalated, MaybeAwaitable, Message, Question, Reply, StartedAnswer, Stop
from .timers import Timer

if TYPE_CHECKING:
    from .cell import Cell
    from .dispatcher import Stepper
    from .mailbox import Mailbox
    from .policy import RestartPolicy
    from .ref import Ref
    from .system import ActorSystem

TURN_MESSAGES = 128
"""Messages that an actor receives before it yields to other asyncio tasks."""


_OURS: Final = frozenset({type(EMPTY), Question, Stop, Timer, ChildEscalated})
"""Types that a mailbox returns but that are not messages for `receive`."""


class _NoCell:
    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("an actor has no address, mailbox, children or timers before it is started: use `started`")


NO_CELL = cast("Cell", _NoCell())


class Actor:
    """Base class of actors: define `receive`, and optionally `started` and `stopped`, as `def` or `async def`."""

    _cell: Cell = NO_CELL  # the system sets one before `started`

    def started(self) -> MaybeAwaitable:
        """Called before the first message, and again after each restart."""

    def receive(self, message: Message) -> MaybeAwaitable:
        """Handle one message. The return value is the reply if the message came by `ask`."""
        raise NotImplementedError(f"{type(self).__name__} must define receive")

    def stopped(self) -> MaybeAwaitable:
        """Called when the actor ends (not before a restart)."""

    def child_escalated(self, ref: Ref, error: BaseException) -> MaybeAwaitable:
        """A child has failed for good. By default this actor fails with the same error."""
        raise ActorEscalatedError(f"{ref.path} gave up: {error!r}") from error

    @property
    def ref(self) -> Ref:
        """This actor's own address."""
        return self._cell.ref

    @property
    def system(self) -> ActorSystem:
        """The actor system to which this actor belongs."""
        return self._cell.system

    @property
    def mailbox(self) -> Mailbox:
        """The mailbox of this actor."""
        return self._cell.mailbox

    @property
    def children(self) -> tuple[Ref, ...]:
        """The running children of this actor, oldest first."""
        return tuple(child.ref for child in self._cell.children)

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None = None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a child from a class or factory (a restart makes a new instance) or from an instance (kept)."""
        return self._cell.spawn(actor, name, policy=policy, mailbox=mailbox)

    def watch(self, ref: Ref) -> None:
        """Receive `Terminated(ref, error)` when that actor ends, or at once if it has already ended."""
        self._cell.deathwatch.watch(ref.deathwatch)

    def unwatch(self, ref: Ref) -> None:
        """Stop watching. A Terminated message that is already in the mailbox is still received."""
        self._cell.deathwatch.unwatch(ref.deathwatch)

    def after(self, delay_s: float, message: Message) -> Timer:
        """Send this actor a message in `delay_s` seconds."""
        return self._cell.timers.after(delay_s, message)

    def every(self, interval_s: float, message: Message) -> Timer:
        """Send this actor a message every `interval_s` seconds; missed messages are not made up for."""
        return self._cell.timers.every(interval_s, message)

    def stop(self) -> None:
        """Stop after all accepted messages have been processed."""
        self._cell.ref.stop()

    def stepper(self, step: Callable[[], None]) -> Stepper:
        """For an actor with its own `run`: the step that `mailbox.wait_steps` makes ready (see dispatcher.py)."""
        return self._cell.stepper(step)

    async def run(self) -> None:
        """The message loop. It ends after `Stop`; the restart policy decides about errors that it raises."""
        cell = self._cell
        cell.asks.answer = None if inspect.iscoroutinefunction(self.receive) else self._answer_at_once
        try:
            await self._receive_all(cell)
        finally:
            cell.asks.answer = None

    async def _receive_all(self, cell: Cell) -> None:
        mailbox, asks, termination = cell.mailbox, cell.asks, cell.termination
        while True:
            for _ in range(TURN_MESSAGES):
                message = mailbox.take()
                if type(message) not in _OURS:
                    handled = self.receive(message)  # looked up each time: user code may replace the method
                    if handled is not None and inspect.isawaitable(handled):
                        await handled
                elif message is not EMPTY:
                    await self._handle_system(cell, message)
                elif termination.stop_asked or termination.killed:
                    return  # killed but still running: user code swallowed the cancellation
                else:
                    await mailbox.wait_next()
                    if asks.error is not None:
                        error, asks.error = asks.error, None
                        raise error
                    break
            else:
                await asyncio.sleep(0)  # there may be more messages: let other tasks run first

    async def _handle_system(self, cell: Cell, message: Message) -> None:
        """Handle a message of the kernel."""
        if isinstance(message, Question):
            later = self._answer(message)
            if later is not None:
                await later
        elif isinstance(message, Stop):
            cell.mailbox.close(f"actor {cell.path} is stopping")
            cell.termination.stop_asked = True  # must survive a restart
        elif isinstance(message, Timer):
            if message.received():
                await maybe_await(self.receive(message.message))
        elif cell.supervision.is_of_child(message):
            await maybe_await(self.child_escalated(message.ref, message.error))

    def _answer(self, question: Question) -> Awaitable[None] | None:
        """Answer a question. Returns what is left to await if `receive` is async: most answers need no coroutine."""
        reply = question.reply
        if type(question.message) is StartedAnswer:
            return _answer_later(self._cell, question.message.value, reply)
        try:
            value = self.receive(question.message)
            if value is not None and inspect.isawaitable(value):
                return _answer_later(self._cell, value, reply)
        except BaseException as error:
            _refuse(self._cell, reply, error)
            raise
        if not reply.done():  # if it is done, the caller no longer waits: the work may still matter, the reply does not
            reply.set_result(value)
        return None

    def _answer_at_once(self, message: Message) -> Answer:
        """Answer in the caller's step, as this actor's task, while that task sleeps and the mailbox is empty."""
        try:
            return self._cell.task.call(self.receive, message)
        except BaseException as error:
            # As for any received message, the restart policy decides; the caller gets the error.
            self._cell.asks.error = error
            self._cell.mailbox.wake()
            raise self._cell.ask_error(error) from error


async def _answer_later(cell: Cell, value: Awaitable[Answer], reply: Reply) -> None:
    try:
        result = await value
    except BaseException as error:
        _refuse(cell, reply, error)
        raise
    if not reply.done():
        reply.set_result(result)


def _refuse(cell: Cell, reply: Reply, error: BaseException) -> None:
    # Never cancel the reply: the caller would mistake it for its own cancellation.
    if not reply.done():
        reply.set_exception(cell.ask_error(error))


async def maybe_await(value: MaybeAwaitable) -> Answer:
    """The result of a user method: awaited if the method is `async def`."""
    if value is not None and inspect.isawaitable(value):
        return await value
    return value
