"""SparkEgressBolt: a topology's output that Spark reads: `spark.readStream.format("aiostorm")`, `spark.read`.

    … ─► execute_arrow ─► capacity? ─► kept ─► acked        LogQuery ─► LogState           (driver: offsets, per task)
                            └ waits, which stops            FetchChunks ─► ChunkHeader …   (executors: Arrow)
                              the topology                  Trim, or LogQuery with done ─► capacity

1. A tuple is acked when its batch is kept: in memory, or with `directory` on disk. From then on Spark gets it at least
   once, and a query with a checkpoint exactly once. A chunk with an identity that the topology replays is kept once
   while the log knows its name; rows without identity are kept again.
2. In memory it is lost with the process: a query that has read from it then gets an error that says so.
3. Memory is bounded: when `keep_rows` or `keep_bytes` are kept, tuples wait until Spark has committed some, and so do
   the topology and its spouts. With `when_full="forget"` the oldest chunks are dropped, read or not.
4. An offset counts chunks of one task. A chunk is removed when all `consumers` have committed it; each query is one.
"""

from __future__ import annotations

import asyncio
import os
from hashlib import blake2b
from typing import Any, Final, Literal

from ...topology import BasicBolt
from ...transport import ProtocolError
from ..digests import digest_of
from ..errors import SparkSourceError
from ..sinks.parquet_files import identity_of
from . import messages, schemas
from .chunks import batch_of, cut, empty_of
from .egress_log import ChunkInfo, EgressLog
from .egress_store import ChunkStore, DirectoryChunkStore, MemoryChunkStore
from .server import ClientConnection, DataServer, ServerSettings

CONSUMER: Final = "spark"

WhenFull = Literal["wait", "forget"]


