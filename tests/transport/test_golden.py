"""Golden frames: the bytes of the protocol, kept. A change here is another version of the protocol.

`golden/frames.json` has name, bytes and meaning of each, for the authors of other implementations;
docs/protocol.md shows some of them. `python -m tests.transport.test_golden` writes the file anew.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from aiostorm.topology import Fields, Lineage, Origin, RepeatedAnchor, Segment
from aiostorm.transport import (
    PayloadKind,
    pack_bundle,
    pack_payload,
    pack_segment,
    pack_value,
    register_record,
    segments_body,
    unpack_payload,
    unpack_segments,
    unpack_value,
)
from aiostorm.transport.codec import records as registry
from aiostorm.transport.link.headers import LinkAck, LinkData, LinkHello, LinkRefused, decode
from aiostorm.transport.link.parts import Lane, PayloadPart

FILE = Path(__file__).parent / "golden" / "frames.json"
PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


@dataclasses.dataclass
class Reading:
    celsius: float


class Colour(enum.Enum):
    RED = 1


WORDS = Origin("split", 3, "default", Fields("word"))
COUNTS = Origin("count", 4, "totals", Fields("word", "count"))

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "integer": 300,
    "float": 1.5,
    "str": "é",
    "bytes": b"\x00\xff",
    "tuple": (1, "a"),
    "map": {"a": 1},
    "list": [1, "a"],
    "dict": {1: "a"},
    "set": {1},
    "frozenset": frozenset({1}),
    "record": Reading(1.5),
    "enum": Colour.RED,
    "big integer": 2**64,
    "surrogate": "\ud800",
    "bytearray": bytearray(b"ab"),
    "datetime naive": dt.datetime(2026, 1, 2, 3, 4, 5, 6),
    "datetime offset": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=-1))),
    "datetime zone": dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Vienna")),
    "date": dt.date(2026, 1, 2),
    "time": dt.time(3, 4, 5),
    "timedelta": dt.timedelta(days=-1, seconds=2, microseconds=3),
    "decimal": Decimal("-1.50"),
    "uuid": UUID(int=1),
    "complex": 1 + 2j,
    "array": np.array([[1, 2]], "<i2"),
    "numpy scalar": np.float32(1.5),
}

SEGMENTS = {
    "untracked": Segment(WORDS, ["a", "b"]),
    "indices": Segment(WORDS, ["a", "b"], 1, 2, [0, 300]),
    "same": Segment(COUNTS, [("a", 1), ("b", [2])], 1, 2, RepeatedAnchor(5, 2)),
    "lineage": Segment(WORDS, ["a", "b"], lineage=Lineage({1: 2, 3: 4}, [((1, 0), (3, 7)), ((1, 1),)])),
}

FRAMES = {
    "hello": LinkHello(1, 2, 3, 4, 5, True, b"hi"),
    "data": LinkData(1, 2, 3, pack_payload(PayloadKind.CREDIT, 0, b"\x91\x00")),
    "part": LinkData(1, 2, 3, PayloadPart(Lane.ORDINARY, 200_000, 16_384, b"\xc4\x02")),
    "data that asks": LinkData(1, 2, 3, pack_payload(PayloadKind.CREDIT, 0, b"\x91\x00"), True),
    "ack": LinkAck(1, 2),
    "ack that asks": LinkAck(1, 2, True),
    "refused": LinkRefused(1, 2),
}


@pytest.fixture(autouse=True)
def known_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two records, for as long as a test takes."""
    for name in ("_BY_CLASS", "_BY_NAME", "_ENUMS", "_ENUM_NAMES"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    register()


def register() -> None:
    register_record(Reading, name="reading")
    register_record(Colour, name="colour")


def made() -> dict[str, bytes]:
    """All of them, as this version makes them."""
    found = {f"value: {name}": pack_value(value) for name, value in VALUES.items()}
    found |= {f"segment: {name}": pack_segment(segment) for name, segment in SEGMENTS.items()}
    found["payload: bundle"] = pack_bundle(
        [pack_payload(PayloadKind.CREDIT, 0, b"\x91\x00"), pack_payload(PayloadKind.TASK, 0, b"\x90")]
    )
    found["payload: segments"] = pack_payload(
        PayloadKind.SEGMENTS, 9, segments_body([pack_segment(SEGMENTS["untracked"])])
    )
    return found | {f"frame: {name}": frame.encode() for name, frame in FRAMES.items()}


def golden() -> dict[str, bytes]:
    return {entry["name"]: bytes.fromhex(entry["hex"]) for entry in json.loads(FILE.read_text("utf-8"))}


def shown(segment: Segment) -> Any:
    lineage = segment.lineage and (segment.lineage.edges, list(segment.lineage.pairs))
    indices = None if segment.indices is None else list(segment.indices)
    return segment.origin, list(segment.items), segment.root, segment.edge, indices, lineage


def test_this_version_makes_the_golden_bytes() -> None:
    assert {name: data.hex() for name, data in made().items()} == {name: data.hex() for name, data in golden().items()}


@pytest.mark.parametrize("name", VALUES)
def test_a_golden_value_is_read(name: str) -> None:
    found, value = unpack_value(golden()[f"value: {name}"]), VALUES[name]
    assert type(found) is type(value)
    assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value


@pytest.mark.parametrize("name", SEGMENTS)
def test_a_golden_segment_is_read(name: str) -> None:
    origins = {(origin.task, origin.stream): origin for origin in (WORDS, COUNTS)}
    body = segments_body([golden()[f"segment: {name}"]])
    (found,) = unpack_segments(body, lambda task, stream: origins[task, stream])
    assert shown(found) == shown(SEGMENTS[name])


@pytest.mark.parametrize("name", FRAMES)
def test_a_golden_frame_is_read(name: str) -> None:
    assert decode(golden()[f"frame: {name}"]) == FRAMES[name]


def test_a_golden_payload_is_read() -> None:
    kind, target, body = unpack_payload(golden()["payload: segments"])
    assert (kind, target) == (PayloadKind.SEGMENTS, 9)
    assert [shown(found) for found in unpack_segments(body, lambda task, stream: WORDS)] == [
        shown(SEGMENTS["untracked"])
    ]


def test_the_page_shows_the_golden_bytes() -> None:
    row = re.compile(r"^\| ((?:value|segment|payload|frame): [a-z ]+) \|.*\| `([0-9a-f ]+)` \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text("utf-8"))
    assert len(rows) > 20
    kept = golden()
    assert {name: data.replace(" ", "") for name, data in rows} == {name: kept[name].hex() for name, _ in rows}


def write() -> None:
    register()
    means = {f"value: {name}": repr(value) for name, value in VALUES.items()}
    means |= {f"segment: {name}": repr(shown(segment)) for name, segment in SEGMENTS.items()}
    means |= {f"frame: {name}": repr(frame) for name, frame in FRAMES.items()}
    entries = [{"name": name, "hex": data.hex(), "means": means.get(name, "")} for name, data in made().items()]
    FILE.write_text(json.dumps(entries, indent=1, ensure_ascii=True) + "\n", "utf-8")


if __name__ == "__main__":
    write()
