"""What is mutated: frames of every kind, as a peer sends them, drawn from a generator."""

from __future__ import annotations

import datetime as dt
import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own

from aiostorm.acker import Acks, Forget, Init, Verdict, VerdictKind, Verdicts
from aiostorm.acker.encoding import ACKER_MESSAGES
from aiostorm.topology import ColumnRows, Failure, Fields, Lineage, Origin, RepeatedAnchor, Segment
from aiostorm.transport import (
    PayloadKind,
    pack_bundle,
    pack_payload,
    pack_segment,
    pack_value,
    register_record,
    segments_body,
)
from aiostorm.transport.link.headers import LinkAck, LinkData, LinkFrame, LinkHello, LinkPulse, LinkRefused
from aiostorm.transport.remote.notes import Reason, ReasonCode, ask_note, note, pack_key, pack_reason, taken_note

pa: Any = _pyarrow


@register_record
@dataclass
class Reading:
    """A record that is known to both sides."""

    celsius: Any
    tags: Any


@register_record
class Colour(enum.Enum):
    """An Enum that is."""

    RED = 1
    BLUE = 2


ORIGINS = {
    origin.task: origin
    for origin in (
        Origin("split", 3, "default", Fields("word")),
        Origin("count", 4, "default", Fields("word", "count")),
        Origin("clock", 5, "default", Fields()),
        Origin("columns", 6, "default", Fields("n", "s", "d", "l")),
    )
}


def origin_of(task: int, stream: str) -> Origin:
    """What the reader of segments asks."""
    if stream != "default":
        raise KeyError(stream)
    return ORIGINS[task]


def long(rng: Random) -> int:
    """A number of 64 bits, not zero."""
    return rng.getrandbits(64) | 1


SCALARS: tuple[Callable[[Random], Any], ...] = (
    lambda rng: None,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.randrange(-40, 200),
    lambda rng: rng.getrandbits(64),
    lambda rng: -rng.getrandbits(90),
    lambda rng: rng.random(),
    lambda rng: "word" * rng.randrange(12),
    lambda rng: "wörter\ud800"[: rng.randrange(8)],
    lambda rng: rng.randbytes(rng.randrange(40)),
    lambda rng: bytearray(rng.randbytes(3)),
    lambda rng: dt.datetime(2026, 10, 25, 2, rng.randrange(60), fold=1, tzinfo=ZoneInfo("Europe/Vienna")),
    lambda rng: dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=rng.randrange(-23, 24)))),
    lambda rng: dt.date(2026, 1, rng.randrange(1, 29)),
    lambda rng: dt.time(rng.randrange(24), 30),
    lambda rng: dt.timedelta(rng.randrange(-999, 999), 5, 7),
    lambda rng: Decimal(rng.randrange(10**9)).scaleb(rng.randrange(-5, 9)),
    lambda rng: UUID(int=rng.getrandbits(128)),
    lambda rng: complex(rng.random(), 1),
    lambda rng: rng.choice(list(Colour)),
    lambda rng: np.zeros(rng.randrange(7), rng.choice(["<f8", ">i2", "|u1", "<U2", "|b1", "<M8[us]"])),
    lambda rng: np.float32(rng.random()),
    lambda rng: np.str_("x" * rng.randrange(5)),
)


def value(rng: Random, depth: int = 3) -> Any:
    """A value of the table."""
    kind = rng.randrange(9 if depth else 4)
    if kind < 4:
        return rng.choice(SCALARS)(rng)
    items = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return items
    if kind == 5:
        return tuple(items)
    if kind == 6:
        return {f"k{at}": item for at, item in enumerate(items)}
    if kind == 7:
        return rng.choice([set, frozenset])(range(rng.randrange(5))) or {1: items}
    return Reading(items, rng.random())


def batch(rng: Random) -> Any:
    """Columns, with nulls, a dictionary and lists."""
    count = rng.randrange(1, 5)
    return pa.record_batch(
        {
            "n": [rng.randrange(9) for _ in range(count)],
            "s": [rng.choice(["a", None, "xyz"]) for _ in range(count)],
            "d": pa.array([rng.choice("uv") for _ in range(count)]).dictionary_encode(),
            "l": [[1] * rng.randrange(3) for _ in range(count)],
        }
    )


