"""The acker: a ledger with a mailbox.

Tasks send `Init`, `Acks` and `Forget` on its control lane, one of each per turn; verdicts go back to the control lanes
of the spout tasks. Its memory is bounded by the messages that are pending at the spouts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..actors import Actor, Inbox, Timer
from .ledger import Ledger, Verdict

if TYPE_CHECKING:
    from ..actors import Message
    from ..topology import Failure

EXPIRY_STEPS: Final = 20
"""Sweeps of the ledger per timeout: a tree expires at most 1/20 of the timeout too late."""

_SWEEP: Final = object()


class Init:
    """From a spout task: the trees of one turn, as (root, xor of the first edges)."""

    __slots__ = ("items", "owner")

    def __init__(self, owner: int, items: list[tuple[int, int]]) -> None:
        self.owner = owner
        self.items = items


class Acks:
    """From a bolt task, for one turn. `items`: (root, xor); `failures`: (root, index, failure); `resets`: roots.

    `detached`: (root, index, root of the sub-tree, its edge); the edges that are done are in `items`.
    """

    __slots__ = ("detached", "failures", "items", "resets")

    def __init__(
        self,
        items: list[tuple[int, int]],
        failures: list[tuple[int, int, Failure]] | None = None,
        resets: list[int] | None = None,
        detached: list[tuple[int, int, int, int]] | None = None,
    ) -> None:
        self.items = items
        self.failures = failures
        self.resets = resets
        self.detached = detached


class Forget:
    """From the spout task `owner`: its open messages have failed and its INITs are void. (A worker has died.)"""

    __slots__ = ("owner",)

    def __init__(self, owner: int) -> None:
        self.owner = owner


class Verdicts:
    """To a spout task: the verdicts about its trees, in the order of the decisions."""

    __slots__ = ("verdicts",)

    def __init__(self, verdicts: list[Verdict]) -> None:
        self.verdicts = verdicts


class AckerActor(Actor):
    """A task of the component `__acker`. `inbox_of(spout_task)` gives the inbox of a spout task."""

    def __init__(self, timeout_s: float | None, inbox_of: Callable[[int], Inbox]) -> None:
        self._inbox_of = inbox_of
        self._timer: Timer | None = None
        self.ledger = Ledger(timeout_s)

    def started(self) -> None:
        """A restart with the same instance keeps the rows: after a failed step trees expire, but never get a false ACK.

        A new instance has no rows; the spouts' own deadlines then fail those trees.
        """
        self._timer = None
        self._monotonic = self.system.clock.monotonic
        self._arm()

    def receive(self, message: Message) -> None:
        """Pass the message to the ledger, and deliver the verdicts."""
        out: list[tuple[int, Verdict]] = []
        try:
            self._post(message, self._monotonic(), out)
        finally:  # verdicts that were reached before an error still count
            if out:
                self._send(out)
        if self._timer is None:
            self._arm()

    def _post(self, message: Message, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        ledger = self.ledger
        if type(message) is Acks:
            # Failures first: if the same step completes the tree, the failed messages must not be acked with it.
            if message.failures:
                for root, index, failure in message.failures:
                    ledger.fail(root, index, failure, now_s, out)
            if message.detached:  # before the edges of these rows: those may complete the tree
                ledger.detach(message.detached, now_s, out)
            ledger.ack(message.items, now_s, out)
            if message.resets:
                for root in message.resets:
                    ledger.reset(root, now_s, out)
        elif type(message) is Init:
            for root, xor in message.items:
                ledger.init(message.owner, root, xor, now_s, out)
        elif type(message) is Forget:
            ledger.forget(message.owner)
        elif message is _SWEEP:
            self._timer = None
            ledger.expire(now_s, out)
        else:
            raise TypeError(f"an acker accepts Init, Acks and Forget, not {message!r}")

    def _arm(self) -> None:
        if self.ledger.may_expire:
            self._timer = self.after(self.ledger.early_timeout_s / EXPIRY_STEPS, _SWEEP)

    def _send(self, out: list[tuple[int, Verdict]]) -> None:
        by_owner: dict[int, list[Verdict]] = {}
        for owner, verdict in out:
            by_owner.setdefault(owner, []).append(verdict)
        for owner, verdicts in by_owner.items():
            self._inbox_of(owner).post(Verdicts(verdicts))
