"""Cell: what surrounds one actor: mailbox, children, watchers, timers, restarts. The guardian's hands.

    run ─► incarnate ─► actor.run ──returns──► terminate
               ▲             │ raises
               │        FailureHistory.failed
               └─ RESTART ───┼── RESUME: run again, same instance
                  (backoff)  ├── STOP ──────► terminate
                             └── ESCALATE ──► the parent is told, terminate

    LIVING ─► CHILDREN (they end) ─► LAST (`stopped`) ─► DEAD          kill: the whole branch at once, at any point

1. A cell's asyncio task is held by the system until it has ended; it never ends with an exception nobody sees.
2. Terminate: children first (youngest first), then `stopped`, then dead letters, then watchers hear of it, once.
3. `terminated` is done within a bound after `kill`, whatever user code does: cancelled, cancelled again after
   `kill_timeout_s`, given up after as much again. That is a failure of the system, which names the line it hangs at.
4. An end that nobody asked for is a failure: user code that raises CancelledError though nobody cancelled it is decided
   about by the policy; a cancel from outside (a loop that shuts down) ends the branch, escalates, and is passed on.
5. An actor that has been told to stop does not wait for a backoff: what it had not got to becomes dead letters.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ..runtime import AiostormError
from .actor import Actor, maybe_await
from .deathwatch import DeathWatch
from .dispatcher import Stepper, call_as
from .errors import ActorCancelledError, AskFailedError, KillTimeoutError, MailboxClosedError
from .mailbox import Mailbox
from .maker import Maker, kind_of
from .messages import Begun, ChildEscalated, DeadLetter, Question, Stop, Terminated
from .policy import Decision, Directive, FailureHistory, RestartPolicy
from .reaper import Reaper, where
from .ref import Ref
from .timers import Timer, Timers

if TYPE_CHECKING:
    from .system import ActorSystem

log = logging.getLogger("aiostorm.actors")


class _Phase(enum.Enum):
    LIVING = enum.auto()
    CHILDREN = enum.auto()
    LAST = enum.auto()
    DEAD = enum.auto()


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
        mailbox.claim(f"actor {path}")
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
        self.killed = False
        self.stop_asked = False
        self.answer: Callable[[Any], Any] | None = None  # while its actor may answer at once, see Ref.ask
        self.answered = 0  # so often in a row
        self.raised: BaseException | None = None  # by an answer at once; its asyncio task raises it
        self.ref = Ref(self)
        self.deathwatch = DeathWatch(self.ref, mailbox)
        self._actor: Actor | None = None
        self._names = 0
        self._incarnation = 0
        self._born_in = parent._incarnation if parent is not None else 0
        self._phase = _Phase.LIVING
        self._begun = False
        self._cancelled: asyncio.CancelledError | None = None
        self._reaper: Reaper | None = None
        self._context = copy_context()
        self._task: asyncio.Task[None]
        self._maker = Maker(self, actor)

    def start(self) -> None:
        """Begin to live. Apart from the making: an eager task factory runs the first step right here."""
        self._task = self.system.guard(self._run(), name=self.path, context=self._context)
        self._task.add_done_callback(self._never_began)

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
        if self._phase is not _Phase.LIVING or self.killed:
            raise MailboxClosedError(f"{self.path or '/'} has stopped: it cannot have children any more")
        if name is None:
            name = self._free_name(kind_of(actor))
        if "/" in name or not name:
            raise ValueError(f"an actor's name is not empty and has no '/': {name!r}")
        if name in self.children:
            raise ValueError(
                f"{self.path or '/'} already has a child named {name!r} (a name is free once it has ended)"
            )
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
        system.cells.add(child)
        child.start()
        return child.ref

    def stop(self) -> None:
        """End in order."""
        if not self.stop_asked and self._phase is not _Phase.DEAD:
            self.stop_asked = True
            self.mailbox.post(Stop())

    def kill(self) -> None:
        """End now, with all children. A second kill also interrupts what user code does in answer to the first."""
        if self._phase is _Phase.DEAD:
            return
        self._doom()
        # While children end there is nothing to interrupt: they are killed too. A coroutine that is cancelled before
        # its first step would not run at all: it looks at `killed` when it begins.
        if self._begun and self._phase in (_Phase.LIVING, _Phase.LAST):
            self._task.cancel()

    def as_task(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function in the step of another asyncio task, as the actor's own, in its context."""
        return call_as(self.loop, self._task, self._context, function, argument)

    def stepper(self, step: Callable[[], None]) -> Stepper:
        """For `Mailbox.wait_steps`: the actor's asyncio task is the one that waits there."""
        waits = self.mailbox.takes_steps
        return Stepper(self.system.dispatcher, self.loop, self._task, self._context, waits, step)

    def concerns(self, message: ChildEscalated) -> bool:
        """Is it about a child of this incarnation? The last one took its children with it."""
        return message.ref._cell._born_in == self._incarnation

    def refusal(self, error: BaseException) -> AiostormError:
        """What somebody who asked hears when `receive` ended with `error`."""
        if isinstance(error, asyncio.CancelledError) and self._is_cancelled():
            return MailboxClosedError(f"actor {self.path} was stopped while it handled the question")
        failed = AskFailedError(f"{self.path} failed on the question: {error!r}")
        failed.__cause__ = error
        return failed

    # -- life --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        self._task = task
        self._begun = True
        thrown: BaseException | None = None
        try:
            if not self.killed:
                await self._lives()
        except asyncio.CancelledError as cancelled:
            if not self.killed:
                self._cancelled_outside(cancelled)
        except (KeyboardInterrupt, SystemExit) as error:
            # Goes straight through the loop: what is alive then is cancelled by whoever ran it.
            self.error = error
            self._doom()
            self._bury()
            raise
        except BaseException as error:  # not an Exception: no policy decides about it
            if isinstance(error, GeneratorExit) and asyncio.current_task(self.loop) is not task:
                raise  # the loop was closed under us: nothing can be awaited any more
            self.error = thrown = error
            self._escalate(error)
            self._doom()
        await self._terminate()
        if thrown is not None:
            raise thrown
        if self._cancelled is not None:
            raise self._cancelled

    async def _lives(self) -> None:
        """One incarnation after the other, until there is no next."""
        decision: Decision | None = Decision(Directive.RESTART)
        while decision is not None:
            try:
                await self._live(decision)
                return
            except asyncio.CancelledError as cancelled:
                if self._is_cancelled():
                    raise
                error = ActorCancelledError(
                    f"{self.path}: something it awaited was cancelled, though the actor was not"
                )
                error.__cause__ = cancelled
                decision = await self._failed(error)
            except Exception as raised:
                decision = await self._failed(raised)

    async def _live(self, decision: Decision) -> None:
        if self._actor is None or decision.directive is Directive.RESTART:
            fresh = self._maker.make()
            self._actor = None  # `stopped` is for an actor that did start
            await maybe_await(fresh.started())
            self._actor = fresh
        if not self.killed:  # `started` may have swallowed the cancel
            await self._actor.run()

    async def _failed(self, error: Exception) -> Decision | None:
        """What is decided about a failure, and done; None if there is no next incarnation (or next message)."""
        if self.killed:  # raised in answer to the kill
            self.error = error
            self.system.report(self.path, error, Decision(Directive.STOP))
            return None
        try:
            decision = self.history.failed(error, self.system.clock.monotonic(), resumable=self._actor is not None)
        except Exception as broken:  # the policy's own `decide`
            decision = Decision(Directive.ESCALATE)
            self.system.report(self.path, broken, decision)
        self.system.report(self.path, error, decision)
        match decision.directive:
            case Directive.RESUME:
                await asyncio.sleep(0)  # others get the loop, though every message fails
                return decision
            case Directive.RESTART:
                self.timers.cancel_all()
                await self._end_children_soon()
                self._incarnation += 1
                return decision if await self._back_off(decision.delay_s) else None
            case Directive.STOP:
                self.error = error
            case Directive.ESCALATE:
                self.error = error
                self._escalate(error)
        return None

    async def _back_off(self, delay_s: float) -> bool:
        """Wait before a restart. False if it is to stop: then there is no restart after a wait."""
        await asyncio.sleep(0)
        if delay_s <= 0:
            return True
        monotonic = self.system.clock.monotonic
        until_s = monotonic() + delay_s
        while not self.stop_asked and (left_s := until_s - monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self.mailbox.wait_nudge()  # an arrival: perhaps the stop; it stays in the mailbox
            except TimeoutError:
                break
        return not self.stop_asked

    def _escalate(self, error: BaseException) -> None:
        if self.parent is None:
            self.system.fail(self.path, error)
        else:
            self.parent.mailbox.post(ChildEscalated(self.ref, error))

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _terminate(self) -> None:
        if self._phase is _Phase.DEAD:
            return  # given up earlier; it has ended after all
        self._phase = _Phase.CHILDREN
        try:
            self.timers.close(f"actor {self.path} has stopped")
            self.mailbox.close(f"actor {self.path} has stopped")
            await self._end_children()
            self._phase = _Phase.LAST
            if self._reaper is not None:
                self._reaper.begin()
            await self._last_words()
        except asyncio.CancelledError as cancelled:
            if not self._is_cancelled():
                self.system.report(self.path, cancelled, Decision(Directive.STOP))
            elif not self.killed:
                self._cancelled_outside(cancelled)
        except Exception as error:
            self.system.report(self.path, error, Decision(Directive.STOP))
        finally:
            self._bury()

    async def _end_children(self) -> None:
        """Youngest first; those of a killed actor are killed already."""
        while self.children:
            child = next(reversed(self.children.values()))
            if not self.killed:
                child.stop()
            try:
                await asyncio.shield(child.terminated)
            except asyncio.CancelledError as cancelled:
                if self._phase is _Phase.LIVING:
                    raise
                if not self.killed:
                    self._cancelled_outside(cancelled)

    async def _end_children_soon(self) -> None:
        """Before a restart. With a bound: the mailbox is open, nobody reads it, and a child may wait for room in it."""
        limit_s = self.system.stop_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self._end_children()
        except TimeoutError:
            log.warning("%s restarts: its children did not stop in %g s and are killed", self.path, limit_s)
            for child in list(self.children.values()):
                child.kill()
            await self._end_children()

    async def _last_words(self) -> None:
        actor = self._actor
        if actor is None:
            return
        if not self.killed:
            await self._hear_children(actor)
        await maybe_await(actor.stopped())

    async def _hear_children(self, actor: Actor) -> None:
        """Children may have given up while they ended: the actor's own hook decides, as ever, then the parent's."""
        heard: list[ChildEscalated] = []
        for message in self._left_over():
            if isinstance(message, ChildEscalated):
                heard.append(message)
            else:
                self._lose(message)
        for message in heard:
            try:
                await maybe_await(actor.child_escalated(message.ref, message.error))
            except Exception as error:
                self.system.report(self.path, error, Decision(Directive.ESCALATE))
                if self.error is None:
                    self.error = error
                    self._escalate(error)

    def _bury(self) -> None:
        if self._phase is _Phase.DEAD:
            return
        self._phase = _Phase.DEAD
        if self._reaper is not None:
            self._reaper.end()
        try:
            for message in self._left_over():
                self._lose(message)
            self.mailbox.late = self._lose
            self.deathwatch.end(self.error)
        finally:  # others wait for this
            if self.parent is not None:
                self.parent.children.pop(self.path.rpartition("/")[2], None)
            self.system.cells.discard(self)
            self.terminated.set_result(None)

    def _left_over(self) -> list[Any]:
        self.mailbox.close(f"actor {self.path} has stopped")
        return self.mailbox.remove_all()

    def _lose(self, message: Any) -> None:
        """A message that will not be received: whoever asked is told, the rest are dead letters."""
        if isinstance(message, Question):
            if not message.reply.done():
                message.reply.set_exception(MailboxClosedError(f"actor {self.path} stopped before it answered"))
            message = message.message
            if isinstance(message, Begun):
                message.close()
                message = message.message
        if isinstance(message, ChildEscalated) and not self.killed:
            self.system.fail(message.ref.path, message.error)
        elif not isinstance(message, Stop | Terminated | Timer | ChildEscalated):
            self.system.dead_letters.add(DeadLetter(self.path, message, "the actor ended before it got to it"))

    # -- kill and cancel ---------------------------------------------------------------------------------------------

    def _doom(self) -> None:
        """From here on it only ends, and so does everything below it."""
        if self.killed:
            return
        self.killed = True
        for child in reversed(list(self.children.values())):
            if not child.killed:
                child.kill()
        self.timers.cancel_all()
        for message in self._left_over():
            self._lose(message)
        self._reaper = Reaper(
            self.loop,
            self.system.kill_timeout_s,
            waits=lambda: self._phase is _Phase.CHILDREN,
            cancel=self._task.cancel,
            give_up=self._give_up,
        )
        self._reaper.begin()

    def _give_up(self) -> None:
        self.error = KillTimeoutError(
            f"{self.path} was killed and does not end: it swallows CancelledError (catch it only to clean up, then "
            f"raise it again). It hangs at {where(self._task)}"
        )
        self.system.give_up(self._task, self.error)
        self._bury()

    def _is_cancelled(self) -> bool:
        """Is a CancelledError that arrives now meant for the actor, and not for something that it awaits?"""
        return self.killed or self._task.cancelling() > 0

    def _cancelled_outside(self, cancelled: asyncio.CancelledError) -> None:
        """Somebody who is not its guardian cancelled it: it ends as if killed, and the cancel is passed on."""
        if self._cancelled is None:
            self._cancelled = cancelled
        if self.error is None:
            self.error = ActorCancelledError(f"{self.path or '/'} was cancelled, and not by its guardian")
            self.error.__cause__ = cancelled
            if not self.system.closing:
                self.system.report(self.path, self.error, Decision(Directive.ESCALATE))
                self._escalate(self.error)
        self._doom()

    def _never_began(self, task: asyncio.Task[None]) -> None:
        """An asyncio task that is cancelled before its first step ends without having run at all."""
        if not self._begun:
            self._cancelled_outside(asyncio.CancelledError("before it began"))
            self._bury()

    def _free_name(self, kind: str) -> str:
        while True:
            self._names += 1
            name = f"{kind}-{self._names}"
            if name not in self.children:
                return name
