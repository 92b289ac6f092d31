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
4. With exactly-once a snapshot contains the chunks since the one before, and they are added to the log when it is
   durable. The store's mark says which snapshot was added last, and from where: so a commit that is repeated, or was
   interrupted, adds what is missing. That needs `directory`.
5. An offset counts chunks of one task. A chunk is removed when all `consumers` have committed it; each query is one.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any, Final, Literal

from ...state import Commits
from ...topology import BasicBolt, Guarantee
from ...transport import ProtocolError
from ..digests import digest_of
from ..errors import SparkSourceError
from ..executors import messages
from ..executors.endpoints import Endpoint
from ..executors.server import ClientConnection, DataServer, ServerSettings
from ..sinks.parquet_files import identity_of
from . import schemas
from .chunks import batch_of, cut, empty_of
from .egress_log import ChunkInfo
from .egress_store import ChunkStore, DirectoryChunkStore, MemoryChunkStore
from .kept_chunks import KeptChunks, LogLimits

CONSUMER: Final = "spark"

WhenFull = Literal["wait", "forget"]


class SparkEgressBolt(Commits, BasicBolt):
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
        self._limits = LogLimits(tuple(consumers), keep_rows, keep_bytes, forgets=when_full == "forget")
        self._shape = b""
        self._server: DataServer | None = None
        self._kept: KeptChunks | None = None
        self._uncommitted: list[tuple[int, bytes]] = []
        self._is_exact = False

    def refused(self, guarantee: Guarantee) -> list[str]:
        """With exactly-once its log must survive."""
        problems = super().refused(guarantee)
        if guarantee == "exactly-once" and self._directory is None:
            problems.append(
                "SparkEgressBolt keeps its output in memory, where it is lost with the task: give it directory=, or "
                "use guarantee=at-least-once"
            )
        return problems

    async def prepare(self, context: Any) -> None:
        """Open the log, and listen."""
        store: ChunkStore = MemoryChunkStore()
        if self._directory is not None:
            store = DirectoryChunkStore(os.path.join(self._directory, f"{context.component}-{context.task_index}"))
        self._kept = kept = KeptChunks(store, self._limits)
        first = await kept.open()
        if self._schema is not None:
            self._shape = empty_of(self._schema)
        elif first is not None:
            self._set_schema(batch_of(first).schema)
        self._is_exact = context.config.guarantee == "exactly-once"
        self._here = here = Endpoint(context.component, context.task_index, context.parallelism, "")
        self._server = DataServer(self._settings, messages.ROLE_EGRESS, here, self._serve)
        await self._server.open()

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        """Keep a batch, when there is capacity."""
        if self._schema is None:
            self._set_schema(batch.schema)
        fitted = schemas.cast(batch, self._schema)
        if self._is_exact:
            self._uncommitted += [(part.num_rows, data) for part, data in cut(fitted)]
            return
        name = _name_of(batch, fitted)
        for at, (part, data) in enumerate(cut(fitted)):
            await self._chunks.add(ChunkInfo(part.num_rows, len(data), "" if name is None else f"{name}/{at}"), data)

    def pre_commit(self, number: int) -> Any:
        """The chunks that are added to the log when the snapshot is durable, after the task and the number."""
        chunks, self._uncommitted = self._uncommitted, []
        return [(self._here.task, number), *chunks] if chunks else None

    async def commit(self, handle: Any) -> None:
        """Add chunks to the log, when there is capacity."""
        (task, number), *chunks = handle
        if task != self._here.task:
            raise SparkSourceError(
                f"{self._here.component} had another number of tasks in the snapshot, and each has a log of its own: "
                "start with the parallelism that it had"
            )
        await self._chunks.add_snapshot(number, chunks)

    def abort(self, handle: Any) -> None:
        """The chunks belong to the next snapshot."""
        self._uncommitted = [*handle[1:], *self._uncommitted]

    def restored(self, number: int | None) -> None:
        """SparkSourceError if the log has the output of a run that is not continued."""
        if self._chunks.mark[0] > (number or 0):
            raise SparkSourceError(
                f"directory={self._directory} has the output of snapshot {self._chunks.mark[0]} of a run, and this one "
                f"begins {'from the start' if number is None else f'after snapshot {number}'}: rows would be there "
                "twice. Give it the state_dir of that run, or another directory"
            )

    async def cleanup(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()
        if self._kept is not None:
            await self._kept.close()

    # -- a reader's connection ---------------------------------------------------------------------------------------

    async def _serve(self, client: ClientConnection, hello: messages.ClientHello) -> None:
        chunks = self._chunks
        client.welcome(self._shape)
        while True:
            message = await client.message()
            try:
                if isinstance(message, messages.LogQuery):
                    client.send(await chunks.query(message))
                elif isinstance(message, messages.FetchChunks):
                    chunks.check("", message.log, message.begin, message.end)
                    for at in range(message.begin, message.end):
                        data = await chunks.read(at)
                        await client.send_chunk(messages.ChunkHeader(at, len(data)), data)
                elif isinstance(message, messages.Trim):
                    await chunks.commit(message)
                    client.send(messages.Done(0))
                else:
                    raise ProtocolError(f"a {type(message).__name__} came from a reader")
            except SparkSourceError as error:
                raise SparkSourceError(f"{client.component}: {error}") from error

    def _set_schema(self, schema: Any) -> None:
        self._schema = schema.remove_metadata()
        self._shape = empty_of(self._schema)

    @property
    def _chunks(self) -> KeptChunks:
        assert self._kept is not None  # noqa: S101 - it is prepared
        return self._kept


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
