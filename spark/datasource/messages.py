"""Messages: what is sent between Spark's executors and the spouts and bolts of `format("aiostorm")`. Pure.

    a writer                     a spout task      a reader                       a bolt task
       │ ── ClientHello ──────────► │                 │ ── ClientHello ────────────► │
       │ ◄─ ServerWelcome|Rejected ─│                 │ ◄─ ServerWelcome|Rejected ── │
       │ ── Offer seq, chunk ─────► │                 │ ── LogQuery from, limits ──► │     which chunks?
       │ ◄─ Send seq ────────────── │ has capacity    │ ◄─ LogState log, first, end ─│
       │ ── Data … ───────────────► │                 │ ── FetchChunks begin, end ─► │
       │ ◄─ Done | Failed seq ───── │ its tree is     │ ◄─ ChunkHeader at, Data … ── │     one after another
       │ ── Commit stream, batch ─► │ acked           │ ── Trim log, end ──────────► │
       │ ◄─ Done 0 ──────────────── │                 │ ◄─ Done 0 ────────────────── │

1. A frame is a kind (one byte) and the encoded fields of its message; or DATA and a part of a chunk. A chunk's size is
   sent before, at most MAX_CHUNK_BYTES; its parts follow in order, of at most PART_BYTES, without messages between.
2. Anything but a message of this table is a ProtocolError, and ends the connection.
3. Both sides send their version first; another version is refused, with both numbers.
4. The spout or bolt sends Alive every ALIVE_S; a client that receives nothing for SILENCE_S reconnects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, get_type_hints

from ...runtime import LIVENESS
from ...transport import ProtocolError, UnreadableError, pack_value, unpack_value

VERSION: Final = 1

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
    its identity; `digest`: of its contents. `size`: of the encoded chunk, in bytes.
    """

    kind: ClassVar[bytes] = b"\x15"
    seq: int
    stream: str
    batch: int
    chunk: str
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Send(Message):
    """Request: send the data of this offer next."""

    kind: ClassVar[bytes] = b"\x16"
    seq: int


@dataclass(frozen=True, slots=True)
class Done(Message):
    """All its rows are processed; or the request is done."""

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
)
_KINDS: Final[dict[bytes, tuple[type[Message], tuple[type, ...]]]] = {
    one.kind: (one, tuple(get_type_hints(one)[field.name] for field in fields(one))) for one in _ALL
}


def pack(message: Message) -> bytes:
    """Encode a message as a frame."""
    values = tuple(getattr(message, field.name) for field in fields(message))  # type: ignore[arg-type]
    return message.kind + pack_value(values)


def unpack(frame: bytes) -> Message:
    """Decode a frame other than DATA. ProtocolError if it is invalid."""
    found = _KINDS.get(frame[:1])
    if found is None or len(frame) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a frame of {len(frame)} bytes that begins with {frame[:1].hex() or 'nothing'} came")
    kind, types = found
    try:
        values = unpack_value(memoryview(frame)[1:])
    except UnreadableError as error:
        raise ProtocolError(f"a {kind.__name__} that cannot be read: {error}") from error
    if type(values) is not tuple or tuple(map(type, values)) != types:
        raise ProtocolError(f"a {kind.__name__} with other fields than it has came")
    if any(type(value) is str and len(value) > MAX_TEXT_CHARS for value in values):
        raise ProtocolError(f"a {kind.__name__} with a text of more than {MAX_TEXT_CHARS} characters came")
    return kind(*values)


def parts_of(data: bytes) -> Iterator[memoryview]:
    """Split a chunk's data into parts for frames. Empty data has no parts."""
    view = memoryview(data)
    for begin in range(0, len(data), PART_BYTES):
        yield view[begin : begin + PART_BYTES]


class ChunkAssembly:
    """Assembles the data of one chunk from its parts."""

    def __init__(self, size: int) -> None:
        if not 0 < size <= MAX_CHUNK_BYTES:
            raise ProtocolError(f"a chunk has 1 to {MAX_CHUNK_BYTES:,} bytes, not {size:,}")
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
