"""Words that aiostorm no longer uses, and what it says instead.

`python -m tests.house.old_words` prints where one of them is. The test fails if there is any.

A *word* is searched in all text: prose, and the parts of identifiers (`_on_told`, `ToldAll`). A *name* is a whole
Python identifier or the name of a module; the same word may be ordinary English, so prose is not searched for it. A
*phrase* is a use of a common word that has another meaning here: mark (only the level of a mailbox), window (only of
event time or a count), life, wire.

Not searched, since they also have a right meaning: load, turn, hold (each keeps one meaning), tell (the method of an
actor's ref, as in Pekko), shares, take, end, look, quiet, questions, builder.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from .source import ROOT, files, read

WORDS: Final[Mapping[str, str]] = {
    "alarm": "wakeup, timer",
    "alarms": "wakeups, timers",
    "allowance": "sender's credit",
    "anybody": "the role: any process, any actor",
    "awake": "sampling",
    "bell": "wakeup",
    "chief": "worker group",
    "courier": "send queue",
    "crew": "task set",
    "door": "public API",
    "doors": "public APIs",
    "duty": "worker service",
    "ear": "control loop",
    "ears": "control loop",
    "everybody": "the role: all processes, all users",
    "fates": "message outcomes",
    "ghost": "model",
    "gone": "lost, closed, removed",
    "headquarters": "worker registry",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "hire": "spawn",
    "hired": "spawned",
    "hurried": "redialled",
    "hurry": "redial",
    "judge": "on_verdict",
    "knock": "connect",
    "knocks": "connects",
    "leftover": "stale",
    "leftovers": "stale files",
    "lifeline": "parent watch",
    "mouth": "emit loop",
    "nobody": "the role: no caller, no worker",
    "pulse": "heartbeat",
    "room": "package, free capacity",
    "rooms": "packages",
    "saw": "observed",
    "somebody": "the role: a caller, a user",
    "spares": "warm pool",
    "station": "worker handle",
    "steward": "control actor",
    "storey": "layer",
    "storeys": "layers",
    "stranger": "unauthenticated peer",
    "strangers": "unauthenticated peers",
    "telling": "watermark emitter",
    "told": "sent, notified",
    "troubles": "load errors",
    "urge": "schedule",
    "wells": "sources",
    "whoever": "the role: the caller, the worker",
    "workforce": "distributed runtime",
}
NAMES: Final[Mapping[str, str]] = {
    "Account": "AckBatch",
    "Arrivals": "ReceiveBuffer",
    "Body": "TopologyRuntime",
    "Branch": "EmitBuffer",
    "Ending": "EndOfStream",
    "FarInbox": "RemoteMailbox",
    "Gauge": "BackpressureMonitor",
    "Held": "InFlight",
    "Part": "LocalRuntime",
    "Post": "PeerRouter",
    "PostOffice": "PeerRouter",
    "Quota": "ReceiverCredit",
    "Reporter": "WorkerListener",
    "Site": "WorkerBackend",
    "TimeSide": "EventTimeDriver",
    "TimedTask": "EventTimeDriver",
    "Trade": "PeerChannel",
    "_hear": "the control loop",
    "_speak": "the emit loop",
    "beside": "driver_worker",
    "far_inbox": "remote_mailbox",
    "living": "runner",
    "on_quiet": "on_idle",
    "reach": "mailbox_of",
    "seen": "observed",
    "settle": "advance_watermark",
    "slot_order": "launch_spec",
    "slot_room": "resources",
    "stream_hand": "foreach_batch",
    "trust": "authenticate",
}
PHRASES: Final[Mapping[str, str]] = {
    # A regular expression of what is surely wrong → what to say.
    r"(?:send|receive|sending|receiving) window": "frames in flight, send buffer",
    r"window of (?:frames|payloads|messages|credit)": "frames in flight, credit",
    r"window_s": "the time that it is: within_s, period_s",
    r"(?:event-)?time marks?": "watermark",
    r"(?:former|next|earlier|previous|new|another|later) (?:life|lives)": "incarnation, process, instance",
    r"(?:life|lives) of (?:a|its|the) (?:peer|process|task|worker)": "incarnation, instance",
    r"(?:on|over|from) the wire": "in the frame, encoded",
}
ONLY_IN: Final[Mapping[str, str]] = {
    # Names that are usual elsewhere.
    "living": "tests/simulation/",
    "seen": "tests/simulation/",
}
ALLOWED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    # word or name → (the beginning of a path, why it is right there)
    "Arrivals": (("benchmarks/", "when rows arrived, of the latency benchmark"),),
    "*": (("tests/house/old_words.py", "the table itself"), ("tests/house/test_old_words.py", "its tests")),
    "pulse": tuple(
        (start, "PULSE is a frame of the protocol")
        for start in ("cluster/", "docs/protocol.md", "tests/", "transport/")
    ),
    "settle": (
        ("testing/", "SimClock.settle(): public, and about timers"),
        ("tests/", "the same"),
        ("acker/", "to settle a message: to ack or fail it"),
    ),
}
_PHRASES: Final[Mapping[str, re.Pattern[str]]] = {
    phrase: re.compile(rf"\b{phrase}\b".replace(" ", r"\s+"), re.IGNORECASE) for phrase in PHRASES
}
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ANY_NAME = re.compile(rf"\b({'|'.join(NAMES)})\b")
_TEXTS = (".py", ".md", ".toml", ".yml", ".yaml", ".sh")


def texts() -> list[str]:
    """The files in which people read words."""
    return [name for name in files() if name.endswith(_TEXTS) and not (ROOT / name).is_symlink()]


def words_in(text: str) -> Counter[str]:
    """How often each word is there, also as a part of an identifier."""
    return Counter(piece.lower() for piece in _PIECES.findall(text))


def names_in(name: str, text: str) -> Counter[str]:
    """How often each identifier is there, and the name of the module."""
    if not name.endswith(".py") or not _ANY_NAME.search(f"{text} {name}"):
        return Counter()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = Counter(token.string for token in tokens if token.type == tokenize.NAME)
    found[name.rpartition("/")[2].removesuffix(".py")] += 1
    return found


def phrases_in(text: str) -> Counter[str]:
    """How often each phrase is there; it may be divided by the end of a line."""
    return Counter({phrase: len(pattern.findall(text)) for phrase, pattern in _PHRASES.items()})


def is_allowed(word: str, name: str) -> bool:
    """Has the word a right meaning in this file?"""
    if not name.startswith(ONLY_IN.get(word, "")):
        return True
    return any(name.startswith(start) for start, _ in (*ALLOWED["*"], *ALLOWED.get(word, ())))


@cache
def uses() -> Mapping[str, Mapping[str, int]]:
    """Word or name → file → how often it is there, where it should not be."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for name in texts():
        text = read(name)
        in_file = [
            *_of(words_in(text), WORDS),
            *_of(names_in(name, text), NAMES),
            *_of(phrases_in(text), PHRASES),
        ]
        for word, count in in_file:
            if not is_allowed(word, name):
                found[word][name] = count
    return found


def _of(counts: Counter[str], table: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    return ((word, counts[word]) for word in table if counts[word])


def instead(word: str) -> str:
    """What to say instead of a word, a name or a phrase."""
    return {**WORDS, **NAMES, **PHRASES}[word]


def report() -> list[str]:
    """Each word that is used, with what to say instead; then the files that use it."""
    lines: list[str] = []
    for word, per_file in sorted(uses().items()):
        lines.append(f"{word}: say {instead(word)}")
        lines += [f"    {count:4} {name}" for name, count in sorted(per_file.items())]
    return lines


if __name__ == "__main__":
    print(*(report() or ["none"]), sep="\n")
