"""Termination: how one actor ends.

    RUNNING ─► STOPPING_CHILDREN ─► STOPPING (`stopped`) ─► TERMINATED      kill: the whole branch, at any point

1. Children first (youngest first), then `stopped`, then dead letters, then each watcher is notified once.
2. After `kill`, `ended` is done within a bound, whatever user code does: the task is cancelled, cancelled again after
   `kill_timeout_s`, and abandoned after the same time again. The system then fails and names the hanging line.
3. A cancel from outside (an event loop that shuts down) ends the branch, escalates, and is raised again.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING

from .actor import Actor, maybe_await
from .errors import ActorCancelledError, KillTimeoutError, MailboxClosedError
from .messages import ChildEscalated, DeadLetter, Message, Question, StartedAnswer, Stop, Terminated
from .policy import Decision, Directive
from .reaper import Reaper
from .timers import Timer

if TYPE_CHECKING:
    from .cell import Cell


class Phase(enum.Enum):
    """How far the end of an actor has come."""

    RUNNING = enum.auto()
    STOPPING_CHILDREN = enum.auto()
    STOPPING = enum.auto()
    TERMINATED = enum.auto()


class Termination:
    """The end of one cell's actor. `error`: why it ended; None if it was stopped or killed on request.

    `cancelled`: the cancellation by code outside of the actor system.
    """

    __slots__ = ("_cell", "_reaper", "cancelled", "ended", "error", "killed", "phase", "stop_asked")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._reaper: Reaper | None = None
        self.ended: asyncio.Future[None] = cell.system.loop.create_future()
        self.phase = Phase.RUNNING
        self.error: BaseException | None = None
        self.stop_asked = False
        self.killed = False
        self.cancelled: asyncio.CancelledError | None = None

    @property
    def is_cancelled(self) -> bool:
        """Was the actor itself cancelled? Otherwise a CancelledError comes from something that it awaits."""
        return self.killed or self._cell.task.is_cancelled

    # -- stop --------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop after the accepted messages."""
        if not self.stop_asked and self.phase is not Phase.TERMINATED:
            self.stop_asked = True
            self._cell.mailbox.post(Stop())

    async def run(self) -> None:
        """The actor runs no more: end the children, call `stopped`, finish."""
        if self.phase is Phase.TERMINATED:
            return  # it was abandoned earlier, but has ended after all
        cell = self._cell
        self.phase = Phase.STOPPING_CHILDREN
        try:
            cell.timers.close(f"actor {cell.path} has stopped")
            cell.mailbox.close(f"actor {cell.path} has stopped")
            await self._end_children()
            self.phase = Phase.STOPPING
            if self._reaper is not None:
                self._reaper.begin()
            await self._call_stopped()
        except asyncio.CancelledError as cancelled:
            if not self.is_cancelled:
                cell.system.report(cell.path, cancelled, Decision(Directive.STOP))
            elif not self.killed:
                self.cancel_outside(cancelled)
        except Exception as error:
            cell.system.report(cell.path, error, Decision(Directive.STOP))
        finally:
            self.finish()

    async def _end_children(self) -> None:
        """Youngest first. The children of a killed actor are already killed."""
        children = self._cell.children
        while children:
            child = children.youngest
            if not self.killed:
                child.stop()
            try:
                await asyncio.shield(child.termination.ended)
            except asyncio.CancelledError as cancelled:
                if not self.killed:
                    self.cancel_outside(cancelled)

    async def _call_stopped(self) -> None:
        actor = self._cell.supervision.actor
        if actor is None:
            return
        if not self.killed:
            await self._receive_escalations(actor)
        await maybe_await(actor.stopped())

    async def _receive_escalations(self, actor: Actor) -> None:
        """Children may have failed while they stopped: the actor's own hook decides, then the parent's, as always."""
        cell = self._cell
        escalated: list[ChildEscalated] = []
        for message in self._empty_mailbox():
            if isinstance(message, ChildEscalated):
                escalated.append(message)
            else:
                self._drop(message)
        for message in escalated:
            try:
                await maybe_await(actor.child_escalated(message.ref, message.error))
            except Exception as error:
                cell.system.report(cell.path, error, Decision(Directive.ESCALATE))
                if self.error is None:
                    self.error = error
                    cell.escalate(error)

    def finish(self) -> None:
        """The actor has ended: notify its watchers, its parent and the system."""
        if self.phase is Phase.TERMINATED:
            return
        cell = self._cell
        self.phase = Phase.TERMINATED
        if self._reaper is not None:
            self._reaper.end()
        try:
            for message in self._empty_mailbox():
                self._drop(message)
            cell.mailbox.on_late = self._drop
            cell.deathwatch.end(self.error)
        finally:  # other code waits for this
            if cell.parent is not None:
                cell.parent.children.remove(cell.name)
            cell.system.cells.discard(cell)
            self.ended.set_result(None)

    def _empty_mailbox(self) -> list[Message]:
        mailbox = self._cell.mailbox
        mailbox.close(f"actor {self._cell.path} has stopped")
        return mailbox.remove_all()

    def _drop(self, message: Message) -> None:
        """Handle a message that will not be received: an asking caller gets an error, the rest are dead letters."""
        system, path = self._cell.system, self._cell.path
        if isinstance(message, Question):
            if not message.reply.done():
                message.reply.set_exception(MailboxClosedError(f"actor {path} stopped before it answered"))
            message = message.message
            if isinstance(message, StartedAnswer):
                message.close()
                message = message.message
        if isinstance(message, ChildEscalated) and not self.killed:
            system.fail(message.ref.path, message.error)
        elif not isinstance(message, Stop | Terminated | Timer | ChildEscalated):
            system.dead_letters.add(DeadLetter(path, message, "the actor ended before it processed it"))

    # -- kill and cancel ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End now, with all children. A second kill also interrupts the clean-up that the first one started."""
        if self.phase is Phase.TERMINATED:
            return
        self.kill_branch()
        # While children stop there is nothing to interrupt: they are killed too. A coroutine that is cancelled before
        # its first step would not run at all, so the cell checks `killed` when it starts.
        if self._cell.task.begun and self.phase in (Phase.RUNNING, Phase.STOPPING):
            self._cell.task.cancel()

    def kill_branch(self) -> None:
        """Kill this actor and everything below it; from now on they only end."""
        if self.killed:
            return
        cell = self._cell
        self.killed = True
        for child in reversed([*cell.children]):
            if not child.termination.killed:
                child.kill()
        cell.timers.cancel_all()
        for message in self._empty_mailbox():
            self._drop(message)
        self._reaper = Reaper(
            cell.system.loop,
            cell.system.settings.kill_timeout_s,
            waits=lambda: self.phase is Phase.STOPPING_CHILDREN,
            cancel=cell.task.cancel,
            give_up=self._give_up,
        )
        self._reaper.begin()

    def _give_up(self) -> None:
        cell = self._cell
        self.error = KillTimeoutError(
            f"{cell.path} was killed but does not end: it swallows CancelledError (catch it only to clean up, then "
            f"raise it again). It hangs at {cell.task.suspended_at()}"
        )
        cell.task.give_up(self.error)
        self.finish()

    def cancel_outside(self, cancelled: asyncio.CancelledError) -> None:
        """Code outside of the actor system cancelled the task: end as if killed, and raise the cancellation again."""
        cell = self._cell
        if self.cancelled is None:
            self.cancelled = cancelled
        if self.error is None:
            self.error = ActorCancelledError(f"{cell.path or '/'} was cancelled by code outside of the actor system")
            self.error.__cause__ = cancelled
            if not cell.system.closing:
                cell.system.report(cell.path, self.error, Decision(Directive.ESCALATE))
                cell.escalate(self.error)
        self.kill_branch()
