"""Messages: what Spark's executors and the spouts and bolts of a topology send each other. Pure.

    a writer                     a spout task      a reader                       a bolt task
       │ ── ClientHello ──────────► │                 │ ── ClientHello ────────────► │
       │ ◄─ ServerWelcome|Rejected ─│                 │ ◄─ ServerWelcome|Rejected ── │
       │ ── Offer seq, chunk ─────► │                 │ ── LogQuery from, limits ──► │     which chunks?
       │ ◄─ Send seq ────────────── │ has capacity    │ ◄─ LogState log, first, end ─│
       │ ── Data … ───────────────► │                 │ ── FetchChunks begin, end ─► │
       │ ◄─ Done | Failed seq ───── │ its tree is     │ ◄─ ChunkHeader at, Data … ── │     one after another
       │ ── Commit stream, batch ─► │ acked           │ ── Trim log, end ──────────► │
       │ ◄─ Done 0 ──────────────── │                 │ ◄─ Done 0 ────────────────── │

    a partition of a batch: Claim ─► Send (or Done: it is not wanted), Offer … as above, End ─► Done

1. A frame is a kind (one byte) and the fields of its message; or DATA and a part of a chunk. A chunk's size is sent
   before, at most MAX_CHUNK_BYTES; its parts follow in order, of at most PART_BYTES, without messages between.
   A field is 8 bytes (a number), 1 (a truth value), or 4 for a length and as many (text in UTF-8, and bytes).
2. Anything but a message of this table is a ProtocolError, and ends the connection.
3. Both sides send their version first; another version is refused, with both numbers.
4. The spout or bolt sends Alive every ALIVE_S; a client that receives nothing for SILENCE_S reconnects.
5. This file also runs where aiostorm is not installed (see by_value): its codec is the standard library's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, get_type_hints

from ...runtime import LIVENESS
from ...transport import ProtocolError

VERSION: Final = 2

MAX_CHUNK_BYTES: Final = 16 * 1024 * 1024
PART_BYTES: Final = 512 * 1024
MAX_MESSAGE_BYTES: Final = 512 * 1024
MAX_TEXT_CHARS: Final = 4096

ALIVE_S: Final = LIVENESS.datasource_heartbeat_s
SILENCE_S: Final = LIVENESS.datasource_timeout_s

ROLE_SPARK: Final = "spark"
"""The role of executors and drivers."""
ROLE_INGRESS: Final = "ingress"
ROLE_EGRESS: Final = "egress"
ROLE_BATCH: Final = "batch"

DATA: Final = b"\x10"


class Message:
    """Base class of the messages. `kind` is the first byte."""

    kind: ClassVar[bytes] = b""


@dataclass(frozen=True, slots=True)
class ClientHello(Message):
    """The client's first message: the schema of its data (an encoded empty batch, or nothing), and its name."""

    kind: ClassVar[bytes] = b"\x11"
    version: int
    name: str
    shape: bytes


@dataclass(frozen=True, slots=True)
class ServerWelcome(Message):
    """The server's first message: its component and task, and the schema of its data, as far as it is known."""

    kind: ClassVar[bytes] = b"\x12"
    version: int
    component: str
    task: int
    tasks: int
    shape: bytes


@dataclass(frozen=True, slots=True)
class Rejected(Message):
    """The server refuses the client. The reason is shown in Spark's error."""

    kind: ClassVar[bytes] = b"\x13"
    reason: str


@dataclass(frozen=True, slots=True)
class Alive(Message):
    """The server is alive."""

    kind: ClassVar[bytes] = b"\x14"


@dataclass(frozen=True, slots=True)
class Offer(Message):
    """A chunk that the writer offers.

    `stream`: the stream of the batch (a query's id; empty for a batch write), `batch`: -1 for a batch write. `chunk`:
    its identity, or its number in a claimed partition; `digest`: of its contents. `size`: of the encoded chunk, in
    bytes.
    """

    kind: ClassVar[bytes] = b"\x15"
    seq: int
    stream: str
    batch: int
    chunk: str
    rows: int
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Send(Message):
    """Request: send the data of this offer next; or this partition is wanted."""

    kind: ClassVar[bytes] = b"\x16"
    seq: int


@dataclass(frozen=True, slots=True)
class Done(Message):
    """All its rows are processed (of a claimed partition: received); or the request is done."""

    kind: ClassVar[bytes] = b"\x17"
    seq: int


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """The topology could not process it, after all retries."""

    kind: ClassVar[bytes] = b"\x18"
    seq: int
    error: str


@dataclass(frozen=True, slots=True)
class Commit(Message):
    """The batch of a stream is complete: if it comes again, it is the same."""

    kind: ClassVar[bytes] = b"\x19"
    stream: str
    batch: int


@dataclass(frozen=True, slots=True)
class LogQuery(Message):
    """Request the state of the log from `begin` on (-1: from the consumer's commit), within limits; 0: no limit.

    If `done` is true, all before `begin` is committed.
    """

    kind: ClassVar[bytes] = b"\x1a"
    consumer: str
    log: str
    begin: int
    done: bool
    max_rows: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class LogState(Message):
    """The log has the chunks from `first` to before `end`; those before `upto` are within the limits."""

    kind: ClassVar[bytes] = b"\x1b"
    log: str
    first: int
    committed: int
    upto: int
    end: int


