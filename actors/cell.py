"""Cell: everything around one actor, each part with one job.

run ─► supervision: one incarnation after another ─► termination: children, `stopped`, dead letters, watchers

mailbox      its messages                         children     the actors that it has started
asks         answers that are given at once       task         its asyncio task
timers       messages to itself, later            deathwatch   the actors that watch it, and that it watches
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from .actor_task import ActorTask
from .asks import Asks
from .children import Children
from .deathwatch import DeathWatch
from .errors import AskFailedError, MailboxClosedError
from .factory import base_name
from .mailbox import Mailbox
from .messages import ChildEscalated
from .ref import Ref
from .supervision import Supervision
from .termination import Phase, Termination
from .timers import Timers

if TYPE_CHECKING:
    from ..runtime import AiostormError
    from .actor import Actor
    from .dispatcher import Stepper
    from .policy import RestartPolicy
    from .system import ActorSystem


class Cell:
    """The surroundings of one actor. Internal: other code uses `Ref`, and the actor itself uses `Actor`."""

    __slots__ = (
        "asks",
        "children",
        "deathwatch",
        "mailbox",
        "parent",
        "path",
        "ref",
        "supervision",
        "system",
        "task",
        "termination",
        "timers",
    )

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
        self.parent = parent
        self.path = path
        self.mailbox = mailbox
        self.children = Children()
        self.timers = Timers(mailbox, system.loop)
        self.asks = Asks(system.loop, system.ask_deadlines)
        self.ref = Ref(self)
        self.deathwatch = DeathWatch(self.ref, mailbox)
        self.task = ActorTask(system)
        self.termination = Termination(self)
        self.supervision = Supervision(self, actor, policy)

    @property
    def name(self) -> str:
        """Its name among the children of its parent."""
        return self.path.rpartition("/")[2]

    def start(self) -> None:
        """Start the asyncio task. Not done in `__init__`: an eager task factory runs the first step right here."""
        self.task.start(self._run(), self.path, self._cancelled_unstarted)

    def spawn(
        self,
        actor: Actor | Callable[[], Actor],
        name: str | None,
        *,
        policy: RestartPolicy | None = None,
        mailbox: Mailbox | None = None,
    ) -> Ref:
        """Start a child of this cell."""
        if self.termination.phase is not Phase.RUNNING or self.termination.killed:
            raise MailboxClosedError(f"{self.path or '/'} has stopped: it cannot start children")
        if name is None:
            name = self.children.free_name(base_name(actor))
        if "/" in name or not name:
            raise ValueError(f"an actor's name must not be empty or contain '/': {name!r}")
        if name in self.children:
            raise ValueError(
                f"{self.path or '/'} already has a child named {name!r} (a name is free after its actor has ended)"
            )
        system = self.system
        policy = policy or system.settings.policy
        mailbox = mailbox or Mailbox(system.settings.mailbox_capacity, loop=system.loop)
        child = Cell(system, self, f"{self.path}/{name}", actor, policy, mailbox)
        self.children.add(name, child)
        system.cells.add(child)
        child.start()
        return child.ref

    def stop(self) -> None:
        """Stop after the accepted messages."""
        self.termination.stop()

    def kill(self) -> None:
        """End now, with all children. A second kill also interrupts the clean-up that the first one started."""
        self.termination.kill()

    def stepper(self, step: Callable[[], None]) -> Stepper:
        """For `Mailbox.wait_steps`, in which the actor's asyncio task waits."""
        return self.task.stepper(self.mailbox.takes_steps, step)

    def escalate(self, error: BaseException) -> None:
        """The actor has failed for good: notify its parent; the root's failure is the system's."""
        if self.parent is None:
            self.system.fail(self.path, error)
        else:
            self.parent.mailbox.post(ChildEscalated(self.ref, error))

    def ask_error(self, error: BaseException) -> AiostormError:
        """The error that the caller of `ask` gets if `receive` ended with `error`."""
        if isinstance(error, asyncio.CancelledError) and self.termination.is_cancelled:
            return MailboxClosedError(f"actor {self.path} was stopped while it handled the question")
        failed = AskFailedError(f"{self.path} failed to answer the question: {error!r}")
        failed.__cause__ = error
        return failed

    async def _run(self) -> None:
        termination = self.termination
        self.task.begin()
        thrown: BaseException | None = None
        try:
            if not termination.killed:
                await self.supervision.run()
        except asyncio.CancelledError as cancelled:
            if not termination.killed:
                termination.cancel_outside(cancelled)
        except (KeyboardInterrupt, SystemExit) as error:
            # These errors go straight through the event loop: asyncio.run cancels what still runs.
            termination.error = error
            termination.kill_branch()
            termination.finish()
            raise
        except BaseException as error:  # not an Exception: the policy does not decide about it
            if isinstance(error, GeneratorExit) and not self.task.is_current:
                raise  # the event loop was closed: nothing can be awaited any more
            termination.error = thrown = error
            self.escalate(error)
            termination.kill_branch()
        await termination.run()
        if thrown is not None:
            raise thrown
        if termination.cancelled is not None:
            raise termination.cancelled

    def _cancelled_unstarted(self) -> None:
        self.termination.cancel_outside(asyncio.CancelledError("cancelled before its first step"))
        self.termination.finish()
