"""SparkIngressSpout: executors write a DataFrame or a stream directly into the topology, as Arrow.

    df.write.format("aiostorm") ─► a Spark task ═ offer ═► ledger ─► request ═ data ═► emit_arrow ─► … ─► ack
                                        └──────────────── done ◄────────────────────────────────────────┘

1. A Spark task ends when every row that it wrote is processed: a chunk is acknowledged to it when its tree is acked. So
   a slow topology slows down Spark; at most `max_bytes` of chunks are here, and a few in each Spark task.
2. Each chunk has an identity, in the schema's metadata and as message id: `name/partition/chunk`, for streams
   `name/b<batch>/partition/chunk`. Delivery is at least once: chunks that were not acked when this task or Spark's died
   are written again with the same identity; a sink that uses it (ParquetSinkBolt) makes it exactly once.
3. While this task runs, a chunk that is written again is not emitted again (see the ledger).
4. A partition of Spark goes to the task of the same number (modulo the tasks), also when it is retried.
5. A chunk that fails is emitted again `retries` times; then Spark's task fails with the error of the bolt.
6. With exactly-once a snapshot contains which chunks were emitted, and a chunk is acknowledged when a durable snapshot
   contains it. So one that is written again after a restart is acknowledged, and not emitted again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from ...topology import Failure, Fields, Spout, TimeRole
from ...transport import ProtocolError
from ..digests import digest_of
from ..errors import SparkSourceError
from ..executors import messages
from ..executors.endpoints import Endpoint
from ..executors.server import ClientConnection, DataServer, ServerSettings
from . import schemas
from .chunks import batch_of
from .ingress_ledger import ActionKind, ChunkOffer, IngressLedger, LedgerAction

_IN_THREAD_BYTES: Final = 128 * 1024
"""Decoding a chunk of this size takes about a millisecond: larger ones are decoded in a thread."""

_MAX_OFFERS: Final = 64
"""The most open offers of one writer; writers have a few."""


class SparkIngressSpout(Spout):
    """Receives the rows of `df.write.format("aiostorm")` and `df.writeStream.format("aiostorm")`.

    `fields`: the columns' names; or a pyarrow.Schema: types are checked, too. `listen`: host:port, where port 0 is one
    that is free, or unix:/path; with several tasks each has a port (or path) of its own, counted from there.
    `endpoints`: a folder where each task leaves its address, and a token is made; `credentials`: a token's file, or a
    folder of `aiostorm certs node` (needed off this machine), in place of that token. `max_bytes`: of chunks that are
    not processed, per task. `retries`: of a chunk that fails. `lossy_windows`: incremental windows behind it may lose
    what they hold when the process ends (Spark's task has ended, and does not write it again); without it such a
    topology is refused.
    """

    def __init__(
        self,
        fields: Any,
        *,
        endpoints: str | None = None,
        listen: str = "127.0.0.1:0",
        credentials: str | None = None,
        max_bytes: int = 64 * 1024 * 1024,
        retries: int = 3,
        lossy_windows: bool = False,
    ) -> None:
        self._names = schemas.names_of(fields)
        self._schema = schemas.schema_of(fields)
        self.outputs = Fields(*self._names)  # type: ignore[misc]
        self._settings = ServerSettings(listen, endpoints, credentials)
        if max_bytes < 1 or retries < 0:
            raise SparkSourceError(f"max_bytes is 1 at least, retries 0: not {max_bytes} and {retries}")
        if endpoints is None and credentials is None:
            raise SparkSourceError(
                "writers need a token: give endpoints=FOLDER (a token is made there) or credentials=FILE"
            )
        self._resumes = "" if lossy_windows else "acknowledged writes"
        self._ledger = IngressLedger(max_bytes=max_bytes, retries=retries)
        self._batches: dict[str, Any] = {}
        self._ready: deque[str] = deque()
        self._server: DataServer | None = None
        self._is_exact = False

    @property
    def time_role(self) -> TimeRole:
        return TimeRole(emits_watermarks=self.watermarks, resumes=self._resumes)

    @property
    def address(self) -> str:
        """The address on which this task listens; empty before."""
        return "" if self._server is None else self._server.address

    async def open(self, context: Any, collector: Any) -> None:
        """Start to listen. With exactly-once writers are served after `restore`, or with the first `next_tuple`."""
        self._collector = collector
        self._is_exact = context.config.guarantee == "exactly-once"
        self._begun = asyncio.Event()
        if not self._is_exact:
            self._begun.set()
        here = Endpoint(context.component, context.task_index, context.parallelism, "")
        self._server = DataServer(self._settings, messages.ROLE_INGRESS, here, self._serve)
        await self._server.open()

    def next_tuple(self) -> None:
        """Emit the next chunk that has arrived."""
        self._begun.set()
        if self._ready:
            chunk = self._ready.popleft()
            self._collector.emit_arrow(self._batches[chunk], message_id=chunk)
            if self._is_exact:
                del self._batches[chunk]
                self._apply(self._ledger.kept(chunk))

    def snapshot(self) -> dict[str, Any]:
        """Which chunks were emitted."""
        return self._ledger.position()

    def restore(self, position: dict[str, Any]) -> None:
        """Continue after this position. SparkSourceError if it is none."""
        try:
            self._ledger.restore(position)
        except ValueError as error:
            raise SparkSourceError(
                f"the position in the snapshot cannot be read: {error}. Begin with an empty state_dir"
            ) from error
        self._begun.set()

    def committed(self, number: int) -> None:
        """Acknowledge the chunks that are in the snapshot to their writers."""
        self._apply(self._ledger.durable())

    def ack(self, message_id: Any) -> None:
        """Acknowledge the chunk to its writers."""
        self._batches.pop(message_id, None)
        self._apply(self._ledger.acked(message_id))

    def fail(self, message_id: Any, failure: Failure) -> None:
        """Emit the chunk again, or report the failure to its writers."""
        where = f" in {failure.component}" if failure.component else ""
        why = failure.error or (
            "not processed within message_timeout_s" if failure.reason == "timeout" else "it failed"
        )
        actions = self._ledger.failed(message_id, f"the topology fails chunk {message_id}{where}: {why}")
        if not self._ledger.is_open(message_id):
            self._batches.pop(message_id, None)
        self._apply(actions)

    async def close(self) -> None:
        """Stop listening. Writers try to reconnect for their patience."""
        if self._server is not None:
            await self._server.close()

    # -- a writer's connection ---------------------------------------------------------------------------------------

    async def _serve(self, client: ClientConnection, hello: messages.ClientHello) -> None:
        if hello.shape:
            wrong = schemas.problem(self._names, self._schema, batch_of(hello.shape).schema)
            if wrong is not None:
                raise SparkSourceError(f"{client.component}: {wrong}")
        await self._begun.wait()
        client.welcome()
        writer = _Writer(client)
        try:
            while True:
                frame = await client.receive()
                if frame[:1] == messages.DATA:
                    await self._data(writer, frame)
                    continue
                message = messages.unpack(frame)
                if isinstance(message, messages.Offer):
                    writer.add_offer(message)
                    offer = ChunkOffer(message.stream, message.batch, message.chunk, message.digest, message.size)
                    self._apply(self._ledger.offer(writer, message.seq, offer))
                elif isinstance(message, messages.Commit):
                    self._ledger.committed(message.stream, message.batch)
                    client.send(messages.Done(0))
                else:
                    raise ProtocolError(f"a {type(message).__name__} came from a writer")
        finally:
            self._apply(self._ledger.writer_lost(writer))

    async def _data(self, writer: _Writer, frame: bytes) -> None:
        """The first part of a chunk has arrived: receive the rest, and make it ready."""
        offer = writer.next_offer()
        assembly = messages.ChunkAssembly(offer.size)
        data = assembly.add(frame)
        while data is None:
            data = assembly.add(await writer.client.receive())
        if len(data) < _IN_THREAD_BYTES:
            batch = self._read(offer, data)
        else:
            batch = await asyncio.to_thread(self._read, offer, data)
        self._ledger.arrived(writer, offer.seq, offer.chunk)
        self._batches[offer.chunk] = batch
        self._ready.append(offer.chunk)
        self._collector.wake()

    def _read(self, offer: messages.Offer, data: bytes) -> Any:
        batch = batch_of(data)
        if digest_of(batch) != offer.digest:
            raise ProtocolError(f"chunk {offer.chunk} has another digest than its offer")
        return schemas.named(schemas.fitted(batch, self._names, self._schema), offer.chunk, offer.batch)

    def _apply(self, actions: list[LedgerAction]) -> None:
        for action in actions:
            if action.kind is ActionKind.AGAIN:
                self._ready.append(action.chunk)
                self._collector.wake()
            elif isinstance(action.writer, _Writer):
                action.writer.send_result(action)


class _Writer:
    """The connection with one writer, known to the ledger."""

    def __init__(self, client: ClientConnection) -> None:
        self.client = client
        self._offers: dict[int, messages.Offer] = {}
        self._sends: deque[int] = deque()

    def add_offer(self, offer: messages.Offer) -> None:
        """Add an offer. ProtocolError if it is invalid."""
        if not 0 < offer.size <= messages.MAX_CHUNK_BYTES or not offer.chunk or offer.batch < -1:
            raise ProtocolError(f"a chunk of {offer.size:,} bytes, named {offer.chunk[:80]!r}: there is none like that")
        if offer.seq in self._offers or len(self._offers) >= _MAX_OFFERS:
            raise ProtocolError("more offers came than a writer makes")
        self._offers[offer.seq] = offer

    def next_offer(self) -> messages.Offer:
        """The offer of arriving data: writers send in the order of the requests."""
        if not self._sends:
            raise ProtocolError("data came that was not asked for")
        return self._offers[self._sends.popleft()]

    def send_result(self, action: LedgerAction) -> None:
        """Send the ledger's action to the writer."""
        if action.kind is ActionKind.SEND:
            self._sends.append(action.seq)
            self.client.send(messages.Send(action.seq))
            return
        self._offers.pop(action.seq, None)
        if action.kind is ActionKind.DONE:
            self.client.send(messages.Done(action.seq))
        else:
            self.client.send(messages.Failed(action.seq, messages.clipped(action.error)))
