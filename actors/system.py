"""ActorSystem: the root guardian. Every actor, and every asyncio task of the framework, lives under one.

1. Leaving `async with` ends everything: in order (what was accepted is processed) or, after an exception in the block,
   at once. Nothing outlives it, also when the end itself is cancelled.
2. The end has a bound: `stop_timeout_s` for the ordered one, then about twice `kill_timeout_s` for each level of actors
   that do not let themselves be cancelled. Whoever was given up is named.
3. What nobody else handled surfaces here: an actor that escalated to the root, a guarded task that raised, an actor
   that was given up. The block ends with the first such error; all are logged.
4. An accepted message is processed or becomes a dead letter that is counted: never lost in silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from types import TracebackType
from typing import Any, Self

from ..runtime import Clock, LoopClock, Rng, SystemRng, runs, runs_no_more
from .actor import Actor
from .cell import Cell
from .deadlines import Deadlines
from .dispatcher import Dispatcher
from .errors import ActorEscalatedError, KillTimeoutError, MailboxClosedError
from .mailbox import Mailbox
from .messages import DeadLetter
from .policy import Decision, Directive, RestartPolicy
from .reaper import where
from .ref import Ref, time_out

log = logging.getLogger("aiostorm.actors")


class DeadLetters:
    """Accepted messages that were never processed: a count of all, the last thousand, and an optional listener."""

    def __init__(self, kept: int = 1000) -> None:
        self.count = 0
        self.last: deque[DeadLetter] = deque(maxlen=kept)
        self.listener: Callable[[DeadLetter], None] | None = None

    def add(self, letter: DeadLetter) -> None:
        """Count one."""
        self.count += 1
        self.last.append(letter)
        log.debug("dead letter for %s: %s", letter.path, letter.reason)
        if self.listener is not None:
            try:
                self.listener(letter)
            except Exception:  # it is told while an actor ends, which must go on
                log.exception("the listener of dead letters failed")


class ActorSystem:
    """A tree of actors in the running event loop.

    `mailbox_capacity`, `ask_timeout_s` and `policy` are defaults for its actors. `stop_timeout_s` bounds an ordered
    end (of the system, and of the children of an actor that restarts), after which what is still running is killed.
    `kill_timeout_s` is how long what was killed may take; then it is cancelled once more, then given up.
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
        self.name = name
        self.mailbox_capacity = mailbox_capacity
        self.ask_timeout_s = ask_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.kill_timeout_s = kill_timeout_s
        self.policy = policy or RestartPolicy()
        self.rng: Rng = rng or SystemRng()
        self.dead_letters = DeadLetters()
        self.on_failure: Callable[[str, BaseException, Decision], None] | None = None
        self.closing = False
        self.failure: BaseException | None = None
        self.cells: set[Cell] = set()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ask_deadlines: Deadlines | None = None
        self.dispatcher: Dispatcher
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order in which they began, and are ended
        self._given_up: set[asyncio.Task[Any]] = set()
        self._root: Cell | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop it runs in."""
        if self._loop is None:
            raise RuntimeError("the actor system has not been started: use `async with ActorSystem() as system`")
        return self._loop

    @property
    def clock(self) -> Clock:
        """Its time."""
        if self._clock is None:
            self._clock = LoopClock(self.loop)
        return self._clock

    @property
    def actors(self) -> int:
        """How many actors are alive, the root left out."""
        return len(self.cells)

    async def start(self) -> None:
        """Start in the running loop. `async with` does this."""
        if self._root is not None:
            raise RuntimeError("the actor system was started already")
        self._loop = asyncio.get_running_loop()
        runs(self)
        self.dispatcher = Dispatcher(self._loop, self.clock.stopwatch)
        if self.ask_timeout_s is not None:
            self.ask_deadlines = Deadlines(self._loop, self.ask_timeout_s, time_out)
        self._root = Cell(
            self, None, "", _Root, RestartPolicy(decide=lambda _: Directive.ESCALATE), Mailbox(1, loop=self._loop)
        )
        self._root.start()

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None = None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a top-level actor: a class or factory (a restart makes a new instance), or an instance (kept)."""
        if self._root is None:
            raise RuntimeError("the actor system has not been started: use `async with ActorSystem() as system`")
        if self.closing:
            raise MailboxClosedError(f"the actor system {self.name!r} is stopping: it takes no new actors")
        return self._root.spawn(actor, name, policy=policy, mailbox=mailbox)

    def guard(self, work: Coroutine[Any, Any, Any], *, name: str, context: Context | None = None) -> asyncio.Task[Any]:
        """Run a coroutine as an asyncio task that is held until it ends and whose exception is never lost."""
        task = self.loop.create_task(work, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def stop(self, *, drain: bool = True) -> None:
        """End all actors: in order, or at once with `drain=False`. Has a bound (see the module).

        Cancelled, it ends them at once, and is done with that before the cancel goes on.
        """
        root = self._root
        if root is None:
            return
        if asyncio.current_task() in self._tasks:
            raise RuntimeError(
                "an actor (or guarded task) cannot wait for the end of the system that it lives in: let whoever "
                "entered the system leave it"
            )
        self.closing = True
        try:
            if drain:
                await self._drain(root)
        finally:
            root.kill()
            try:
                await self._see_the_end(root)
            finally:
                runs_no_more(self)

    async def _drain(self, root: Cell) -> None:
        root.stop()
        try:
            async with asyncio.timeout(self.stop_timeout_s):
                await root.ref.wait_terminated()
        except TimeoutError:
            names = ", ".join(sorted(cell.path for cell in self.cells if not cell.children))
            log.warning("%s: still running after %g s, killed: %s", self.name, self.stop_timeout_s, names)

    async def _see_the_end(self, root: Cell) -> None:
        """Wait for the actors, then end the other asyncio tasks. Cancels are passed on only then."""
        cancelled = await _outlast(root.terminated)
        if self.ask_deadlines is not None:
            self.ask_deadlines.close()
        warned: set[asyncio.Task[Any]] = set()
        while left := self._unfinished():
            for task in left:
                task.cancel()
            waits = self.loop.create_task(asyncio.wait(left, timeout=self.kill_timeout_s))
            cancelled = await _outlast(waits) or cancelled
            left = self._unfinished()
            for task in [task for task in left if task in warned]:
                error = f"{task.get_name()} was cancelled and does not end: it hangs at {where(task)}"
                self.give_up(task, KillTimeoutError(error))
            warned.update(left)
        if cancelled is not None:
            raise cancelled

    def _unfinished(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done() and task not in self._given_up]

    def fail(self, path: str, error: BaseException) -> None:
        """Something that nobody else handles has failed: it is raised at the end of the block."""
        if self.failure is None:
            self.failure = error
        log.error("%s: %s failed for good: %r", self.name, path or "/", error, exc_info=error)

    def give_up(self, task: asyncio.Task[Any], error: BaseException) -> None:
        """An asyncio task does not end: nobody waits for it any more."""
        self._given_up.add(task)
        self.fail(task.get_name(), error)

    def report(self, path: str, error: BaseException, decision: Decision) -> None:
        """An actor failed and something was decided about it."""
        if self.on_failure is not None:
            try:
                self.on_failure(path, error, decision)
                return
            except Exception:
                log.exception("on_failure itself failed; what it was told of:")
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

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._given_up.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(task.get_name(), error)


async def _outlast(waited: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait for what has a bound of its own, though one is cancelled meanwhile; gives that cancel back."""
    cancelled: asyncio.CancelledError | None = None
    while not waited.done():
        try:
            await asyncio.shield(waited)
        except asyncio.CancelledError as again:
            cancelled = again
    return cancelled


class _Root(Actor):
    """Parent of all top-level actors: what escalates to it fails the system."""

    def receive(self, message: Any) -> None:
        raise TypeError(f"the root of an actor system takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        if not isinstance(error, Exception):
            return  # its asyncio task ends with it: that is how the system hears
        failed = ActorEscalatedError(f"{ref.path} gave up: {error!r}")
        failed.__cause__ = error
        self.system.fail(ref.path, failed)
