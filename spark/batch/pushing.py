"""Pushing: runs in Spark's Python workers when executors send partitions themselves. Uses public API only.

executor: batches of a partition ─► chunks ─► ServerClient ─► the spout's process, which reads when it has capacity

1. Nothing is read ahead: the next chunk is computed when this one was received.
2. A chunk that is acked already is computed, but only its offer is sent.
3. Of a partition that is not wanted only the first batches are computed: so a small one is read to its end, since Spark
   does not reuse a Python worker that has not read its input, and a new one takes 0.5 s to start.
4. End says whether the input was complete, as far as that is known.
5. The task ends well only after the receiver has read all of it: else Spark runs it again. A connection that is lost
   ends the task, too: only a new attempt sends the partition again.

This file and chunking.py are pickled by value for the executors, as the client is (see by_value): they import nothing
else of aiostorm.
"""

from __future__ import annotations

import itertools
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...transport import Credentials, Secret, Security
from ..executors.client import ChunkWriter, ServerClient, receive_message
from ..executors.endpoints import Endpoint
from ..executors.messages import ROLE_BATCH, Claim, Done, End, Message, Offer, Send, pack
from .chunking import Chunker, digest_of

if TYPE_CHECKING:
    from ...transport import BlockingConnection

MODULES = (__name__, f"{__package__}.chunking")
PATIENCE_S = 10.0
UNWANTED_BATCHES = 4
CLUSTER = "spark"


@dataclass(frozen=True, slots=True)
class PushSecurity(Security):
    """The security of an executor, which has no files. `authority`: the CA (PEM) of the receiver; None: no TLS."""

    authority: str | None = None

    def client_context(self) -> ssl.SSLContext | None:
        if self.authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self.authority)
        return context


@dataclass(frozen=True)  # with slots the cloudpickle of PySpark 3.5 loses the values
class PushLocation:
    """Where an executor sends its partition. Plain values, since executors get it."""

    address: str
    token: bytes = field(repr=False)
    authority: str | None = None
    role: str = ROLE_BATCH
    patience_s: float = PATIENCE_S

    def tasks(self) -> list[Endpoint]:
        """The one task that receives."""
        return [Endpoint("", 0, 1, self.address)]

    def security(self) -> PushSecurity:
        """The client's security."""
        return PushSecurity(Credentials(CLUSTER, Secret(self.token)), authority=self.authority)


def pusher(where: PushLocation, schema: bytes, chunk_rows: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function for `mapInArrow`."""

    def push(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib

        import pyarrow as pa

        context = importlib.import_module("pyspark").TaskContext.get()
        if context is None:
            raise RuntimeError("this runs in a Spark task")
        partition = context.partitionId()
        sent = send_partition(batches, partition, where, schema, chunk_rows)
        yield pa.record_batch({"partition": pa.array([partition], pa.int32()), "chunks": pa.array([sent], pa.int64())})

    return push


def sampler(wanted: list[tuple[int, int]], schema: bytes, chunk_rows: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function for `mapInArrow` that returns the digest of the first chunk of each partition in `wanted`."""

    def sample(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib

        import pyarrow as pa

        partition = importlib.import_module("pyspark").TaskContext.get().partitionId()
        if not any(begin <= partition < end for begin, end in wanted):
            return
        declared, chunker = pa.ipc.read_schema(pa.py_buffer(schema)), Chunker(chunk_rows)
        whole = (chunk for batch in batches for chunk in chunker.add(_cast(batch, declared)))
        first = next(whole, None) or chunker.end()
        if first is not None:
            digest = [f"{digest_of(0, first):016x}"]
            yield pa.record_batch({"partition": pa.array([partition], pa.int32()), "digest": pa.array(digest)})

    return sample


def send_partition(batches: Iterator[Any], partition: int, where: PushLocation, schema: bytes, chunk_rows: int) -> int:
    """Send the chunks of a partition. Returns their number (0 if it is not wanted)."""

    def is_wanted(connection: BlockingConnection) -> Message:
        connection.send(pack(Claim(partition)))
        return receive_message(connection, Send, Done)

    def end(connection: BlockingConnection) -> Done:
        connection.send(pack(End(whole)))
        return receive_message(connection, Done)

    with ServerClient(where, 0) as client:
        if isinstance(client.with_retries(is_wanted), Done):
            for _ in itertools.islice(batches, UNWANTED_BATCHES):
                pass
            return 0
        client.patience_s = 0.0
        writer, chunks, number = ChunkWriter(client), _Chunks(batches, schema, chunk_rows), 0
        for chunk in chunks:
            body = chunk.replace_schema_metadata(None).serialize()
            digest = digest_of(number, chunk).to_bytes(8, "big")
            writer.write([(Offer(0, "", -1, str(number), chunk.num_rows, digest, len(body)), body)])
            number += 1
        whole = chunks.whole
        client.with_retries(end)
        return number


class _Chunks:
    """The chunks of a partition. `whole`: whether its input was complete; known at the end."""

    def __init__(self, batches: Iterator[Any], schema: bytes, chunk_rows: int) -> None:
        import pyarrow as pa

        self.whole = False
        self._batches = batches
        self._schema = pa.ipc.read_schema(pa.py_buffer(schema))
        self._chunker = Chunker(chunk_rows)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            yield from self._chunker.add(_cast(batch, self._schema))
        self.whole = input_is_whole()
        last = self._chunker.end()
        if last is not None:
            yield last


def input_is_whole() -> bool:
    """Whether this Python worker has read all its input; False: not known. RuntimeError if it was cut off.

    If an earlier step fails, PySpark ends the input as if it were complete (the last chunk would differ the next time).
    But then the JVM has closed its side; otherwise there is more to read.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        stream: Any = frame.f_locals.get("infile") if frame.f_code.co_name == "main" else None
        if hasattr(stream, "peek"):
            if not stream.peek(1):
                raise RuntimeError("the input of this task was cut off: an earlier step of its job has failed")
            return True
        frame = frame.f_back
    return False


def _cast(batch: Any, schema: Any) -> Any:
    """Cast to the declared types: Spark's types have the session's time zone; the values are the same instants."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
