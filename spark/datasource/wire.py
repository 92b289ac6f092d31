"""Wire: what Spark's executors and the spouts and bolts of `format("aiostorm")` say to each other. Pure.

    a writer                     a spout task      a reader                       a bolt task
       │ ── Hello ────────────────► │                 │ ── Hello ──────────────────► │
       │ ◄─ Welcome | Refused ───── │                 │ ◄─ Welcome | Refused ─────── │
       │ ── Offer seq, chunk ─────► │                 │ ── Look from, limits ──────► │     what is there?
       │ ◄─ Send seq ────────────── │ has room        │ ◄─ Kept log, first, end ──── │
       │ ── Data … ───────────────► │                 │ ── Fetch log, begin, end ──► │
       │ ◄─ Done | Failed seq ───── │ its tree is     │ ◄─ Chunk at, Data … ──────── │     as many as were asked
       │ ── Commit stream, batch ─► │ acked           │ ── Trim log, end ──────────► │
       │ ◄─ Done 0 ──────────────── │                 │ ◄─ Done 0 ────────────────── │

1. A frame is a kind (one byte) and the fields of its message, packed; or DATA and a part of a chunk. A chunk's size was
   said before, at most MAX_CHUNK_BYTES; its parts come in order, of at most PART_BYTES, with no other message between.
2. What is not exactly a message of this table is a ProtocolError, and ends the connection.
3. Both say the version first; another one is refused, with both numbers.
4. Alive comes from the spout or bolt every ALIVE_S; who hears nothing for SILENCE_S dials again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, get_type_hints

from ...runtime import LIVENESS
from ...transport import ProtocolError, UnreadableError, pack_value, unpack_value

WIRE_VERSION: Final = 1

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
    """Base of the messages. `kind` is the first byte."""

    kind: ClassVar[bytes] = b""


@dataclass(frozen=True, slots=True)
class ClientHello(Message):
    """Who dialled says what it is about to send (an empty batch, packed; or nothing), and what it is, for the log."""

    kind: ClassVar[bytes] = b"\x11"
    version: int
    name: str
    shape: bytes


@dataclass(frozen=True, slots=True)
class ServerWelcome(Message):
    """Which task of which component it is, the schema of what it takes or gives, as far as it is known."""

    kind: ClassVar[bytes] = b"\x12"
    version: int
    component: str
    task: int
    tasks: int
    shape: bytes


@dataclass(frozen=True, slots=True)
class Rejected(Message):
    """No, and why: for who reads Spark's error."""

    kind: ClassVar[bytes] = b"\x13"
    reason: str


@dataclass(frozen=True, slots=True)
class Alive(Message):
    """Nothing new."""

    kind: ClassVar[bytes] = b"\x14"


@dataclass(frozen=True, slots=True)
class Offer(Message):
    """A chunk that the writer has.

    `stream`: whose batches are counted (a query's id; empty for a batch write), `batch`: -1 for a batch write.
    `chunk`: the text that is its identity; `digest` of what it holds. `size`: of the packed chunk, in bytes.
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
    """There is room for it: send its data next."""

    kind: ClassVar[bytes] = b"\x16"
    seq: int


@dataclass(frozen=True, slots=True)
class Done(Message):
    """All of its rows have been processed; or what was asked has been done."""

    kind: ClassVar[bytes] = b"\x17"
    seq: int


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """The topology could not process it, as often as it tried."""

    kind: ClassVar[bytes] = b"\x18"
    seq: int
    error: str


@dataclass(frozen=True, slots=True)
class Commit(Message):
    """The batch of a stream is whole: it comes again at most as the same."""

    kind: ClassVar[bytes] = b"\x19"
    stream: str
    batch: int


@dataclass(frozen=True, slots=True)
class LogQuery(Message):
    """What is there from `begin` on (-1: from what this consumer has committed)? At most so much; 0: no limit.

    All before `begin` has been processed where `done` is true: it may go.
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
    """Of this log the chunks from `first` to before `end` are there; to before `upto` within the limits."""

    kind: ClassVar[bytes] = b"\x1b"
    log: str
    first: int
    committed: int
    upto: int
    end: int


@dataclass(frozen=True, slots=True)
class FetchChunks(Message):
    """Give these chunks, one after another."""

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
    """This consumer has processed all before `end`."""

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
    """The frame of a message."""
    values = tuple(getattr(message, field.name) for field in fields(message))  # type: ignore[arg-type]
    return message.kind + pack_value(values)


def unpack(frame: bytes) -> Message:
    """The message of a frame that is no DATA. ProtocolError if it is none."""
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
    """A chunk's data in parts that a frame carries. No data is no part."""
    view = memoryview(data)
    for begin in range(0, len(data), PART_BYTES):
        yield view[begin : begin + PART_BYTES]


class ChunkAssembly:
    """The data of one chunk, from its parts."""

    def __init__(self, size: int) -> None:
        if not 0 < size <= MAX_CHUNK_BYTES:
            raise ProtocolError(f"a chunk has 1 to {MAX_CHUNK_BYTES:,} bytes, not {size:,}")
        self._size = size
        self._parts: list[bytes] = []
        self._come = 0

    def add(self, frame: bytes) -> bytes | None:
        """A DATA frame has come. All data, when it is whole. ProtocolError if it is none, or more than was said."""
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
    """A text of ours that a message carries."""
    said = str(text)
    return said if len(said) <= MAX_TEXT_CHARS else said[: MAX_TEXT_CHARS - 2] + " …"
