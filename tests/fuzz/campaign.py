"""The campaign: frames are made, mutated and read; whatever raises anything but ProtocolError is a finding.

grammar ─▶ pool ─▶ mutate ─▶ read ─▶ value | refused | finding: the frame in hex, and how it came about
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiostorm.acker.encoding import ACKER_MESSAGES
from aiostorm.transport import PayloadKind, ProtocolError, unpack_all, unpack_segments, unpack_value
from aiostorm.transport.link.headers import decode
from aiostorm.transport.remote.notes import amounts_of, key_of, notes_in, question_of, reason_of

from . import grammar, handshake

POOL = 200
"""Frames of each kind that are mutated; the pool is drawn anew after so many mutations of each."""

EXAMPLES = 5


def read_value(data: bytes) -> None:
    unpack_value(data)


def read_segments(data: bytes) -> None:
    for segment in unpack_segments(data, grammar.origin_of):
        assert len(segment.items) == segment.open
        assert segment.indices is None or len(segment.indices) == segment.open


def read_frame(data: bytes) -> None:
    decode(data)


def read_notes(body: memoryview) -> None:
    for op, _, held in notes_in(body):
        if op == 1:
            key_of(held)
        elif op == 3:
            unpack_value(question_of(held)[1])
        elif op in (2, 4):
            unpack_value(held)
        elif op == 6:
            amounts_of(held)
        else:
            reason_of(held)


def read_payload(data: bytes) -> None:
    for kind, _, body in unpack_all(data):
        if kind is PayloadKind.SEGMENTS:
            unpack_segments(body, grammar.origin_of)
        elif kind is PayloadKind.ACTOR:
            read_notes(body)
        else:
            found = unpack_value(body)
            if kind is PayloadKind.TASK and isinstance(found, tuple):
                for item in found:
                    ACKER_MESSAGES.unpack(item)


TARGETS: dict[str, tuple[Callable[[Random], bytes], Callable[[bytes], None]]] = {
    "authentication": (handshake.step, handshake.read_step),
    "frames of a link": (grammar.frame, read_frame),
    "payloads": (grammar.payload, read_payload),
    "segments": (grammar.body, read_segments),
    "values": (lambda rng: grammar.pack_value(grammar.value(rng, 4)), read_value),
    "batches": (lambda rng: grammar.pack_value(grammar.batch(rng)), read_value),
    "noise": (grammar.noise, read_value),
}
SHARES = {
    "authentication": 20,
    "frames of a link": 10,
    "payloads": 20,
    "segments": 20,
    "values": 15,
    "batches": 5,
    "noise": 10,
}


def mutate(rng: Random, frame: bytes, other: bytes) -> bytes:
    """One to four changes: of bits, bytes, lengths, order."""
    data = bytearray(frame)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 2, 4, 8, 40]))
        match rng.randrange(9):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.choice([0, 1, 0x7F, 0x80, 0x90, 0xC1, 0xC7, 0xC9, 0xDD, 0xDF, 0xFF])
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = rng.randbytes(rng.choice([1, 2, 8]))
            case 4:
                data[at:at] = data[at:end]
            case 5:
                del data[at:]
            case 6:
                begin = rng.randrange(len(other) + 1)
                data[at:end] = other[begin : begin + rng.choice([1, 4, 40])]
            case 7:
                data[at:end] = rng.choice([b"\xff", b"\0"]) * (end - at)
            case _:
                data[at:at] = rng.choice(
                    [b"\x91", b"\xc7\xff\x01", b"\xdd\xff\xff\xff\xff", b"\xd4\x01", b"\xc9\0\1\0\0\3"]
                )
    return bytes(data)


@dataclass
class Findings:
    """What a campaign has seen."""

    frames: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""

    def look(self, name: str, data: bytes, read: Callable[[bytes], Any]) -> None:
        """Read a frame."""
        begin = time.perf_counter()
        try:
            read(data)
            outcome = "read"
        except ProtocolError:
            outcome = "refused"
        except BaseException:  # anything else is what is looked for
            outcome = "WRONG"
            if len(self.wrong) < EXAMPLES:
                self.wrong.append(f"{name}: {data.hex()}\n{traceback.format_exc()}")
        took = time.perf_counter() - begin
        if took > self.slowest_s:
            self.slowest_s, self.slowest = took, f"{name}: {data[:200].hex()}"
        self.frames += 1
        self.outcomes[name, outcome] += 1


def campaign(frames: int, seed: int, progress: Callable[[Findings], None] = lambda findings: None) -> Findings:
    """So many mutated frames, from a seed."""
    rng = Random(seed)
    findings = Findings()
    names, shares = list(SHARES), list(SHARES.values())
    pools: dict[str, list[bytes]] = {}
    for number in range(frames):
        if number % (POOL * 100) == 0:
            pools = {name: [make(rng) for _ in range(min(POOL, frames))] for name, (make, _) in TARGETS.items()}
            progress(findings)
        (name,) = rng.choices(names, shares)
        pool = pools[name]
        data = mutate(rng, rng.choice(pool), rng.choice(pool))
        findings.look(name, data, TARGETS[name][1])
    return findings
