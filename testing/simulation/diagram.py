"""Diagram: a part of a trace as a sequence diagram, for documents and bug reports (pure).

    events ── chosen ──► Diagram: names, steps ──► mermaid(): text that forges and editors draw
                                               └─► svg(): a picture, without any tool (svg.py)

1. Names stand in the order in which they appear. What does not fit (names, steps, length of a text) is left out, and
   the diagram says how much.
2. Sends are arrows, lost ones end in a cross, all else is a note: over its process or component, or over all names for
   what is done to the system.
3. Any text is valid Mermaid: all but letters, digits and harmless characters are written by number (`#59;`), and so is
   the word `end`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from .trace import Event, shown

MOST_NAMES: Final = 8
MOST_STEPS: Final = 60
MOST_CHARACTERS: Final = 80

_SYSTEM_KINDS: Final = ("fault", "process", "problem")
_HARMLESS: Final = frozenset(" .,_/()='+*?!|~-")
_MERMAIDS: Final = frozenset("ﬂ°¶ß")
"""Mermaid itself writes numbered characters with these."""


@dataclass(frozen=True, slots=True)
class DiagramStep:
    """An arrow from the name `source` to the name `target` (both by index), or a note over one (None: over all)."""

    at_s: float
    kind: str
    """"send", "lost" or "note"."""
    source: int | None
    target: int | None
    text: str

    @property
    def timed(self) -> str:
        """The text that is written at it."""
        return f"{self.at_s:.3f} s, {self.text}"


@dataclass(frozen=True, slots=True)
class Diagram:
    """What is drawn."""

    names: tuple[str, ...]
    steps: tuple[DiagramStep, ...]
    left_out: int

    @property
    def remark(self) -> str:
        """What is not drawn."""
        return f"{self.left_out} events are left out" if self.left_out else ""


def diagram_of(
    events: Iterable[Event],
    *,
    names: Collection[str] | None = None,
    begin_s: float | None = None,
    end_s: float | None = None,
    about: str | None = None,
    around_s: float = 0.5,
    most_names: int = MOST_NAMES,
    most_steps: int = MOST_STEPS,
) -> Diagram:
    """Choose what to draw. Without any argument: the last events, and the busiest names.

    `names`: only these (tasks, sources, …). `begin_s`, `end_s`: only this time, in true seconds. `about`: only what
    happens within `around_s` seconds of an event whose text contains this, and all that was done to the system.
    """
    every = list(events)
    chosen = [e for e in every if (begin_s is None or begin_s <= e.at_s) and (end_s is None or e.at_s <= end_s)]
    if about is not None:
        chosen = _around(chosen, about, around_s)
    busy = Counter(name for e in chosen for name in _names(e))
    kept = set(names) if names is not None else {name for name, _ in busy.most_common(most_names)}
    chosen = [e for e in chosen if kept.issuperset(_names(e))][-most_steps:] if most_steps else []
    order = tuple(dict.fromkeys(name for e in chosen for name in _names(e)))
    places = {name: i for i, name in enumerate(order)}
    return Diagram(order, tuple(_step(e, places) for e in chosen), len(every) - len(chosen))


def sequence_diagram(events: Iterable[Event], **choice: object) -> str:
    """Mermaid's text for a part of a trace; see `diagram_of` for the choice."""
    return mermaid(diagram_of(events, **choice))  # type: ignore[arg-type]


def mermaid(diagram: Diagram) -> str:
    """The diagram in Mermaid's language."""
    names = diagram.names or ("no participants",)
    lines = ["sequenceDiagram", *(f"    participant p{i} as {escaped(_cut(name))}" for i, name in enumerate(names))]
    all_names = "p0" if len(names) == 1 else f"p0,p{len(names) - 1}"
    if diagram.remark or not diagram.steps:
        lines.append(f"    Note over {all_names}: {diagram.remark or 'nothing has happened'}")
    for step in diagram.steps:
        text = escaped(step.timed)
        if step.kind == "note":
            over = all_names if step.source is None else f"p{step.source}"
            lines.append(f"    Note over {over}: {text}")
        else:
            arrow = "-x" if step.kind == "lost" else "->>"
            lines.append(f"    p{step.source}{arrow}p{step.target}: {text}")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """The text for Mermaid: one line, without characters that have a meaning."""
    line = " ".join(text.split()) or "-"
    written = "".join(char if _is_plain(char) else f"#{ord(char)};" for char in line if char.isprintable())
    return re.sub(r"\b(e)(nd)\b", lambda word: f"#{ord(word[1])};{word[2]}", written, flags=re.IGNORECASE) or "-"


def _is_plain(char: str) -> bool:
    return char in _HARMLESS or (char.isalnum() and char not in _MERMAIDS)


def _around(events: list[Event], about: str, around_s: float) -> list[Event]:
    found = [e.at_s for e in events if about in str(e)]
    return [e for e in events if e.kind in _SYSTEM_KINDS or any(abs(e.at_s - at_s) <= around_s for at_s in found)]


def _names(event: Event) -> tuple[str, ...]:
    if event.target:
        return (event.source, event.target)
    return () if event.kind in _SYSTEM_KINDS else (event.source,)


def _step(event: Event, places: dict[str, int]) -> DiagramStep:
    detail = "" if event.detail is None else f" {shown(event.detail)}"
    if event.target:
        kind = "lost" if event.kind == "lost" else "send"
        text = _cut(f"{event.what}{detail}")
        return DiagramStep(event.at_s, kind, places[event.source], places[event.target], text)
    if event.kind in _SYSTEM_KINDS:
        return DiagramStep(event.at_s, "note", None, None, _cut(f"{event.source} {event.what}{detail}"))
    return DiagramStep(event.at_s, "note", places[event.source], None, _cut(f"{event.what}{detail}"))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 2] + " …"
