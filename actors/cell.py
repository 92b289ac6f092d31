"""Cell: what surrounds one actor: mailbox, children, watchers, timers, restarts. The guardian's hands.

    run ─► incarnate ─► actor.run ──returns──► terminate
               ▲             │ raises
               │        FailureHistory.failed
               └─ RESTART ───┼── RESUME: run again, same instance
                  (backoff)  ├── STOP ──────► terminate
                             └── ESCALATE ──► the parent is told, terminate

1. A cell's asyncio task is held by the system until it has ended; it never ends with an exception nobody sees.
2. Terminate: children first (youngest first), then `stopped`, then dead letters, then watchers hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from .actor import Actor, maybe_await
from .errors import MailboxClosedError
from .lanes import EMPTY
from .mailbox import Mailbox
from .messages import ChildEscalated, DeadLetter, Question, Stop, Terminated
from .policy import Decision, Directive, FailureHistory, RestartPolicy
from .ref import Ref
from .timers import Timer, Timers

if TYPE_CHECKING:
    from .system import ActorSystem


class Cell:
    """One actor's surroundings. Internal: others see `Ref`, the actor sees `Actor`."""

    def __init__(
        self,
        system: ActorSystem,
        parent: Cell | None,
        path: str,
        actor: Actor | Callable[[], Actor],
        policy: RestartPolicy,
        mailbox: Mailbox,
    ) -> None:
        self.system = system
        self.loop = system.loop
        self.parent = parent
        self.path = path
        self.mailbox = mailbox
        self.history = FailureHistory(policy)
        self.children: dict[str, Cell] = {}
        self.timers = Timers(mailbox, self.loop)
        self.terminated: asyncio.Future[None] = self.loop.create_future()
        self.error: BaseException | None = None
        self.ref = Ref(self)
        self._made = actor
        self._actor: Actor | None = None
        self._watchers: set[Cell] = set()
        self._watched: set[Cell] = set()
        self._names = 0
        self._killed = False
        self._task = system.guard(self._run(), name=path)

    # -- what the actor asks for -------------------------------------------------------------------------------------

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a child of this cell."""
        if self.terminated.done() or self.system.closing:
            raise MailboxClosedError(f"{self.path or '/'} has stopped: it cannot have children any more")
        if name is None:
            self._names += 1
            name = f"{_kind(actor)}-{self._names}"
        if "/" in name or not name:
            raise ValueError(f"an actor's name is not empty and has no '/': {name!r}")
        if name in self.children:
            raise ValueError(f"{self.path or '/'} already has a child named {name!r}")
        system = self.system
        child = Cell(
            system,
            self,
            f"{self.path}/{name}",
            actor,
            policy or system.policy,
            mailbox or Mailbox(system.mailbox_capacity, loop=self.loop),
        )
        self.children[name] = child
        return child.ref

    def watch(self, ref: Ref) -> None:
        """Hear of an actor's end."""
        target = ref._cell
        if target.terminated.done():
            self.mailbox.post(Terminated(ref, target.error))
        else:
            target._watchers.add(self)
            self._watched.add(target)

    def unwatch(self, ref: Ref) -> None:
        """Stop watching."""
        ref._cell._watchers.discard(self)
        self._watched.discard(ref._cell)

    def kill(self) -> None:
        """End now."""
        if not self.terminated.done():
            self._killed = True
            self._task.cancel()

    # -- life --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            decision = Decision(Directive.RESTART)
            while True:
                try:
                    await self._live(decision)
                    return
                except Exception as error:
                    decision = self.history.failed(error, self.system.clock.monotonic())
                    self.system.report(self.path, error, decision)
                    if not await self._carry_on(error, decision):
                        return
        except asyncio.CancelledError:
            # A kill ends here; a cancel that nobody here asked for (a loop shutting down) must be passed on.
            if not self._killed:
                raise
        finally:
            await self._terminate()

    async def _live(self, decision: Decision) -> None:
        if self._actor is None or decision.directive is Directive.RESTART:
            fresh = self._made if isinstance(self._made, Actor) else self._made()
            fresh._cell = self
            self._actor = None  # `stopped` is for an actor that did start
            await maybe_await(fresh.started())
            self._actor = fresh
        await self._actor.run()

    async def _carry_on(self, error: Exception, decision: Decision) -> bool:
        """After a failure: is there a next incarnation (or a next message)?"""
        match decision.directive:
            case Directive.RESUME:
                return True
            case Directive.RESTART:
                self.timers.cancel_all()
                await self._end_children()
                return await self._back_off(decision.delay_s)
            case Directive.STOP:
                self.error = error
            case Directive.ESCALATE:
                self.error = error
                self._escalate(error)
        return False

    async def _back_off(self, delay_s: float) -> bool:
        """Wait before a restart; a stop in the meantime ends the actor, and its messages are dead letters."""
        clock = self.system.clock
        until_s = clock.monotonic() + delay_s
        kept: list[object] = []
        stopping = False
        while not stopping and (left_s := until_s - clock.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self.mailbox.wait_nudge()
            except TimeoutError:
                break
            while (message := self.mailbox.take_control()) is not EMPTY:
                stopping = stopping or isinstance(message, Stop)
                kept.append(message)
        for message in kept:
            if not isinstance(message, Timer):
                self.mailbox.post(message)
        return not stopping

    def _escalate(self, error: Exception) -> None:
        if self.parent is None:
            self.system.fail(self.path, error)
        else:
            self.parent.mailbox.post(ChildEscalated(self.ref, error))

    async def _terminate(self) -> None:
        self.mailbox.close(f"actor {self.path} has stopped")
        self.timers.cancel_all()
        try:
            await self._end_children()
            if self._actor is not None:
                await maybe_await(self._actor.stopped())
        except Exception as error:
            self.system.report(self.path, error, Decision(Directive.STOP))
        finally:
            self._bury()

    async def _end_children(self) -> None:
        for child in reversed(list(self.children.values())):
            if self._killed:
                child.kill()
            else:
                child.ref.stop()
            while not child.terminated.done():
                try:
                    await asyncio.shield(child.terminated)
                except asyncio.CancelledError:
                    if not self._killed:
                        raise
                    child.kill()  # killed while it waited for an ordered end

    def _bury(self) -> None:
        for message in self.mailbox.remove_all():
            if isinstance(message, Question):
                if not message.reply.done():
                    message.reply.set_exception(MailboxClosedError(f"actor {self.path} stopped before it answered"))
                message = message.message
            if not isinstance(message, Stop | Terminated | Timer | ChildEscalated):
                self.system.dead_letters.add(DeadLetter(self.path, message, "the actor ended before it got to it"))
        for watcher in self._watchers:
            watcher._watched.discard(self)
            if not watcher.terminated.done():
                watcher.mailbox.post(Terminated(self.ref, self.error))
        for watched in self._watched:
            watched._watchers.discard(self)
        if self.parent is not None:
            self.parent.children.pop(self.path.rpartition("/")[2], None)
        if not self.terminated.done():
            self.terminated.set_result(None)


def _kind(actor: Actor | Callable[[], Actor]) -> str:
    name = type(actor).__name__ if isinstance(actor, Actor) else getattr(actor, "__name__", type(actor).__name__)
    return str(name).strip("<>").lower()
