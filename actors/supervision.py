"""Supervision: the incarnations of one actor, and what its restart policy decides about failures.

    run ─► incarnation: started, Actor.run ──returns──► the actor ends
               ▲             │ raises
               │        FailureHistory.failed
               └─ RESTART ───┼── RESUME: run again, same instance
                  (backoff)  ├── STOP ──────► the actor ends
                             └── ESCALATE ──► notify the parent, the actor ends

1. An unexpected end is a failure. If user code raises CancelledError without a cancellation, the policy decides.
2. An actor that was asked to stop does not wait for a backoff: its remaining messages become dead letters.
3. Before a restart the children end, within a bound: no reader takes messages out of the open mailbox meanwhile, and a
   child may wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from .actor import Actor, maybe_await
from .errors import ActorCancelledError
from .factory import ActorFactory
from .policy import Decision, Directive, FailureHistory, RestartPolicy

if TYPE_CHECKING:
    from .cell import Cell
    from .messages import ChildEscalated

log = logging.getLogger("aiostorm.actors")


class Supervision:
    """The incarnations of one cell's actor. `actor`: the present one, once it has started."""

    __slots__ = ("_cell", "_factory", "_history", "_incarnation", "_parent_incarnation", "actor")

    def __init__(self, cell: Cell, actor: Actor | Callable[[], Actor], policy: RestartPolicy) -> None:
        self._cell = cell
        self._factory = ActorFactory(cell, actor)
        self._history = FailureHistory(policy)
        self._incarnation = 0
        self._parent_incarnation = cell.parent.supervision._incarnation if cell.parent is not None else 0
        self.actor: Actor | None = None

    def is_of_child(self, message: ChildEscalated) -> bool:
        """Is the message about a child of this incarnation? Children of an earlier incarnation have ended."""
        return message.ref.cell.supervision._parent_incarnation == self._incarnation

    async def run(self) -> None:
        """Run one incarnation after another until the policy starts no more."""
        decision: Decision | None = Decision(Directive.RESTART)
        while decision is not None:
            try:
                if self.actor is None or decision.directive is Directive.RESTART:
                    fresh = self._factory.make()
                    self.actor = None  # `stopped` is only called on an actor that has started
                    await maybe_await(fresh.started())
                    self.actor = fresh
                if not self._cell.termination.killed:  # `started` may have swallowed the cancellation
                    await self.actor.run()
                return
            except asyncio.CancelledError as cancelled:
                if self._cell.termination.is_cancelled:
                    raise
                error = ActorCancelledError(
                    f"{self._cell.path}: something that it awaited was cancelled, but the actor itself was not"
                )
                error.__cause__ = cancelled
                decision = await self._failed(error)
            except Exception as raised:
                decision = await self._failed(raised)

    async def _failed(self, error: Exception) -> Decision | None:
        """Decide about a failure and carry it out. None if there is no next incarnation (or next message)."""
        cell = self._cell
        if cell.termination.killed:  # raised while it was being killed
            cell.termination.error = error
            cell.system.report(cell.path, error, Decision(Directive.STOP))
            return None
        decision = self._decide(error)
        cell.system.report(cell.path, error, decision)
        match decision.directive:
            case Directive.RESUME:
                await asyncio.sleep(0)  # let other tasks run even if every message fails
                return decision
            case Directive.RESTART:
                cell.timers.cancel_all()
                await self._end_children()
                self._incarnation += 1
                return decision if await self._back_off(decision.delay_s) else None
            case Directive.STOP:
                cell.termination.error = error
            case Directive.ESCALATE:
                cell.termination.error = error
                cell.escalate(error)
        return None

    def _decide(self, error: Exception) -> Decision:
        system = self._cell.system
        try:
            return self._history.failed(error, system.clock.monotonic(), resumable=self.actor is not None)
        except Exception as broken:  # the policy's own `decide`
            decision = Decision(Directive.ESCALATE)
            system.report(self._cell.path, broken, decision)
            return decision

    async def _back_off(self, delay_s: float) -> bool:
        """Wait before a restart. False if the actor was asked to stop meanwhile: then it is not restarted."""
        await asyncio.sleep(0)
        if delay_s <= 0:
            return True
        cell = self._cell
        monotonic, termination = cell.system.clock.monotonic, cell.termination
        until_s = monotonic() + delay_s
        while not termination.stop_asked and (left_s := until_s - monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await cell.mailbox.wait_next()  # may be the stop message; it stays in the mailbox
            except TimeoutError:
                break
        return not termination.stop_asked

    async def _end_children(self) -> None:
        children, limit_s = self._cell.children, self._cell.system.settings.stop_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await children.stop()
        except TimeoutError:
            path = self._cell.path
            log.warning("%s restarts: its children did not stop within %g s and are killed", path, limit_s)
            for child in children:
                child.kill()
            await children.stop()
