"""ActorSystem: the root guardian. Every actor, and every asyncio task of the framework, runs under it.

1. Leaving `async with` ends everything: in order (accepted messages are processed), or at once after an exception in
   the block. Nothing runs on, even if the end itself is cancelled.
2. The end has a bound: `stop_timeout_s` for an ordered end, then about twice `kill_timeout_s` for each level of actors
   that ignore their cancellation. An abandoned actor is named.
3. Errors that no other code handled surface here: an actor that escalated to the root, a guarded task that raised, an
   abandoned actor. The block ends with the first such error; all are logged.
4. An accepted message is processed or becomes a dead letter that is counted; it is never lost silently.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ..runtime import Clock, LoopClock, Rng, SystemRng, add_system, remove_system
from .actor import Actor
from .cell import Cell
from .dead_letters import DeadLetters
from .deadlines import Deadlines
from .dispatcher import Dispatcher
from .errors import ActorEscalatedError, MailboxClosedError
from .guarded_tasks import GuardedTasks, wait_uncancelled
from .mailbox import Mailbox
from .policy import ESCALATE_ON_FAILURE, Decision, Directive, RestartPolicy
from .ref import Ref, time_out

if TYPE_CHECKING:
    from .messages import Message

log = logging.getLogger("aiostorm.actors")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """The name of an actor system, the defaults for its actors, and the bounds of its end: see ActorSystem."""

    name: str
    mailbox_capacity: int
    ask_timeout_s: float | None
    stop_timeout_s: float
    kill_timeout_s: float
    policy: RestartPolicy


class ActorSystem:
    """A tree of actors in the running event loop.

    `mailbox_capacity`, `ask_timeout_s` and `policy` are defaults for its actors. `stop_timeout_s` bounds an ordered
    end (of the system, and of the children of a restarting actor); actors that still run then are killed.
    `kill_timeout_s` is the time that a killed actor has to end; then it is cancelled once more, then abandoned.
    """

    def __init__(
        self,
        name: str = "aiostorm",
        *,
        mailbox_capacity: int = 1024,
        ask_timeout_s: float | None = 30.0,
        stop_timeout_s: float = 10.0,
        kill_timeout_s: float = 5.0,
        policy: RestartPolicy | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.settings = SystemSettings(
            name, mailbox_capacity, ask_timeout_s, stop_timeout_s, kill_timeout_s, policy or RestartPolicy()
        )
        self.rng: Rng = rng or SystemRng()
        self.dead_letters = DeadLetters()
        self.on_failure: Callable[[str, BaseException, Decision], None] | None = None
        self.closing = False
        self.failure: BaseException | None = None
        self.cells: set[Cell] = set()
        self.ask_deadlines: Deadlines[Ref] | None = None
        self.dispatcher: Dispatcher
        self._clock = clock
        self._tasks: GuardedTasks | None = None
        self._root: Cell | None = None

    @property
    def name(self) -> str:
        """The name of the system, for its logs and errors."""
        return self.settings.name

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the system runs."""
        return self._guarded.loop if self._tasks is None else self._tasks.loop

    @property
    def _guarded(self) -> GuardedTasks:
        if self._tasks is None:
            raise RuntimeError("the actor system has not been started: use `async with ActorSystem() as system`")
        return self._tasks

    @property
    def clock(self) -> Clock:
        """The system's clock."""
        if self._clock is None:
            self._clock = LoopClock(self.loop)
        return self._clock

    @property
    def actors(self) -> int:
        """The number of running actors, without the root."""
        return len(self.cells)

    async def start(self) -> None:
        """Start in the running loop. `async with` does this."""
        if self._root is not None:
            raise RuntimeError("the actor system has already been started")
        loop = asyncio.get_running_loop()
        self._tasks = GuardedTasks(loop, self.fail)
        add_system(self)
        self.dispatcher = Dispatcher(loop, self.clock.stopwatch)
        if self.settings.ask_timeout_s is not None:
            self.ask_deadlines = Deadlines(loop, self.settings.ask_timeout_s, time_out)
        self._root = Cell(self, None, "", _Root, ESCALATE_ON_FAILURE, Mailbox(1, loop=loop))
        self._root.start()

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None = None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a top-level actor from a class or factory (a restart makes a new instance) or an instance (kept)."""
        if self._root is None:
            raise RuntimeError("the actor system has not been started: use `async with ActorSystem() as system`")
        if self.closing:
            raise MailboxClosedError(f"the actor system {self.name!r} is stopping: it starts no new actors")
        return self._root.spawn(actor, name, policy=policy, mailbox=mailbox)

    def guard(self, work: Coroutine[object, None, T], *, name: str, context: Context | None = None) -> asyncio.Task[T]:
        """Run a coroutine as an asyncio task that is referenced until it ends and whose exception is never lost."""
        return self._guarded.start(work, name=name, context=context)

    async def stop(self, *, drain: bool = True) -> None:
        """End all actors: in order, or at once with `drain=False`. It has a bound (see the module).

        If this call is cancelled, it ends all actors at once, and only then raises the cancellation.
        """
        root = self._root
        if root is None:
            return
        if asyncio.current_task() in self._guarded:
            raise RuntimeError(
                "an actor or guarded task cannot wait for the end of its own actor system: the code that entered the "
                "system must leave it"
            )
        self.closing = True
        try:
            if drain:
                await self._drain(root)
        finally:
            root.kill()
            try:
                await self._wait_for_end(root)
            finally:
                remove_system(self)

    async def _drain(self, root: Cell) -> None:
        root.stop()
        try:
            async with asyncio.timeout(self.settings.stop_timeout_s):
                await root.ref.wait_terminated()
        except TimeoutError:
            names = ", ".join(sorted(cell.path for cell in self.cells if not cell.children))
            log.warning("%s: still running after %g s, killed: %s", self.name, self.settings.stop_timeout_s, names)

    async def _wait_for_end(self, root: Cell) -> None:
        """Wait for the actors, then end the other asyncio tasks. Cancellations are raised again only after that."""
        cancelled = await wait_uncancelled(root.termination.ended)
        if self.ask_deadlines is not None:
            self.ask_deadlines.close()
        cancelled = await self._guarded.end(self.settings.kill_timeout_s) or cancelled
        if cancelled is not None:
            raise cancelled

    def fail(self, path: str, error: BaseException) -> None:
        """Record an error that no other code handles: it is raised at the end of the block."""
        if self.failure is None:
            self.failure = error
        log.error("%s: %s failed for good: %r", self.name, path or "/", error, exc_info=error)

    def give_up(self, task: asyncio.Task[object], error: BaseException) -> None:
        """Abandon an asyncio task that does not end."""
        self._guarded.give_up(task, error)

    def report(self, path: str, error: BaseException, decision: Decision) -> None:
        """Report an actor's failure and the decision about it."""
        if self.on_failure is not None:
            try:
                self.on_failure(path, error, decision)
                return
            except Exception:
                log.exception("on_failure itself failed; the failure that it was called for:")
        text = decision.directive.value
        if decision.directive is Directive.RESTART:
            text = f"restart {decision.restarts} in {decision.delay_s:g} s"
        log.error("actor %s failed (%s): %r", path, text, error, exc_info=error)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(drain=error is None)
        if error is None and self.failure is not None:
            raise self.failure


class _Root(Actor):
    """The parent of all top-level actors: a failure that escalates to it fails the system."""

    def receive(self, message: Message) -> None:
        raise TypeError(f"the root of an actor system accepts no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        if not isinstance(error, Exception):
            return  # its asyncio task ends with the same error, which the system handles
        failed = ActorEscalatedError(f"{ref.path} gave up: {error!r}")
        failed.__cause__ = error
        self.system.fail(ref.path, failed)
