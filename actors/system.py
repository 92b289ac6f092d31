"""ActorSystem: the root guardian. Every actor, and every asyncio task of the framework, lives under one.

1. Leaving `async with` ends everything: in order (what was accepted is processed) or, after an exception in the block,
   at once. Nothing outlives it.
2. What nobody else handled surfaces here: an actor that escalated to the root, or a guarded task that raised, ends the
   block with that error.
3. An accepted message is processed or becomes a dead letter that is counted: never lost in silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from .actor import Actor
from .cell import Cell
from .clock import Clock, LoopClock
from .errors import ActorEscalatedError
from .mailbox import Mailbox
from .messages import DeadLetter
from .policy import Decision, Directive, RestartPolicy
from .ref import Ref
from .rng import Rng, SystemRng

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
            self.listener(letter)


class ActorSystem:
    """A tree of actors in the running event loop.

    `mailbox_capacity`, `ask_timeout_s` and `policy` are defaults for its actors; `stop_timeout_s` bounds an ordered end,
    after which what is still running is killed.
    """

    def __init__(
        self,
        name: str = "aiostorm",
        *,
        mailbox_capacity: int = 1024,
        ask_timeout_s: float | None = 30.0,
        stop_timeout_s: float = 10.0,
        policy: RestartPolicy | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.name = name
        self.mailbox_capacity = mailbox_capacity
        self.ask_timeout_s = ask_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.policy = policy or RestartPolicy()
        self.rng: Rng = rng or SystemRng()
        self.dead_letters = DeadLetters()
        self.on_failure: Callable[[str, BaseException, Decision], None] | None = None
        self.closing = False
        self.failure: BaseException | None = None
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
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
        return max(0, len(self._tasks) - 1)

    async def start(self) -> None:
        """Start in the running loop. `async with` does this."""
        if self._root is not None:
            raise RuntimeError("the actor system was started already")
        self._loop = asyncio.get_running_loop()
        self._root = Cell(
            self, None, "", _Root, RestartPolicy(decide=lambda _: Directive.ESCALATE), Mailbox(1, loop=self._loop)
        )

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
        return self._root.spawn(actor, name, policy=policy, mailbox=mailbox)

    def guard(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine as an asyncio task that is held until it ends and whose exception is never lost."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self, *, drain: bool = True) -> None:
        """End all actors: in order, or at once with `drain=False`. Bounded by `stop_timeout_s`."""
        root = self._root
        if root is None:
            return
        self.closing = True
        if drain:
            root.ref.stop()
            try:
                async with asyncio.timeout(self.stop_timeout_s):
                    await root.ref.wait_terminated()
            except TimeoutError:
                log.warning("%s: actors still ran after %g s and were killed", self.name, self.stop_timeout_s)
        root.kill()
        while self._tasks:
            for task in list(self._tasks):
                if task is not root._task:
                    task.cancel()
            await asyncio.wait(list(self._tasks))

    def fail(self, path: str, error: BaseException) -> None:
        """Something that nobody else handles has failed: it is raised at the end of the block."""
        if self.failure is None:
            self.failure = error
            log.error("%s: %s failed for good: %r", self.name, path or "/", error, exc_info=error)

    def report(self, path: str, error: BaseException, decision: Decision) -> None:
        """An actor failed and something was decided about it."""
        if self.on_failure is not None:
            self.on_failure(path, error, decision)
            return
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
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(task.get_name(), error)


class _Root(Actor):
    """Parent of all top-level actors: what escalates to it fails the system."""

    def receive(self, message: Any) -> None:
        raise TypeError(f"the root of an actor system takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        failed = ActorEscalatedError(f"{ref.path} gave up: {error!r}")
        failed.__cause__ = error
        self.system.fail(ref.path, failed)