class SparkEgressBolt(BasicBolt):
    """Keeps its input until Spark has read it.

    `schema`: a pyarrow.Schema to which batches are cast; default: that of the first batch. `listen`, `endpoints`,
    `credentials`: see SparkIngressSpout. `directory`: a folder for chunks on disk, with a folder for each task (with
    several workers it must be available to the task's next worker too). `keep_rows`, `keep_bytes`: per task.
    `consumers`: the names of the queries that read (their option `consumer`).
    """

    def __init__(
        self,
        schema: Any = None,
        *,
        endpoints: str | None = None,
        listen: str = "127.0.0.1:0",
        credentials: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        keep_rows: int = 10_000_000,
        keep_bytes: int = 256 * 1024 * 1024,
        when_full: WhenFull = "wait",
        consumers: tuple[str, ...] = (CONSUMER,),
    ) -> None:
        if keep_rows < 1 or keep_bytes < 1 or not consumers or when_full not in ("wait", "forget"):
            raise SparkSourceError(
                "keep_rows and keep_bytes are 1 at least, when_full is wait or forget, and there is a consumer"
            )
        if endpoints is None and credentials is None:
            raise SparkSourceError(
                "readers need a token: give endpoints=FOLDER (a token is made there) or credentials=FILE"
            )
        self._schema = schema
        self._settings = ServerSettings(listen, endpoints, credentials)
        self._directory = None if directory is None else os.fspath(directory)
        self._keep = keep_rows, keep_bytes
        self._forgets = when_full == "forget"
        self._consumers = tuple(consumers)
        self._shape = b""
        self._server: DataServer | None = None
        self._store: ChunkStore | None = None
        self._log: EgressLog

    async def prepare(self, context: Any) -> None:
        """Open the log, and listen."""
        self._component = context.component
        self._task, self._tasks = context.task_index, context.parallelism
        self._freed = asyncio.Event()
        self._trimming = asyncio.Lock()
        store: ChunkStore = MemoryChunkStore()
        if self._directory is not None:
            store = DirectoryChunkStore(os.path.join(self._directory, f"{self._component}-{self._task}"))
        self._store = store
        found = await store.open()
        max_rows, max_bytes = self._keep
        self._log = EgressLog(
            found.log,
            self._consumers,
            max_rows=max_rows,
            max_bytes=max_bytes,
            forgets=self._forgets,
            first=found.first,
            sizes=found.sizes,
            committed=found.committed,
        )
        if self._schema is not None:
            self._shape = empty_of(self._schema)
        elif found.sizes:
            self._set_schema(batch_of(await store.read(found.first)).schema)
        self._server = DataServer(
            self._settings, messages.ROLE_EGRESS, self._component, self._task, self._tasks, self._serve
        )
        await self._server.open()

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        """Keep a batch, when there is capacity."""
        if self._schema is None:
            self._set_schema(batch.schema)
        fitted = schemas.cast(batch, self._schema)
        name = _name_of(batch, fitted)
        for at, (part, data) in enumerate(cut(fitted)):
            if name is not None and self._log.has(f"{name}/{at}"):
                continue
            size = ChunkInfo(part.num_rows, len(data), "" if name is None else f"{name}/{at}")
            while not self._log.has_capacity(size):
                self._freed.clear()
                await self._freed.wait()
            if size.name and self._log.has(size.name):  # it arrived twice, and was kept meanwhile
                continue
            await self._open_store.add(self._log.end, size, data)
            self._log.add(size)
            if self._forgets:
                await self._trim()

    async def cleanup(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()
        if self._store is not None:
            await self._store.close()

    # -- a reader's connection ---------------------------------------------------------------------------------------

    async def _serve(self, client: ClientConnection, hello: messages.ClientHello) -> None:
        client.send(messages.ServerWelcome(messages.VERSION, self._component, self._task, self._tasks, self._shape))
        while True:
            message = await client.message()
            if isinstance(message, messages.LogQuery):
                client.send(await self._query(message))
            elif isinstance(message, messages.FetchChunks):
                self._check_offsets("", message.log, message.begin, message.end)
                for at in range(message.begin, message.end):
                    data = await self._read(at)
                    await client.send_chunk(messages.ChunkHeader(at, len(data)), data)
            elif isinstance(message, messages.Trim):
                self._check_offsets(message.consumer, message.log, max(message.end, self._log.first))
                await self._committed(message.consumer, message.end)
                client.send(messages.Done(0))
            else:
                raise ProtocolError(f"a {type(message).__name__} came from a reader")

    async def _query(self, query: messages.LogQuery) -> messages.LogState:
        log = self._log
        begin = query.begin if query.begin >= 0 else max(log.first, log.committed.get(query.consumer, log.first))
        self._check_offsets(query.consumer, query.log, begin)
        if query.done:
            await self._committed(query.consumer, begin)
        upto = log.upto(begin, query.max_rows, query.max_bytes)
        return messages.LogState(log.log, log.first, begin, upto, log.end)

    async def _read(self, at: int) -> bytes:
        try:
            return await self._open_store.read(at)
        except KeyError as error:
            raise SparkSourceError(self._log.problem("", "", at) or f"chunk {at} is not there") from error

    async def _committed(self, consumer: str, end: int) -> None:
        if self._log.trim(consumer, end):
            await self._trim()
            self._freed.set()

    async def _trim(self) -> None:
        async with self._trimming:
            await self._open_store.trim(self._log.first, dict(self._log.committed))

    def _check_offsets(self, consumer: str, log: str, begin: int, end: int | None = None) -> None:
        wrong = self._log.problem(consumer, log, begin, end)
        if wrong is not None:
            raise SparkSourceError(f"{self._component}: {wrong}")

    def _set_schema(self, schema: Any) -> None:
        self._schema = schema.remove_metadata()
        self._shape = empty_of(self._schema)

    @property
    def _open_store(self) -> ChunkStore:
        assert self._store is not None  # noqa: S101 - it is prepared
        return self._store


def _name_of(batch: Any, fitted: Any) -> str | None:
    """The name of a chunk with an identity: of chunk, part and contents. None: rows that belong to no chunk."""
    identity = identity_of(batch)
    if not identity:
        return None
    made = blake2b(digest_size=16)
    for key, value in sorted(identity.items()):
        made.update(b"%d:%s%d:%s" % (len(key), key, len(value), value))
    made.update(digest_of(fitted))
    return made.hexdigest()
