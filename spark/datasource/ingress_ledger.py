"""Ingress ledger: which chunks of Spark's writers are requested, being processed, or done. Pure.

    offered ─► waits for capacity ─► granted to one writer ─► its data arrived: EMITTED ─► acked ─► done, and remembered
                                        └ the writer is lost: granted to the next, if any └► failed: again, or given up

1. A chunk is emitted once while it is known, however many writers offer it: two attempts of one Spark task, or a writer
   that has reconnected. All its writers get the outcome.
2. Chunks that are granted and not acked have at most `max_bytes` (one chunk is always granted): this bounds the memory.
   Waiting offers are granted in order.
3. A chunk that was acked and is offered again is done at once while it is among the last `remembered`, or its batch is
   committed. So a batch that is written again after a failure is not emitted again, as long as this task runs.
   Otherwise it is emitted again, with the same identity: at least once.
4. One identity has one content: a chunk with another digest than before is refused.
5. With exactly-once a chunk is KEPT when it is emitted: `position` contains it, and its writers get the outcome when
   that snapshot is durable. After a restart a chunk that is in the position is done at once.
6. A chunk that fails is emitted again `retries` times; then its writers get the error, and it is forgotten: the next
   attempt of the Spark task starts again.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from ..digests import DIGEST_BYTES

MAX_STREAMS: Final = 1024

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ChunkOffer:
    """The offer of a writer. See Offer in messages.py."""

    stream: str
    batch: int
    chunk: str
    digest: bytes
    size: int


class ActionKind(enum.Enum):
    """What to send to a writer, or to do."""

    SEND = "send"
    DONE = "done"
    FAILED = "failed"
    AGAIN = "emit again"


@dataclass(frozen=True, slots=True)
class LedgerAction:
    """Answer the offer `seq` of `writer`; or emit the chunk again (AGAIN: for the shell)."""

    kind: ActionKind
    chunk: str
    writer: Hashable = None
    seq: int = 0
    error: str = ""


class _State(enum.Enum):
    WAITING = enum.auto()
    GRANTED = enum.auto()
    EMITTED = enum.auto()
    KEPT = enum.auto()


@dataclass(slots=True)
class _Entry:
    digest: bytes
    size: int
    state: _State = _State.WAITING
    offers: dict[tuple[Hashable, int], None] = field(default_factory=dict)
    granted_to: tuple[Hashable, int] | None = None
    failures: int = 0


class IngressLedger:
    """The chunks of one spout task."""

    def __init__(self, *, max_bytes: int, retries: int, remembered: int = 100_000) -> None:
        self._max_bytes = max_bytes
        self._retries = retries
        self._remembered = remembered
        self._entries: dict[str, _Entry] = {}
        self._waiting: deque[str] = deque()
        self._done: OrderedDict[str, bytes] = OrderedDict()
        self._committed: OrderedDict[str, int] = OrderedDict()
        self._in_snapshot: list[str] = []
        self.held_bytes = 0
        self.duplicates = 0

    @property
    def under_way(self) -> int:
        """The number of chunks that are neither done nor given up."""
        return len(self._entries)

    def is_open(self, chunk: str) -> bool:
        """Whether the chunk is neither done nor given up."""
        return chunk in self._entries

    def offer(self, writer: Hashable, seq: int, offer: ChunkOffer) -> list[LedgerAction]:
        """A writer offers a chunk."""
        chunk = offer.chunk
        if offer.stream and offer.batch <= self._committed.get(offer.stream, -1):
            self.duplicates += 1
            return [LedgerAction(ActionKind.DONE, chunk, writer, seq)]
        entry = self._entries.get(chunk)
        known = self._done.get(chunk) if entry is None else entry.digest
        if known is not None and known != offer.digest:
            return [LedgerAction(ActionKind.FAILED, chunk, writer, seq, _changed_contents(chunk))]
        if known is not None:
            self.duplicates += 1
        if entry is None and known is not None:
            self._done.move_to_end(chunk)
            return [LedgerAction(ActionKind.DONE, chunk, writer, seq)]
        if entry is None:
            entry = self._entries[chunk] = _Entry(offer.digest, offer.size)
            self._waiting.append(chunk)
        entry.offers[writer, seq] = None
        return self._grant()

    def arrived(self, writer: Hashable, seq: int, chunk: str) -> None:
        """The data of a granted chunk has arrived, and is emitted. KeyError if it was not granted to this writer."""
        entry = self._entries.get(chunk)
        if entry is None or entry.granted_to != (writer, seq):
            raise KeyError(f"chunk {chunk} was not granted to this writer")
        entry.state, entry.granted_to = _State.EMITTED, None

    # -- exactly once ------------------------------------------------------------------------------------------------

    def kept(self, chunk: str) -> list[LedgerAction]:
        """The chunk was emitted: it is in all later positions. Its bytes are not held any more."""
        entry = self._entries[chunk]
        entry.state = _State.KEPT
        self.held_bytes -= entry.size
        self._remember(chunk, entry.digest)
        return self._grant()

    def position(self) -> dict[str, Any]:
        """Which chunks were emitted, as far as they are remembered."""
        self._in_snapshot = [chunk for chunk, entry in self._entries.items() if entry.state is _State.KEPT]
        names, digests = "\0".join(self._done), b"".join(self._done.values())
        return {"version": _VERSION, "chunks": names, "digests": digests, "committed": dict(self._committed)}

    def durable(self) -> list[LedgerAction]:
        """The snapshot with the last position is durable: the writers of its chunks get the outcome."""
        actions: list[LedgerAction] = []
        for chunk in self._in_snapshot:
            entry = self._entries.pop(chunk)
            actions += [LedgerAction(ActionKind.DONE, chunk, writer, seq) for writer, seq in entry.offers]
        self._in_snapshot = []
        return actions

    def restore(self, position: Any) -> None:
        """Begin with a position. ValueError if it is none."""
        try:
            if position["version"] != _VERSION:
                raise ValueError(f"version {position['version']!r:.20}")
            names = position["chunks"].split("\0") if position["chunks"] else []
            digests, size = position["digests"], DIGEST_BYTES
            if len(digests) != len(names) * size:
                raise ValueError("chunks and digests differ in number")
            for at, name in enumerate(names):
                self._remember(name, bytes(digests[at * size : at * size + size]))
            for stream, batch in position["committed"].items():
                self.committed(stream, batch)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no position of this spout ({error!r:.100})") from error

    # -- outcomes of chunks ------------------------------------------------------------------------------------------

    def acked(self, chunk: str) -> list[LedgerAction]:
        """The chunk was processed."""
        entry = self._entries.get(chunk)
        if entry is None or entry.state is not _State.EMITTED:
            return []
        self._remember(chunk, entry.digest)
        return self._finish(chunk, entry, ActionKind.DONE, "")

    def failed(self, chunk: str, error: str) -> list[LedgerAction]:
        """The chunk has failed in the topology."""
        entry = self._entries.get(chunk)
        if entry is None or entry.state is not _State.EMITTED:
            return []
        entry.failures += 1
        if entry.failures <= self._retries:
            return [LedgerAction(ActionKind.AGAIN, chunk)]
        return self._finish(chunk, entry, ActionKind.FAILED, f"{error} ({entry.failures} times)")

    def writer_lost(self, writer: Hashable) -> list[LedgerAction]:
        """A writer's connection was lost. Chunks that it has sent are processed all the same."""
        actions: list[LedgerAction] = []
        for chunk, entry in list(self._entries.items()):
            for offer in [offer for offer in entry.offers if offer[0] == writer]:
                del entry.offers[offer]
            if entry.state in (_State.EMITTED, _State.KEPT) or (entry.granted_to is None and entry.offers):
                continue
            if entry.granted_to is not None and entry.granted_to[0] != writer:
                continue
            if entry.offers:
                entry.granted_to = next(iter(entry.offers))
                actions.append(LedgerAction(ActionKind.SEND, chunk, *entry.granted_to))
            else:
                self._forget(chunk, entry)
        return actions + self._grant()

    def committed(self, stream: str, batch: int) -> None:
        """Spark has committed a batch of a stream."""
        self._committed[stream] = max(batch, self._committed.get(stream, -1))
        self._committed.move_to_end(stream)
        if len(self._committed) > MAX_STREAMS:
            self._committed.popitem(last=False)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _grant(self) -> list[LedgerAction]:
        actions: list[LedgerAction] = []
        while self._waiting:
            entry = self._entries[self._waiting[0]]
            if self.held_bytes and self.held_bytes + entry.size > self._max_bytes:
                break
            chunk = self._waiting.popleft()
            self.held_bytes += entry.size
            entry.state, entry.granted_to = _State.GRANTED, next(iter(entry.offers))
            actions.append(LedgerAction(ActionKind.SEND, chunk, *entry.granted_to))
        return actions

    def _finish(self, chunk: str, entry: _Entry, kind: ActionKind, error: str) -> list[LedgerAction]:
        self._forget(chunk, entry)
        return [LedgerAction(kind, chunk, writer, seq, error) for writer, seq in entry.offers] + self._grant()

    def _forget(self, chunk: str, entry: _Entry) -> None:
        del self._entries[chunk]
        if entry.state is _State.WAITING:
            self._waiting.remove(chunk)
        else:
            self.held_bytes -= entry.size

    def _remember(self, chunk: str, digest: bytes) -> None:
        self._done[chunk] = digest
        if len(self._done) > self._remembered:
            self._done.popitem(last=False)


def _changed_contents(chunk: str) -> str:
    return (
        f"chunk {chunk} was written before with other contents. If a Spark task was retried, its rows or their order "
        "differ each time: sort them (df.sort(...)), or write them from a table. If this is another write, give it "
        "its own name (option name)"
    )
