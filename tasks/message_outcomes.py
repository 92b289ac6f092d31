"""MessageOutcomes: what becomes of a spout task's messages: acked, failed, replayed or given up; the spout is notified.

    verdict ─► pending ─► acked  ─► spout.ack
                       └► failed ─► retries ─► replay, in a tree of its own
                                            ├► spout.fail
                                            └► the dead-letter stream, then spout.fail

1. An error in the spout's `ack` or `fail` is reported and changes nothing: the message is settled.
2. A message without a verdict expires: a spout task checks for such messages a few times in each timeout. Its deadline
   is one step after the one of the acker, which normally comes first: this one is for trees whose acker has died.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..acker import EXPIRY_STEPS, Emission, FailureAction, Key, Pending, Retries, Settled, Tree, Verdict, VerdictKind
from ..metrics import LONG
from ..topology import DEAD_LETTER_STREAM, AckValueSpout, Failure, FailValueSpout, Spout
from .drive import USER_ERRORS, awaited, stop_iteration_error, user_error
from .emit.lineage import UNTRACKED

if TYPE_CHECKING:
    from ..actors import Message, Timer
    from ..topology import MessageId, Returned, Row
    from .emit.spout_collector import SpoutTaskCollector
    from .task import TaskActor

_SWEEP = object()

LATE: Final = 1 + 1 / EXPIRY_STEPS


class MessageOutcomes:
    """Handles verdicts for one spout task, and notifies `spout`."""

    def __init__(
        self,
        task: TaskActor,
        spout: Spout,
        collector: SpoutTaskCollector,
        messages: OpenMessages,
        retries: Retries,
    ) -> None:
        self._task = task
        self.spout = spout
        self._collector = collector
        self._pending = messages.pending
        self._retries = retries
        self._replays = messages.replays
        # With exactly once a message is safe when its snapshot is committed, and not before.
        self.handles_acks = task.env.snapshots is None and type(spout).ack not in (Spout.ack, AckValueSpout.ack)

    async def on_verdict(self, verdict: Verdict) -> None:
        """Handle a verdict."""
        pending = self._pending
        if verdict.kind is VerdictKind.ACK:
            if verdict.index >= 0:
                tree = pending.message_acked(verdict.root, verdict.index)
                if tree is not None:
                    await self._acked(tree, verdict.root)
                return
            if verdict.failure:  # failures are repeated here: their own verdict may be lost
                for index, failure in verdict.failure.items():  # type: ignore[union-attr] # an ACK names several
                    await self._fail(verdict.root, index, failure)
            tree = pending.acked(verdict.root, verdict.left)
            if tree is not None:
                await self._acked(tree, verdict.root)
        elif verdict.kind is VerdictKind.FAIL:
            await self._fail(verdict.root, verdict.index, verdict.failure)  # type: ignore[arg-type] # a FAIL is about one
        elif verdict.kind is VerdictKind.EXPIRED:
            await self.expire([verdict.root])
        else:
            pending.reset(verdict.root, self._task.env.clock.monotonic(), verdict.index)

    async def _fail(self, root: int, index: int, failure: Failure | None) -> None:
        failed = self._pending.failed(root, index, failure)
        if failed is not None:
            await self._failed(failed, root)

    async def settle_at_once(self) -> None:
        """Messages that are not tracked are acked as soon as the call that emitted them has returned."""
        while self._collector.trees.settled_at_once:
            trees, self._collector.trees.settled_at_once = self._collector.trees.settled_at_once, []
            for tree in trees:
                await self._acked(tree)

    async def expire(self, keys: Sequence[Key]) -> None:
        """Fail every open message of these trees."""
        for key in keys:
            for settled in self._pending.expired(key, Failure("timeout")):
                await self._failed(settled, _root_of(key))

    async def fail_all(self, failure: Failure) -> None:
        """Fail every open message."""
        self._collector.trees.inits.void()
        for key in self._pending.all():
            for settled in self._pending.expired(key, failure):
                await self._failed(settled, _root_of(key))

    async def _acked(self, tree: Tree, root: int = UNTRACKED) -> None:
        """Ack every open message of a tree. The common case is one plain call per message."""
        latency_s = self._task.env.clock.monotonic() - tree.emitted_s
        counters = self._task.counters
        counters.acked += tree.open
        counters.complete_s += latency_s * tree.open
        timings = counters.complete_latency
        timings += (latency_s, tree.open)
        if len(timings) > LONG:
            timings.counts()
        tracer = self._task.acks.tracer
        if root & tracer.mask == tracer.mask and root != UNTRACKED:
            tracer.settled(root, tree.open, "acked")
        if self._retries.suspects or self._task.user.hook_calls is not None:
            for message_id in tree.open_ids():
                self._retries.settled(message_id)
                if self._task.user.hook_calls is not None:
                    self._task.user.hook_calls.call("spout_ack", message_id, self._task.task.task_id, latency_s)
        if not self.handles_acks:
            return
        if self._task.user.thread is not None or isinstance(self.spout, AckValueSpout):
            for settled in tree.settled():
                arguments: tuple[MessageId | Row, ...] = (settled.message_id,)
                if isinstance(self.spout, AckValueSpout):
                    arguments += (settled.emission.values if settled.emission is not None else (),)
                await self._task.user.notify("ack", self.spout.ack, *arguments)
            return
        await self._notify_acks(tree.open_ids())

    async def _notify_acks(self, ids: Sequence[MessageId]) -> None:
        acks = map(self.spout.ack, ids)  # called from C; a call that raises ends the loop, which is then continued
        notified = 0
        while notified < len(ids):
            raised: Exception
            try:
                for result in acks:
                    notified += 1
                    if result is not None:
                        await self._finish_ack(result)
                raised = stop_iteration_error()
            except USER_ERRORS as error:
                raised = user_error(error)
            if notified < len(ids):
                notified += 1
                self._task.report("ack", raised)
            del raised  # its traceback holds this frame

    async def _finish_ack(self, result: Returned) -> None:
        try:
            await awaited(result)
        except USER_ERRORS as error:
            self._task.report("ack", user_error(error))

    async def _failed(self, settled: Settled, root: int) -> None:
        self._task.counters.failed += 1
        failures = settled.attempts + 1
        tracer = self._task.acks.tracer
        if tracer.samples(root):
            tracer.failed(root, settled.message_id, _why(settled.failure))
        failure: Failure = replace(settled.failure, attempts=failures)  # type: ignore[type-var, assignment] # it failed
        if self._task.user.hook_calls is not None:
            self._task.user.hook_calls.call("spout_fail", settled.message_id, self._task.task.task_id, failure)
        fate = self._retries.failed(settled.message_id, failures)
        if fate is FailureAction.REPLAY and settled.emission is not None:
            self._replays.append((settled.message_id, settled.emission, failures))
            return
        if fate is FailureAction.DEAD_LETTER:
            self._dead_letter(settled, failure, failures)
        if isinstance(self.spout, FailValueSpout):
            values = settled.emission.values if settled.emission is not None else ()
            await self._task.user.notify("fail", self.spout.fail, settled.message_id, values, failure)
        else:
            await self._task.user.notify("fail", self.spout.fail, settled.message_id, failure)

    def _dead_letter(self, settled: Settled, failure: Failure, failures: int) -> None:
        """Send a message that has failed too often to the dead-letter stream, if it has a consumer."""
        emitter = self._task.emitter
        emitter.counters.dead_lettered += 1
        out = emitter.streams.get(DEAD_LETTER_STREAM)
        if out is None or not out.consumed or settled.emission is None:
            return
        emission = settled.emission
        row = (settled.message_id, emission.stream, emission.values, failure.reason, failure.error, failures)
        items, anchors = emitter.emit_buffer(UNTRACKED).buffer(out)
        items.append(out.item(row))
        anchors.append(None)


def _why(failure: Failure | None) -> str:
    """A failure as a text."""
    if failure is None:
        return ""
    where = "" if failure.component is None else f" in {failure.component}[{failure.task}]"
    return f"{failure.reason}{where}{': ' if failure.error else ''}{failure.error or ''}"


def _root_of(key: Key) -> int:
    """The root of a tree, or of the tree of a message with its own clock."""
    return key if isinstance(key, int) else key[0]


class OpenMessages:
    """The open messages of one spout task, at most `limit` (None: any number). `after` makes a timer of the task.

    `pending`: those that were emitted; `replays`: to emit again: (id, emission, failures). `timeout_s` None: nothing
    expires.
    """

    __slots__ = ("_after", "_timeout_s", "_timer", "limit", "pending", "replays")

    def __init__(self, limit: int | None, timeout_s: float | None, after: Callable[[float, Message], Timer]) -> None:
        self.limit = limit
        self.replays: deque[tuple[MessageId, Emission, int]] = deque()
        self.pending = Pending(None if timeout_s is None else timeout_s * LATE)
        self._timeout_s = timeout_s
        self._after = after
        self._timer: Timer | None = None

    def time_out_after(self, timeout_s: float) -> None:
        """Change the timeout, also for messages that are open. Without a timeout it stays so."""
        if self._timeout_s is not None:
            self._timeout_s = timeout_s
            self.pending.time_out_after(timeout_s * LATE)

    def arm(self) -> None:
        """Start the timer, if a message is open."""
        if self._timer is None and self._timeout_s is not None and len(self.pending):
            self._timer = self._after(self._timeout_s / EXPIRY_STEPS, _SWEEP)

    def overdue(self, now_s: float) -> Sequence[Key]:
        """The timer has fired: the keys of the trees that are overdue."""
        self._timer = None
        return self.pending.overdue(now_s)

    def ids(self) -> list[MessageId]:
        """The ids of messages that are neither acked nor failed for good."""
        return [*self.pending.message_ids(), *(message_id for message_id, _, _ in self.replays)]
