"""Cell: everything around one actor: its mailbox, children, watchers, timers and restarts.

    run ─► incarnate ─► actor.run ──returns──► terminate
               ▲             │ raises
               │        FailureHistory.failed
               └─ RESTART ───┼── RESUME: run again, same instance
                  (backoff)  ├── STOP ──────► terminate
                             └── ESCALATE ──► notify the parent, terminate

    RUNNING ─► STOPPING_CHILDREN ─► STOPPING (`stopped`) ─► TERMINATED      kill: the whole branch, at any point

1. The system keeps a reference to the cell's asyncio task until the task has ended, and reports its exception.
2. Terminate: children first (youngest first), then `stopped`, then dead letters, then each watcher is notified once.
3. After `kill`, `terminated` is done within a bound, whatever user code does: the task is cancelled, cancelled again
   after `kill_timeout_s`, and abandoned after the same time again. The system then fails and names the hanging line.
4. An unexpected end is a failure. If user code raises CancelledError without a cancellation, the policy decides. A
   cancel from outside (an event loop that shuts down) ends the branch, escalates, and is raised again.
5. An actor that was asked to stop does not wait for a backoff: its remaining messages become dead letters.
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
from .factory import ActorFactory, base_name
from .mailbox import Mailbox
from .messages import ChildEscalated, DeadLetter, Question, StartedAnswer, Stop, Terminated
from .policy import Decision, Directive, FailureHistory, RestartPolicy
from .reaper import Reaper, suspended_at
from .ref import Ref
from .timers import Timer, Timers

if TYPE_CHECKING:
    from .system import ActorSystem

log = logging.getLogger("aiostorm.actors")


class _Phase(enum.Enum):
    RUNNING = enum.auto()
    STOPPING_CHILDREN = enum.auto()
    STOPPING = enum.auto()
    TERMINATED = enum.auto()


class Cell:
    """The surroundings of one actor. Internal: other code uses `Ref`, and the actor itself uses `Actor`."""

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
        self.answer: Callable[[Any], Any] | None = None  # set while the actor may answer at once, see Ref.ask
        self.answered = 0  # answers at once in a row
        self.raised: BaseException | None = None  # by an answer at once; the actor's asyncio task raises it again
        self.ref = Ref(self)
        self.deathwatch = DeathWatch(self.ref, mailbox)
        self._actor: Actor | None = None
        self._names = 0
        self._incarnation = 0
        self._parent_incarnation = parent._incarnation if parent is not None else 0
        self._phase = _Phase.RUNNING
        self._begun = False
        self._cancelled: asyncio.CancelledError | None = None
        self._reaper: Reaper | None = None
        self._context = copy_context()
        self._task: asyncio.Task[None]
        self._factory = ActorFactory(self, actor)

    def start(self) -> None:
        """Start the asyncio task. Not done in `__init__`: an eager task factory runs the first step right here."""
        self._task = self.system.guard(self._run(), name=self.path, context=self._context)
        self._task.add_done_callback(self._ended_unstarted)

    # -- called by the actor -----------------------------------------------------------------------------------------

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a child of this cell."""
        if self._phase is not _Phase.RUNNING or self.killed:
            raise MailboxClosedError(f"{self.path or '/'} has stopped: it cannot start children")
        if name is None:
            name = self._free_name(base_name(actor))
        if "/" in name or not name:
            raise ValueError(f"an actor's name must not be empty or contain '/': {name!r}")
        if name in self.children:
            raise ValueError(
                f"{self.path or '/'} already has a child named {name!r} (a name is free after its actor has ended)"
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
        """Stop after the accepted messages."""
        if not self.stop_asked and self._phase is not _Phase.TERMINATED:
            self.stop_asked = True
            self.mailbox.post(Stop())

    def kill(self) -> None:
        """End now, with all children. A second kill also interrupts the clean-up that the first one started."""
        if self._phase is _Phase.TERMINATED:
            return
        self._kill_branch()
        # While children stop there is nothing to interrupt: they are killed too. A coroutine that is cancelled before
        # its first step would not run at all, so `_run` checks `killed` when it starts.
        if self._begun and self._phase in (_Phase.RUNNING, _Phase.STOPPING):
            self._task.cancel()

    def as_task(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function within the step of another asyncio task, but as this actor's task and in its context."""
        return call_as(self.loop, self._task, self._context, function, argument)

    def stepper(self, step: Callable[[], None]) -> Stepper:
        """For `Mailbox.wait_steps`, in which the actor's asyncio task waits."""
        waits = self.mailbox.takes_steps
        return Stepper(self.system.dispatcher, self.loop, self._task, self._context, waits, step)

    def is_current_child(self, message: ChildEscalated) -> bool:
        """Is the message about a child of this incarnation? Children of an earlier incarnation have ended."""
        return message.ref._cell._parent_incarnation == self._incarnation

    def ask_error(self, error: BaseException) -> AiostormError:
        """The error that the caller of `ask` gets if `receive` ended with `error`."""
        if isinstance(error, asyncio.CancelledError) and self._is_cancelled():
            return MailboxClosedError(f"actor {self.path} was stopped while it handled the question")
        failed = AskFailedError(f"{self.path} failed to answer the question: {error!r}")
        failed.__cause__ = error
        return failed

    # -- running -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        self._task = task
        self._begun = True
        thrown: BaseException | None = None
        try:
            if not self.killed:
                await self._run_incarnations()
        except asyncio.CancelledError as cancelled:
            if not self.killed:
                self._cancelled_outside(cancelled)
        except (KeyboardInterrupt, SystemExit) as error:
            # These errors go straight through the event loop: asyncio.run cancels what still runs.
            self.error = error
            self._kill_branch()
            self._finish()
            raise
        except BaseException as error:  # not an Exception: the policy does not decide about it
            if isinstance(error, GeneratorExit) and asyncio.current_task(self.loop) is not task:
                raise  # the event loop was closed: nothing can be awaited any more
            self.error = thrown = error
            self._escalate(error)
            self._kill_branch()
        await self._terminate()
        if thrown is not None:
            raise thrown
        if self._cancelled is not None:
            raise self._cancelled

    async def _run_incarnations(self) -> None:
        """Run one incarnation after another until the policy starts no more."""
        decision: Decision | None = Decision(Directive.RESTART)
        while decision is not None:
            try:
                await self._run_incarnation(decision)
                return
            except asyncio.CancelledError as cancelled:
                if self._is_cancelled():
                    raise
                error = ActorCancelledError(
                    f"{self.path}: something that it awaited was cancelled, but the actor itself was not"
                )
                error.__cause__ = cancelled
                decision = await self._failed(error)
            except Exception as raised:
                decision = await self._failed(raised)

    async def _run_incarnation(self, decision: Decision) -> None:
        if self._actor is None or decision.directive is Directive.RESTART:
            fresh = self._factory.make()
            self._actor = None  # `stopped` is only called on an actor that has started
            await maybe_await(fresh.started())
            self._actor = fresh
        if not self.killed:  # `started` may have swallowed the cancellation
            await self._actor.run()

    async def _failed(self, error: Exception) -> Decision | None:
        """Decide about a failure and carry it out. None if there is no next incarnation (or next message)."""
        if self.killed:  # raised while it was being killed
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
                await asyncio.sleep(0)  # let other tasks run even if every message fails
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
        """Wait before a restart. False if the actor was asked to stop meanwhile: then it is not restarted."""
        await asyncio.sleep(0)
        if delay_s <= 0:
            return True
        monotonic = self.system.clock.monotonic
        until_s = monotonic() + delay_s
        while not self.stop_asked and (left_s := until_s - monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self.mailbox.wait_next()  # may be the stop message; it stays in the mailbox
            except TimeoutError:
                break
        return not self.stop_asked

    def _escalate(self, error: BaseException) -> None:
        if self.parent is None:
            self.system.fail(self.path, error)
        else:
            self.parent.mailbox.post(ChildEscalated(self.ref, error))

    # -- ending ------------------------------------------------------------------------------------------------------

    async def _terminate(self) -> None:
        if self._phase is _Phase.TERMINATED:
            return  # it was abandoned earlier, but has ended after all
        self._phase = _Phase.STOPPING_CHILDREN
        try:
            self.timers.close(f"actor {self.path} has stopped")
            self.mailbox.close(f"actor {self.path} has stopped")
            await self._end_children()
            self._phase = _Phase.STOPPING
            if self._reaper is not None:
                self._reaper.begin()
            await self._call_stopped()
        except asyncio.CancelledError as cancelled:
            if not self._is_cancelled():
                self.system.report(self.path, cancelled, Decision(Directive.STOP))
            elif not self.killed:
                self._cancelled_outside(cancelled)
        except Exception as error:
            self.system.report(self.path, error, Decision(Directive.STOP))
        finally:
            self._finish()

    async def _end_children(self) -> None:
        """Youngest first. The children of a killed actor are already killed."""
        while self.children:
            child = next(reversed(self.children.values()))
            if not self.killed:
                child.stop()
            try:
                await asyncio.shield(child.terminated)
            except asyncio.CancelledError as cancelled:
                if self._phase is _Phase.RUNNING:
                    raise
                if not self.killed:
                    self._cancelled_outside(cancelled)

    async def _end_children_soon(self) -> None:
        """Before a restart. With a bound: nothing reads the open mailbox, and a child may wait for it."""
        limit_s = self.system.stop_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self._end_children()
        except TimeoutError:
            log.warning("%s restarts: its children did not stop within %g s and are killed", self.path, limit_s)
            for child in list(self.children.values()):
                child.kill()
            await self._end_children()

    async def _call_stopped(self) -> None:
        actor = self._actor
        if actor is None:
            return
        if not self.killed:
            await self._receive_escalations(actor)
        await maybe_await(actor.stopped())

    async def _receive_escalations(self, actor: Actor) -> None:
        """Children may have failed while they stopped: the actor's own hook decides, then the parent's, as always."""
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
                self.system.report(self.path, error, Decision(Directive.ESCALATE))
                if self.error is None:
                    self.error = error
                    self._escalate(error)

    def _finish(self) -> None:
        if self._phase is _Phase.TERMINATED:
            return
        self._phase = _Phase.TERMINATED
        if self._reaper is not None:
            self._reaper.end()
        try:
            for message in self._empty_mailbox():
                self._drop(message)
            self.mailbox.on_late = self._drop
            self.deathwatch.end(self.error)
        finally:  # other code waits for this
            if self.parent is not None:
                self.parent.children.pop(self.path.rpartition("/")[2], None)
            self.system.cells.discard(self)
            self.terminated.set_result(None)

    def _empty_mailbox(self) -> list[Any]:
        self.mailbox.close(f"actor {self.path} has stopped")
        return self.mailbox.remove_all()

    def _drop(self, message: Any) -> None:
        """Handle a message that will not be received: an asking caller gets an error, the rest are dead letters."""
        if isinstance(message, Question):
            if not message.reply.done():
                message.reply.set_exception(MailboxClosedError(f"actor {self.path} stopped before it answered"))
            message = message.message
            if isinstance(message, StartedAnswer):
                message.close()
                message = message.message
        if isinstance(message, ChildEscalated) and not self.killed:
            self.system.fail(message.ref.path, message.error)
        elif not isinstance(message, Stop | Terminated | Timer | ChildEscalated):
            self.system.dead_letters.add(DeadLetter(self.path, message, "the actor ended before it processed it"))

    # -- kill and cancel ---------------------------------------------------------------------------------------------

    def _kill_branch(self) -> None:
        """Kill this actor and everything below it; from now on they only end."""
        if self.killed:
            return
        self.killed = True
        for child in reversed(list(self.children.values())):
            if not child.killed:
                child.kill()
        self.timers.cancel_all()
        for message in self._empty_mailbox():
            self._drop(message)
        self._reaper = Reaper(
            self.loop,
            self.system.kill_timeout_s,
            waits=lambda: self._phase is _Phase.STOPPING_CHILDREN,
            cancel=self._task.cancel,
            give_up=self._give_up,
        )
        self._reaper.begin()

    def _give_up(self) -> None:
        self.error = KillTimeoutError(
            f"{self.path} was killed but does not end: it swallows CancelledError (catch it only to clean up, then "
            f"raise it again). It hangs at {suspended_at(self._task)}"
        )
        self.system.give_up(self._task, self.error)
        self._finish()

    def _is_cancelled(self) -> bool:
        """Was the actor itself cancelled? Otherwise a CancelledError comes from something that it awaits."""
        return self.killed or self._task.cancelling() > 0

    def _cancelled_outside(self, cancelled: asyncio.CancelledError) -> None:
        """Code outside of the actor system cancelled the task: end as if killed, and raise the cancellation again."""
        if self._cancelled is None:
            self._cancelled = cancelled
        if self.error is None:
            self.error = ActorCancelledError(f"{self.path or '/'} was cancelled by code outside of the actor system")
            self.error.__cause__ = cancelled
            if not self.system.closing:
                self.system.report(self.path, self.error, Decision(Directive.ESCALATE))
                self._escalate(self.error)
        self._kill_branch()

    def _ended_unstarted(self, task: asyncio.Task[None]) -> None:
        """An asyncio task that is cancelled before its first step ends without having run."""
        if not self._begun:
            self._cancelled_outside(asyncio.CancelledError("cancelled before its first step"))
            self._finish()

    def _free_name(self, kind: str) -> str:
        while True:
            self._names += 1
            name = f"{kind}-{self._names}"
            if name not in self.children:
                return name
