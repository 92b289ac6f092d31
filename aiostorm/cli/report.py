"""Report: the result of a run of a topology, as text. The same for programs: document.py.

1. A RunReport is plain data and final: it does not change when the topology ends.
2. The output of a topology's `summary` is rendered by its shape: a scalar as `name  value`, a list of rows as a table,
   text as lines. Without a summary the results are shown by component.
3. The user's own text never reaches the terminal unchanged: characters that cannot be printed are escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .document import rate, shown_components

if TYPE_CHECKING:
    from ..backpressure import Backpressure
    from ..metrics import ComponentMetrics, SnapshotMetrics, TopologyMetrics
    from ..tasks import ErrorReport

SHOWN_LINES = 20
"""Lines that are shown of a result without summary; JSON has all."""

SHOWN_IDS = 5

EPOCH_MS = 978_307_200_000, 4_102_444_800_000
"""Milliseconds since 1970 in this century: 2001 to 2099."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run. `state` is finished, interrupted, terminated, timed out or failed.

    `summary` is the output of the topology's own `summary` for `results` (None if it has none, or did not run).
    `problems` are the reasons for exit code 1, as text.
    """

    topology: str
    state: str
    elapsed_s: float
    metrics: TopologyMetrics
    results: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    summary: Mapping[str, Any] | str | None = None
    pending: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    errors: Sequence[ErrorReport] = ()
    problems: tuple[str, ...] = ()
    pressure: Backpressure | None = None
    paced: str = ""
    """Which spouts waited, as text; `pressure` is the same as data. Both from the end of the run."""
    snapshots: SnapshotMetrics | None = None
    """With exactly once, which has no acks: messages and trees are not counted."""

    @property
    def messages(self) -> dict[str, int]:
        """Counts of messages. One that failed twice counts twice; one that waits to be emitted again is pending.

        `given_up`: failed, and not emitted again by its spout; known only at the end: 0 before. It does not include
        `forgotten`: these had failed when the worker of their spout ended, and the spout was restarted since.
        """
        spouts = [c for c in self.metrics.values() if c.kind == "spout"]
        names = ("acked", "failed", "replayed", "dead_lettered")
        counts = {name: sum(getattr(c, name) for c in spouts) for name in names}
        counts["forgotten"] = sum(c.forgotten for c in spouts)
        given_up = counts["failed"] - counts["replayed"] - counts["dead_lettered"] - counts["forgotten"]
        counts["given_up"] = max(0, given_up) if self.state == "finished" else 0
        counts["pending"] = sum(len(ids) for ids in self.pending.values())
        return counts

    @property
    def trees(self) -> int:
        """Tuple trees emitted."""
        return sum(c.trees for c in self.metrics.values())

    @property
    def done_before(self) -> str:
        """Why nothing was processed, if an earlier run had already done everything; else empty."""
        known = [c.progress for c in self.metrics.values() if c.progress is not None and c.progress.total]
        if self.messages["acked"] or not known or any(p.before < p.total for p in known):
            return ""
        return "; ".join(f"all {p.total:,} {p.unit} were {p.note or 'done by an earlier run'}" for p in known)

    @property
    def error_count(self) -> int:
        """Errors in user code; `errors` has the last of them."""
        return sum(c.errors for c in self.metrics.values())

    def lost(self) -> list[str]:
        """Messages that were not processed, as text: empty if every message was acked in the end."""
        messages = self.messages
        texts = {"dead_lettered": "dead-lettered after too many failures", "given_up": "failed and not emitted again"}
        texts["pending"] = "neither acked nor failed"
        return [f"{_count(messages[name], 'message')} {text}" for name, text in texts.items() if messages[name]]


def as_text(report: RunReport) -> str:
    """The summary (or the results by component), then the totals."""
    if isinstance(report.summary, str):
        blocks = ["\n".join(printable(line) for line in report.summary.splitlines())]
    else:
        blocks = [render(report.summary)] if report.summary is not None else _results(report.results)
    blocks.append(_totals(report))
    return "\n\n".join(block for block in blocks if block)


def render(values: Mapping[str, Any]) -> str:
    """Names and values: scalars first, aligned, then a table for each list or mapping."""
    scalars = [(printable(str(name)), _cell(value)) for name, value in values.items() if not _is_table(value)]
    blocks = [table(scalars)] if scalars else []
    for name, value in values.items():
        if _is_table(value):
            blocks.append(f"{printable(str(name))}\n{_indented(table(*_rows(value)))}")
    return "\n\n".join(blocks)


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), right: Set[int] = frozenset()) -> str:
    """Aligned columns, two spaces apart; the columns in `right` are right-aligned."""
    lines = [head, *rows] if head else list(rows)
    if not lines:
        return "(none)"
    columns = max(len(line) for line in lines)
    widths = [max((_width(line[i]) for line in lines if i < len(line)), default=0) for i in range(columns)]
    padded = ([_pad(cell, widths[i], right=i in right) for i, cell in enumerate(line)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _results(results: Mapping[str, Sequence[Any]]) -> list[str]:
    blocks = []
    for component, parts in results.items():
        for number, part in enumerate(parts):
            title = component if len(parts) == 1 else f"{component} [{number}]"
            if _is_table(part):
                rows, head, right = _rows(part)
                more = len(rows) - SHOWN_LINES
                text = table(rows[:SHOWN_LINES], head, right) + (f"\n… and {more:,} more" if more > 0 else "")
                blocks.append(f"{title}\n{_indented(text)}")
            else:
                blocks.append(table([(title, _cell(part))]))
    return blocks


def _totals(report: RunReport) -> str:
    end = f"{printable(report.topology)} {report.state} after {report.elapsed_s:.1f} s"
    if report.done_before:
        end += f": nothing was processed, {printable(report.done_before)}"
    return f"{end}\n{table(_facts(report))}\n\n{_components(report)}"


def _facts(report: RunReport) -> list[tuple[str, str]]:
    messages = report.messages
    if report.snapshots is None:
        counts = ", ".join(f"{messages[name]:,} {name.replace('_', '-')}" for name in ("acked", "failed", "replayed"))
        counts += f", {messages['dead_lettered']:,} dead-lettered, {messages['pending']:,} pending"
        facts = [("messages", counts), ("trees", f"{report.trees:,}")]
    else:
        facts = [("rows", _rows_text(report)), ("snapshots", snapshots_text(report.snapshots))]
        if report.snapshots.rolled_back:
            facts.append(("rolled back", _rolled_back(report.snapshots)))
    if report.paced:
        facts.append(("paced", report.paced))
    facts += [
        ("progress", f"{printable(name)}: {printable(str(c.progress))}")
        for name, c in shown_components(report.metrics)
        if c.progress is not None
    ]
    facts += [
        ("windows", f"{name}: {text}") for name, c in shown_components(report.metrics) if (text := windows_text(c))
    ]
    if messages["forgotten"]:
        facts.append(
            ("forgotten", f"{messages['forgotten']:,} had failed when their spout's worker ended: it began anew")
        )
    if report.error_count:
        facts.append(("errors", f"{report.error_count:,} in user code"))
    return facts


def _components(report: RunReport) -> str:
    """The table of components. With exactly once, nothing is acked."""
    acks = report.snapshots is None
    head = ("component", "tasks", "emitted", "executed", *(("acked", "failed") if acks else ()), "per second")
    rows = [
        (
            printable(name),
            str(len(c.tasks)),
            f"{c.emitted:,}",
            f"{c.executed:,}" if c.kind == "bolt" else "",
            *((f"{c.acked:,}", f"{c.failed:,}") if acks else ()),
            f"{rate(c.emitted if c.kind == 'spout' else c.executed, report.elapsed_s):,.0f}",
        )
        for name, c in shown_components(report.metrics)
    ]
    return table(rows, head, right=frozenset(range(1, len(head))))


def _rows_text(report: RunReport) -> str:
    shown = [c for _, c in shown_components(report.metrics)]
    emitted = sum(c.emitted for c in shown if c.kind == "spout")
    executed = sum(c.executed for c in shown)
    again = report.snapshots is not None and report.snapshots.rolled_back
    more = ", with those that were repeated after a rollback" if again else ""
    return f"{emitted:,} emitted by spouts, {executed:,} executed by bolts{more}"


def snapshots_text(found: SnapshotMetrics, *, running: bool = False) -> str:
    """The newest snapshot, and what has failed since. `running`: with its age."""
    if not found.taken:
        text = "none taken" if found.number is None else f"none taken since number {found.number}, the first"
    else:
        age = f"{found.age_s:.1f} s ago, " if running else ""
        took = f"{found.duration_s:.1f} s" if found.duration_s >= 1 else f"{found.duration_s * 1000:.0f} ms"
        text = f"{found.taken:,} taken, the last is number {found.number}: {age}took {took}"
        text += f", {_count(found.size_bytes, 'byte')}"
    if found.quota_bytes:
        text += f"; {found.stored_bytes:,} of {_count(found.quota_bytes, 'byte')} kept"
    if found.failing:
        text += f"; {found.failing:,} failed since: {_short(printable(found.problem), 200)}"
    if found.waiting:
        text += f"; {_short(printable(found.waiting), 200)}"
    if running and found.rolled_back:
        text += f"; rolled back {_count(found.rolled_back, 'time')}"
    return text


def _rolled_back(found: SnapshotMetrics) -> str:
    last = " the last" if found.rolled_back > 1 else ""
    return f"{_count(found.rolled_back, 'time')},{last} because of: {_short(printable(found.reason), 200)}"


def stopped_text(report: RunReport) -> str:
    """What a run that was stopped leaves to the next one."""
    if report.snapshots is None:
        return f"pending: {pending_text(report.pending)}"
    return continues_text(report.snapshots)


def continues_text(found: SnapshotMetrics) -> str:
    """Where the next run begins."""
    return "the next run " + (
        "begins from the start" if found.number is None else f"continues from snapshot {found.number}"
    )


def windows_text(c: ComponentMetrics) -> str:
    """How many windows have fired, were late, are open or were dropped; empty if there is nothing to report."""
    counts = [f"{c.fired:,} fired"] if c.fired or c.late or c.live_windows else []
    if c.late:
        counts.append(f"{_count(c.late, 'tuple')} too late for them")
    if c.live_windows:
        counts.append(f"{c.live_windows:,} still open")
    if c.dropped_windows:
        counts.append(f"{_count(c.dropped_windows, 'open window')} dropped, not fired")
    if c.dropped_tuples:
        counts.append(f"{_count(c.dropped_tuples, 'tuple')} dropped in windows that have not fired")
    return ", ".join(counts)


def pending_text(pending: Mapping[str, Sequence[Any]]) -> str:
    """The number of open messages, and the first of them."""
    parts = []
    for component, ids in pending.items():
        if ids:
            more = ", …" if len(ids) > SHOWN_IDS else ""
            first = ", ".join(_short(repr(message_id)) for message_id in ids[:SHOWN_IDS])
            parts.append(f"{_count(len(ids), 'message')} of {component} (message ids {first}{more})")
    return "; ".join(parts) or "nothing"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple | Set)


def _rows(value: Any) -> tuple[list[Sequence[str]], tuple[str, ...], frozenset[int]]:
    """The rows, heads and right-aligned columns of a mapping, a list of rows, or a list of scalars."""
    head: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        items: list[Any] = list(value.items())
    elif value and all(isinstance(item, Mapping) for item in value):
        names = dict.fromkeys(name for item in value for name in item)
        head = tuple(printable(str(name)) for name in names)
        items = [tuple(item.get(name) for name in names) for item in value]
    else:
        items = list(value)
    raw = [item if isinstance(item, list | tuple) else (item,) for item in items]
    columns = max((len(row) for row in raw), default=0)
    right = frozenset(
        i for i in range(columns) if all(_is_number(row[i]) for row in raw if i < len(row) and row[i] is not None)
    )
    times = {i for i in right if all(_is_epoch_ms(row[i]) for row in raw if i < len(row) and row[i] is not None)}
    cells: list[Sequence[str]] = [[_cell(cell, time=i in times) for i, cell in enumerate(row)] for row in raw]
    return cells, head, right


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_epoch_ms(value: Any) -> bool:
    """Is it probably milliseconds since 1970, in this century? Such a number is not a count, and is not grouped."""
    return isinstance(value, int) and EPOCH_MS[0] <= value < EPOCH_MS[1]


def _cell(value: Any, *, time: bool | None = None) -> str:
    """A value on one line. `time`: it is a point in time, in milliseconds (None: if it looks like one)."""
    match value:
        case None:
            return "-"
        case bool() | str():
            return printable(str(value))
        case int():
            return str(value) if (_is_epoch_ms(value) if time is None else time) else f"{value:,}"
        case float():
            return f"{value:,.6g}"
    return _short(printable(repr(value) if _is_table(value) else str(value)))


def printable(text: str) -> str:
    """The text on one line, with escapes for characters that cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """The number of columns on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)
