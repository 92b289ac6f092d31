"""Tracked topology: a running topology, and waits for a test.

    feed ─► spouts ─► … ─► wait_all_acked     every message is acked, or the error says which is not, and why
                      └──► wait_emitted(n)    n more tuples were emitted and nothing moves; bolts may hold some

1. The components run as they do in production. Only the spouts' tasks have a hook, which counts and records failures.
2. The final result of a message counts: one that failed, was emitted again under its id and then acked, is acked.
3. A failure is reported once: by the `wait_all_acked` that raises it.
4. Nothing polls. The waits are those of RunningTopology, which are exact.

Storm: TrackedTopology, Testing.trackedWait, and the counts "spout-emitted", "transferred" and "processed". There what
goes to ackers counts too, and a wait for fewer tuples than were emitted never ends (depart).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..topology import Config, Failure, Row, TaskHook, Topology, TopologyContext
from .errors import NotAckedError, WaitTimeoutError
from .fakes import with_fakes
from .hooked import hooked
from .spouts import WAIT_S

if TYPE_CHECKING:
    from ..cluster import LocalCluster, RunningTopology

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A message that failed and was not acked later: its spout, its id, and why."""

    spout: str
    message_id: Any
    failure: Failure

    def __str__(self) -> str:
        why = self.failure
        where = f" in {why.component}[{why.task}]" if why.component else ""
        error = f": {why.error}" if why.error else ""
        return f"{self.spout}: message {self.message_id!r:.200}: {why.reason}{where}{error}"


class TrackedTopology:
    """A running topology whose messages are counted. Made by `track_topology`.

    `running` is the topology itself. The counts are of this moment.
    """

    def __init__(self, running: RunningTopology, watch: _MessageCounts) -> None:
        self.running = running
        self._watch = watch
        self._waited_for = 0

    @property
    def emitted(self) -> int:
        """Tuples that spouts emitted, replays included. Storm: spout-emitted."""
        return self._watch.emitted

    @property
    def transferred(self) -> int:
        """Tuples that were sent to tasks, one for each task that gets it."""
        return sum(component.transferred for component in self.running.metrics().values())

    @property
    def processed(self) -> int:
        """Tuples that bolts executed."""
        return sum(metrics.executed for metrics in self.running.metrics().values())

    @property
    def acked(self) -> int:
        """Messages that were acked."""
        return self._watch.acked

    @property
    def failed(self) -> int:
        """Failures of messages; a message that failed twice counts twice."""
        return self._watch.failed

    @property
    def failures(self) -> list[FailedMessage]:
        """The messages that failed, were not acked later, and were not reported by a `wait_all_acked`."""
        return list(self._watch.failures.values())

    async def wait_all_acked(self, timeout_s: float | None = WAIT_S) -> None:
        """Wait until everything that was emitted, and all that results from it, is done and every message is acked.

        NotAckedError if messages failed (once all others are settled, too). WaitTimeoutError after `timeout_s` seconds
        of the loop's time, with the open messages; a spout that always has more to emit is never done, so deactivate it
        first. TopologyFailedError if a component was given up.
        """
        try:
            await self.running.wait_idle(timeout_s)
        except TimeoutError:
            raise WaitTimeoutError(f"not all was acked after {timeout_s:g} s; {self._describe()}") from None
        self._waited_for = self.emitted
        if self._watch.failures:
            failures = self.failures
            self._watch.failures.clear()
            raise NotAckedError(_failure_text(failures), failures)

    async def wait_emitted(self, count: int = 1, timeout_s: float | None = WAIT_S) -> None:
        """Wait until `count` more tuples were emitted since the last wait, and nothing moves any more.

        Every tuple that was sent is executed and every ack handled. Messages may be pending: bolts may hold tuples.
        More than `count` is no error; the surplus counts for the next wait. WaitTimeoutError after `timeout_s`.
        """
        target = self._waited_for + count
        try:
            await self.running.wait_still(timeout_s, until=lambda: self.emitted >= target)
        except TimeoutError:
            missing = target - self.emitted
            said = f"{count - missing} of {count} tuples were emitted" if missing > 0 else "something still moved"
            raise WaitTimeoutError(f"{said} after {timeout_s:g} s; {self._describe()}") from None
        self._waited_for = target

    def _describe(self) -> str:
        failures = [str(failed) for failed in self.failures[:_SHOWN]]
        counts = (
            f"{self.emitted} emitted, {self.transferred} transferred, {self.processed} processed, "
            f"{self.acked} acked, {self.failed} failed"
        )
        return "\n  ".join([f"{open_messages(self.running)}; {counts}", *failures])


async def track_topology(
    cluster: LocalCluster,
    topology: Topology,
    config: Config | Mapping[str, Any] | None = None,
    *,
    name: str = "tracked",
    resources: Mapping[str, Any] | None = None,
) -> TrackedTopology:
    """Submit a topology and watch its messages: `tracked = await track_topology(local_cluster, topology)`.

    `resources`: as in `complete_topology`. Raises what `cluster.submit` raises.
    """
    topology = with_fakes(topology, resources)
    watch = _MessageCounts()
    watched = {
        spec.id: hooked(spec, lambda: _SpoutHook(watch)) if spec.kind == "spout" else spec
        for spec in topology.components.values()
    }
    return TrackedTopology(await cluster.submit(name, replace(topology, components=watched), config), watch)


def open_messages(running: RunningTopology) -> str:
    """For the error of a wait: which messages are open, and the last errors in user code."""
    ids = {spout: found[:_SHOWN] for spout, found in running.pending().items() if found}
    errors = "".join(f"\n  {report}" for report in running.errors()[-5:])
    return f"open messages: {ids or 'none'}{errors}"


class _MessageCounts:
    """What the spouts' hooks have counted."""

    def __init__(self) -> None:
        self.emitted = 0
        self.acked = 0
        self.failed = 0
        self.failures: dict[Hashable, FailedMessage] = {}


class _SpoutHook(TaskHook):
    """The hook of one spout task."""

    def __init__(self, watch: _MessageCounts) -> None:
        self._watch = watch
        self._spout = ""

    def prepare(self, context: TopologyContext) -> None:
        self._spout = context.component

    def emit(self, values: Row, stream: str, task_id: int) -> None:
        self._watch.emitted += not stream.startswith("__")  # a dead letter is no new tuple

    def spout_ack(self, message_id: Any, task_id: int, complete_latency_s: float) -> None:
        self._watch.acked += 1
        if self._watch.failures:
            self._watch.failures.pop(self._key(message_id), None)

    def spout_fail(self, message_id: Any, task_id: int, failure: Failure) -> None:
        self._watch.failed += 1
        self._watch.failures[self._key(message_id)] = FailedMessage(self._spout, message_id, failure)

    def _key(self, message_id: Any) -> Hashable:
        try:
            hash(message_id)
        except TypeError:  # an id may be anything; the FailedMessage keeps it, so its address stays its own
            return self._spout, id(message_id)
        return self._spout, message_id


def _failure_text(failures: list[FailedMessage]) -> str:
    lines = [f"  {failed}" for failed in failures[:_SHOWN]]
    more = f"\n  … and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
    return f"{len(failures)} message{'s' * (len(failures) > 1)} failed:\n" + "\n".join(lines) + more
