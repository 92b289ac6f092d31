"""Sink: a bolt that writes to another system in two phases, so that each row is there once.

    execute … execute ─ pre_commit(n) ─► handle ─ the snapshot is durable ─► commit(handle)   maybe several times
                                            │
                                            ╰──── the snapshot has failed ─► abort(handle)    the rows stay received

1. `pre_commit` returns what is needed to write the rows since the call before: the handle. It is saved with the
   snapshot. Nothing is visible yet.
2. `commit` makes the rows visible. It may be called again with the same handle, also on another instance in another
   process, and also after it was interrupted anywhere: then it completes, and repeats nothing.
3. `abort` says that this snapshot does not count. The task goes on, and its sources do not repeat the rows: they belong
   to the next handle. (If sources repeat rows, tasks are built again: `restored` is called instead.)
4. `restored` is called on each new instance after the handles of the restored snapshot were committed again, and before
   the first row: what was prepared for greater numbers can be removed.

From: Flink's TwoPhaseCommitSinkFunction, without its transaction objects: the handle is plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime import AiostormError
from ...topology import BasicBolt, Component

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...topology import Fields, Guarantee, StreamId


class SinkError(AiostormError):
    """A sink that cannot commit: what it has prepared is lost, or another program has changed what it writes to."""


class Commits(Component):
    """The two phases (see the module), for a bolt that also runs without snapshots. Then they are not called.

    Handles are sendable values; None: no rows. Make a large handle a list: its items are saved one by one, between
    other work, and each of them is limited.
    """

    def problems(self, inputs: Mapping[StreamId, Fields]) -> list[str]:
        """A sink has all three methods."""
        three = ("pre_commit", "commit", "abort")
        missing = [method for method in three if getattr(type(self), method) is getattr(Commits, method)]
        if not missing:
            return super().problems(inputs)
        return [f"{type(self).__name__} defines no {', no '.join(missing)}: a Sink needs {', '.join(three)}"]

    def pre_commit(self, number: int) -> Any:
        """All rows before snapshot `number` were executed. Return what `commit` needs to write them; None: nothing.

        Raise SaveError for what may end by itself, such as a full disk: the snapshot fails, the sink keeps its rows,
        and the next snapshot is tried later. After any other error all tasks go back to the last snapshot.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pre_commit")

    def commit(self, handle: Any) -> Any:
        """The snapshot is durable: make its rows visible, once."""
        raise NotImplementedError(f"{type(self).__name__} must define commit")

    def abort(self, handle: Any) -> Any:
        """The snapshot has failed: the rows belong to the next handle."""
        raise NotImplementedError(f"{type(self).__name__} must define abort")

    def held_rows(self) -> int | None:
        """How many rows it keeps in memory until they are committed; None: all that came since the last commit.

        Also those that `pre_commit` has returned, if `abort` takes them into memory again: else spouts would go on with
        each attempt at a snapshot, and each that fails would add rows. At `sink_held_max_rows`, or
        `sink_held_max_bytes`, the spouts wait. Called between rows; it must be quick.
        """
        return None

    def restored(self, number: int | None) -> Any:
        """The tasks begin again from snapshot `number` (None: from the start). Later numbers were not committed."""


class Sink(Commits, BasicBolt):
    """The base of bolts that commit with snapshots, and only so. See Commits."""

    def refused(self, guarantee: Guarantee) -> list[str]:
        """It commits with snapshots, which are only taken with exactly-once."""
        if guarantee == "exactly-once":
            return []
        advice = "use Config(guarantee='exactly-once'), or a bolt that writes in execute"
        return [f"{type(self).__name__} is a Sink: without snapshots it would never write its rows. So {advice}"]