def segment(rng: Random) -> Segment:
    """With any items and any anchors."""
    origin = ORIGINS[rng.choice([3, 3, 3, 4, 4, 4, 5, 6]) if rng.random() < 0.7 else rng.choice([3, 4])]
    count = rng.randrange(1, 6)
    items: Any
    if origin.task == 3:
        items = [rng.choice(SCALARS[:8])(rng) if rng.random() < 0.7 else value(rng, 2) for _ in range(count)]
    elif origin.task == 4:
        items = [("word", rng.randrange(99)) for _ in range(count)]
    elif origin.task == 5:
        items = [()] * count
    else:
        items = ColumnRows(batch(rng), False)
        count = len(items)
    anchors = rng.randrange(4)
    if anchors == 0:
        return Segment(origin, items)
    if anchors == 1:
        return Segment(origin, items, long(rng), long(rng), [rng.choice([0, 1, 300]) for _ in range(count)])
    if anchors == 2:
        return Segment(origin, items, long(rng), long(rng), RepeatedAnchor(3, count))
    roots = [long(rng), long(rng)]
    pairs = [((roots[0], 1),), ((roots[0], 2), (roots[1], 3))]
    return Segment(
        origin, items, lineage=Lineage(dict.fromkeys(roots, long(rng)), [rng.choice(pairs) for _ in range(count)])
    )


def body(rng: Random) -> bytes:
    """Of a payload of segments."""
    return segments_body([pack_segment(segment(rng)) for _ in range(rng.randrange(1, 4))])


def task_messages(rng: Random) -> bytes:
    """Of a payload of messages between ackers and tasks."""
    failure = Failure("failed", "b1", 3, "boom")
    kinds = (VerdictKind.ACK, VerdictKind.EXPIRED, VerdictKind.RESET)
    messages: list[Any] = [
        Init(3, [(long(rng), long(rng))]),
        Acks([(long(rng), long(rng))], [(long(rng), 2, failure)], [long(rng)], [(long(rng), 3, long(rng), long(rng))]),
        Forget(3),
        Verdicts([Verdict(kind, long(rng), -1 if kind is VerdictKind.ACK else 2) for kind in kinds]),
        Verdicts([Verdict(VerdictKind.FAIL, long(rng), 2, failure)]),
        Verdicts([Verdict(VerdictKind.ACK, long(rng), left=(1, 5)), Verdict(VerdictKind.ACK, long(rng), 3)]),
    ]
    packed = [ACKER_MESSAGES.pack(7, message) for message in messages]
    return bytes((0x90 | len(packed),)) + b"".join(packed)


def notes(rng: Random) -> bytes:
    """Of a payload of notes between actors."""
    made = [
        note(1, long(rng), pack_key("greeter")),
        note(1, long(rng), pack_key(long(rng))),
        note(2, long(rng), pack_value(value(rng, 2))),
        ask_note(long(rng), long(rng), pack_value(value(rng, 2))),
        note(4, long(rng), pack_value(value(rng, 2))),
        note(5, long(rng), pack_reason(Reason(ReasonCode.RAISED, "ValueError", "boom"))),
        taken_note(long(rng), 3, 400),
        note(7, long(rng), pack_reason(Reason(ReasonCode.CLOSED, "", ""))),
    ]
    return b"".join(rng.sample(made, 3))


def payload(rng: Random) -> bytes:
    """Of any kind."""
    kind = rng.choice(list(PayloadKind))
    if kind is PayloadKind.SEGMENTS:
        return pack_payload(kind, 3, body(rng))
    if kind is PayloadKind.CREDIT:
        return pack_payload(kind, 0, pack_value((1, 3, 1024, 0, 64, 1, 4, rng.randrange(99), long(rng), 16, 0)))
    if kind is PayloadKind.TASK:
        return pack_payload(kind, 0, task_messages(rng))
    if kind is PayloadKind.BUNDLE:
        made = [payload(rng) for _ in range(2)]
        return pack_bundle([one for one in made if one[0] != PayloadKind.BUNDLE] or [payload(rng)])
    return pack_payload(kind, 0, notes(rng))


def frame(rng: Random) -> bytes:
    """Of a link."""
    made: LinkFrame = rng.choice(
        [
            LinkHello(long(rng), 1, long(rng), 1, 5, True, rng.randbytes(rng.randrange(40))),
            LinkData(long(rng), rng.randrange(99), 3, payload(rng)),
            LinkAck(long(rng), rng.randrange(99)),
            LinkRefused(long(rng), 1),
            LinkPulse(long(rng), "worker-1"),
        ]
    )
    return made.encode()


def noise(rng: Random) -> bytes:
    """msgpack that no packer makes: any heads, lengths that lie."""
    made = []
    for _ in range(rng.randrange(1, 30)):
        head = rng.choice([rng.randrange(256), rng.randrange(0x80, 0xA0), rng.randrange(0xC0, 0xE0)])
        made.append(bytes((head,)))
        if rng.random() < 0.5:
            made.append(rng.choice([b"\0", b"\1", b"\0\2", b"\xff\xff", struct.pack("!I", rng.getrandbits(32))]))
        if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8:
            made.append(bytes((rng.randrange(21),)))
    return b"".join(made)
