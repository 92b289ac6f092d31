"""Pushing: runs in Spark's Python workers when executors send partitions themselves. Uses public API only.

executor: batches of a partition ─► chunks ─► socket ─► the spout's process, which reads when it has capacity

    server ─ nonce 32 ─►  ◄─ partition 8, HMAC-SHA256(token, nonce, partition) 32 ─  ─ answer 1, length 4, acked runs ─►
           ◄─ number 8, rows 8, digest 8, size 8 (-1: left out), an Arrow IPC message ─ … ◄─ number -1 ─   ─ done 1 ─►

1. Nothing is read ahead: a full socket stops the executor, and the steps before it.
2. A chunk that is acked already is computed, but only its digest is sent.
3. Of a partition that is not wanted only the first batches are computed: so a small one is read to its end, since Spark
   does not reuse a Python worker that has not read its input, and a new one takes 0.5 s to start.
4. The end says whether the input was complete (1 in place of the digest), as far as that is known.
5. The task ends well only after the receiver has read all of it: else Spark runs it again.

This file, chunking.py and digests.py are pickled by value for the executors (aiostorm need not be installed there):
they import nothing else of aiostorm.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .chunking import Chunker, digest_of

NONCE_BYTES = 32
# Formats, not Structs: those cannot be pickled.
PROOF, PROOF_BYTES = ">q32s", 40
ANSWER, ANSWER_BYTES = ">BI", 5
CHUNK, CHUNK_BYTES = ">qqQq", 32
WANTED, NOT_WANTED, BUSY = 1, 0, 2
LEFT_OUT = -1
CONNECT_S = 60.0
UNWANTED_BATCHES = 4


def pusher(
    address: tuple[str, int], token: bytes, authority: str | None, schema: bytes, chunk_rows: int
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function for `mapInArrow`. `authority`: the CA (PEM) of the receiver; None: no TLS."""

    def push(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib

        import pyarrow as pa

        context = importlib.import_module("pyspark").TaskContext.get()
        if context is None:
            raise RuntimeError("this runs in a Spark task")
        partition = context.partitionId()
        sent = send_partition(batches, partition, address, token, authority, schema, chunk_rows)
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


def send_partition(
    batches: Iterator[Any],
    partition: int,
    address: tuple[str, int],
    token: bytes,
    authority: str | None,
    schema: bytes,
    chunk_rows: int,
) -> int:
    """Send the chunks of a partition. Returns their number (0 if it is not wanted)."""
    import pyarrow as pa

    wanted = pa.ipc.read_schema(pa.py_buffer(schema))
    with _connected(address, authority) as sock:
        skipped = _opened(sock, partition, token)
        if skipped is None:
            for _ in itertools.islice(batches, UNWANTED_BATCHES):
                pass
            return 0
        chunker, number = Chunker(chunk_rows), 0
        for batch in batches:
            for chunk in chunker.add(_cast(batch, wanted)):
                _send(sock, number, chunk, skipped)
                number += 1
        whole = input_is_whole()
        last = chunker.end()
        if last is not None:
            _send(sock, number, last, skipped)
            number += 1
        sock.sendall(struct.pack(CHUNK, -1, number, whole, 0))
        received(sock, 1)
        return number


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


def proof(token: bytes, nonce: bytes, partition: int) -> bytes:
    """The proof of knowing the token."""
    return hmac.new(token, nonce + struct.pack(">q", partition), hashlib.sha256).digest()


def received(sock: Any, count: int) -> bytes:
    """Receive `count` bytes. ConnectionError if the other side has closed the connection."""
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = sock.recv_into(view[at:])
        if not got:
            raise ConnectionError("the other side of a pushed partition closed the connection")
        at += got
    return bytes(data)


def _connected(address: tuple[str, int], authority: str | None) -> Any:
    sock = socket.create_connection(address, CONNECT_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)  # the receiver answers when it has capacity for this partition
        if authority is None:
            return sock
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=authority)
        return context.wrap_socket(sock, server_hostname=address[0])
    except BaseException:
        sock.close()
        raise


def _opened(sock: Any, partition: int, token: bytes) -> list[tuple[int, int]] | None:
    """Announce a partition. Returns the runs of chunks not to send; None: the partition is not wanted."""
    nonce = received(sock, NONCE_BYTES)
    sock.sendall(struct.pack(PROOF, partition, proof(token, nonce, partition)))
    answer, length = struct.unpack(ANSWER, received(sock, ANSWER_BYTES))
    if answer == NOT_WANTED:
        return None
    if answer != WANTED:
        raise RuntimeError(f"partition {partition} is read from another attempt of this task")
    runs = []
    for part in received(sock, length).decode("ascii").split(",") if length else []:
        first, _, last = part.partition("-")
        runs.append((int(first), int(last or first)))
    return runs


def _send(sock: Any, number: int, chunk: Any, skipped: list[tuple[int, int]]) -> None:
    digest = digest_of(number, chunk)
    if any(first <= number <= last for first, last in skipped):
        sock.sendall(struct.pack(CHUNK, number, chunk.num_rows, digest, LEFT_OUT))
        return
    body = chunk.replace_schema_metadata(None).serialize()
    sock.sendall(struct.pack(CHUNK, number, chunk.num_rows, digest, len(body)))
    sock.sendall(body)


def _cast(batch: Any, schema: Any) -> Any:
    """Cast to the declared types: Spark's types have the session's time zone; the values are the same instants."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
