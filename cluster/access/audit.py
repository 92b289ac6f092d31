"""Audit: a line for each change that someone ordered. Pure.

    {"at": "2026-11-27T08:00:00.123Z", "who": "ann", "role": "operator", "from": "10.0.0.7:51234", "what": "kill",
     "arguments": {"name": "words", "wait_s": 10}, "result": "done"}

    …, "certificate": {"subject": "O=prod/OU=operator/CN=ann", "sha256": "2f9c…"}, …      of a client that has shown one

1. A line is JSON in printable ASCII: what a client chose (a name, a setting) cannot end a line, nor colour a terminal.
2. Settings whose names say that they are secrets, and users and passwords in URLs, are `***`.
3. A line has a bound, and so has each of its texts: what is left out is marked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ...topology import shown_value
from .certificates import subject_of

if TYPE_CHECKING:
    from ...transport import PeerCertificate

MAX_TEXT_CHARS: Final = 400
MAX_ITEMS: Final = 50
MAX_LINE_BYTES: Final = 16 * 1024

_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Change:
    """A change. `at_s`: Unix time. `result`: done, refused: WHY, or failed: WHY. `certificate`: that of `who`."""

    at_s: float
    who: str
    role: str
    origin: str
    what: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = "done"
    certificate: PeerCertificate | None = None


def line_of(change: Change) -> bytes:
    """The line, with its end."""
    at = datetime.fromtimestamp(change.at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document = {
        "at": at,
        "who": _cut(change.who),
        "role": _cut(change.role),
        "from": _cut(change.origin),
        "what": _cut(change.what),
        "arguments": {_cut(name): _shown(name, value) for name, value in change.arguments.items()},
        "result": _cut(change.result),
    }
    if change.certificate is not None:
        subject = subject_of(change.certificate)
        document["certificate"] = {"subject": _cut(subject), "sha256": change.certificate.sha256}
    line = json.dumps(document)
    if len(line) > MAX_LINE_BYTES:
        document["arguments"] = {"name": _shown("name", change.arguments.get("name")), _CUT: len(line)}
        line = json.dumps(document)
    return line.encode("ascii") + b"\n"


def _shown(name: str, value: Any) -> Any:
    """A value without secrets, bounded."""
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        more = {_CUT: len(value) - MAX_ITEMS} if len(value) > MAX_ITEMS else {}
        return {_cut(str(key)): _shown(str(key), each) for key, each in items} | more
    if isinstance(value, list | tuple | set | frozenset):
        each = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        more_items = [f"{_CUT} {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
        return [_shown(name, one) for one in list(each)[:MAX_ITEMS]] + more_items
    found = shown_value(name, value)
    return _cut(found) if isinstance(found, str) else found


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + _CUT
