"""Text: the page of a topology as plain text, for terminals and for browsers without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import ComponentTick, Tick

_COUNTS = ("emitted", "executed", "acked", "failed", "pending")
_HEAD = ("component", "tasks", *_COUNTS, "p50", "p99", "fill", "mailbox", "waits")


def text_of(name: str, tick: Tick) -> str:
    """The topology now: its state, why its spouts wait, and its components.

    p50 and p99: how long messages of a spout take until they are acked, and tuples from a bolt's mailbox to their end.
    """
    lines = [f"{_printable(name)} {tick.state}, {tick.pending:,} pending, {tick.errors:,} errors"]
    if tick.degraded:
        lines.append(f"degraded: {_printable(tick.degraded)}")
    lines += [_printable(cause.words) for cause in tick.causes]
    return "\n".join([*lines, "", *_table([_HEAD, *map(_row, tick.components)]), ""])


def _row(found: ComponentTick) -> tuple[str, ...]:
    counts = [f"{found.counts[name]:,.0f}" for name in _COUNTS]
    bolt = found.kind == "bolt"
    fill = f"{found.fill:.0%}" if bolt else ""
    waits = _time(found.wait_s) if found.wait_s else ""
    latency = found.latencies.get("process" if bolt else "complete")
    times = ("", "") if latency is None else (_time(latency.p50_s), _time(latency.p99_s))
    return (_printable(found.component), str(found.tasks), *counts, *times, fill, found.level if bolt else "", waits)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(pairs)).rstrip()
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]


def _printable(text: str) -> str:
    """A name must not move the cursor of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