@dataclass(frozen=True, slots=True)
class FetchChunks(Message):
    """Request these chunks, one after another."""

    kind: ClassVar[bytes] = b"\x1c"
    log: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class ChunkHeader(Message):
    """The data of this chunk follows."""

    kind: ClassVar[bytes] = b"\x1d"
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Trim(Message):
    """This consumer commits all before `end`."""

    kind: ClassVar[bytes] = b"\x1e"
    consumer: str
    log: str
    end: int


@dataclass(frozen=True, slots=True)
class Claim(Message):
    """The writer has this partition of a batch, and offers its chunks in their order if it is wanted."""

    kind: ClassVar[bytes] = b"\x1f"
    partition: int


@dataclass(frozen=True, slots=True)
class End(Message):
    """The claimed partition has no more chunks. `whole`: its input was complete, as far as is known."""

    kind: ClassVar[bytes] = b"\x20"
    whole: bool


_ALL: Final = (
    ClientHello,
    ServerWelcome,
    Rejected,
    Alive,
    Offer,
    Send,
    Done,
    Failed,
    Commit,
    LogQuery,
    LogState,
    FetchChunks,
    ChunkHeader,
    Trim,
    Claim,
    End,
)
_KINDS: Final[dict[bytes, tuple[type[Message], dict[str, type]]]] = {
    one.kind: (one, {field.name: get_type_hints(one)[field.name] for field in fields(one)}) for one in _ALL
}


def pack(message: Message) -> bytes:
    """Encode a message as a frame."""
    _, types = _KINDS[message.kind]
    return message.kind + b"".join(_packed(getattr(message, name)) for name in types)


def unpack(frame: bytes) -> Message:
    """Decode a frame other than DATA. ProtocolError if it is invalid."""
    found = _KINDS.get(frame[:1])
    if found is None or len(frame) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a frame of {len(frame)} bytes that begins with {frame[:1].hex() or 'nothing'} came")
    kind, types = found
    values, at = [], 1
    try:
        for type_ in types.values():
            value, at = _unpacked(type_, frame, at)
            values.append(value)
    except (ValueError, struct.error) as error:
        raise ProtocolError(f"a {kind.__name__} that cannot be read (of another version?): {error}") from error
    if at != len(frame):
        raise ProtocolError(f"a {kind.__name__} that is longer than its fields (of another version?)")
    return kind(*values)


def _packed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("!?", value)
    if isinstance(value, int):
        return struct.pack("!q", value)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!I", len(data)) + data


def _unpacked(type_: type, frame: bytes, at: int) -> tuple[Any, int]:
    """The field at this place, and the place of the next one. ValueError, struct.error."""
    if type_ is int:
        return struct.unpack_from("!q", frame, at)[0], at + 8
    if type_ is bool:
        if frame[at : at + 1] not in (b"\0", b"\1"):
            raise ValueError("a truth value is 0 or 1")
        return frame[at] == 1, at + 1
    (length,) = struct.unpack_from("!I", frame, at)
    begin, end = at + 4, at + 4 + length
    if end > len(frame):
        raise ValueError(f"{length:,} bytes are more than there are")
    if type_ is bytes:
        return frame[begin:end], end
    text = frame[begin:end].decode()
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"a text has more than {MAX_TEXT_CHARS} characters")
    return text, end


def parts_of(data: Any) -> Iterator[memoryview]:
    """Split a chunk's data (a buffer) into parts for frames. Empty data has no parts."""
    view = memoryview(data)
    for begin in range(0, len(view), PART_BYTES):
        yield view[begin : begin + PART_BYTES]


class ChunkAssembly:
    """Assembles the data of one chunk from its parts."""

    def __init__(self, size: int, most: int = MAX_CHUNK_BYTES) -> None:
        if not 0 < size <= most:
            raise ProtocolError(f"a chunk has 1 to {most:,} bytes, not {size:,}")
        self._size = size
        self._parts: list[bytes] = []
        self._come = 0

    def add(self, frame: bytes) -> bytes | None:
        """Add a DATA frame. Returns all data when it is complete. ProtocolError if it is another frame, or too long."""
        if frame[:1] != DATA or len(frame) == 1:
            raise ProtocolError(f"data was to come, and {frame[:1].hex() or 'nothing'} came")
        self._parts.append(frame)
        self._come += len(frame) - 1
        if self._come > self._size:
            raise ProtocolError(f"a chunk of {self._size:,} bytes has {self._come:,}")
        if self._come < self._size:
            return None
        return b"".join([memoryview(part)[1:] for part in self._parts])


def clipped(text: Any) -> str:
    """A text cut to the length limit of messages."""
    said = str(text)
    return said if len(said) <= MAX_TEXT_CHARS else said[: MAX_TEXT_CHARS - 2] + " …"
