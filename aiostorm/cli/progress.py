"""Progress: the current state of a running topology, on the terminal.

    metrics ─► Rates (pure) ─► Snapshot ─► one plain line a second, or a live table four times a second

1. `Rates` is a machine: metrics and a time in, a Snapshot out. Rates are over the last seconds, not since the start.
2. The table needs rich and a terminal; without either there are plain lines. Both go to the standard error.
3. Log lines appear above the table: they go through its console (`LiveTable.log_handler`).

The layout (components, sources, logs) is Pathway's.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..cluster import WorkerStatus
    from ..metrics import ComponentMetrics, ProgressMetrics, TopologyMetrics


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """One component in a Snapshot. Rates are tuples per second; `fill` is its fullest mailbox, 0 to 1."""

    component: str
    kind: str
    tasks: int
    emitted_per_s: float
    executed_per_s: float
    acked: int
    failed: int
    fill: float
    progress: ProgressMetrics | None = None

    @property
    def rate(self) -> float:
        """A spout's emitted, or a bolt's executed tuples per second."""
        return self.emitted_per_s if self.kind == "spout" else self.executed_per_s


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A running topology at one moment; `elapsed_s` since its start. `failed`, `replayed` and so on are messages."""

    elapsed_s: float
    rows: tuple[ComponentRow, ...]
    pending_messages: int
    pending_trees: int
    acked: int
    failed: int
    replayed: int
    dead_lettered: int
    late: int = 0
    """Tuples that came too late for their windows."""
    paced: str = ""
    """Which spouts wait, and why; empty if none waits."""
    starting: str = ""
    """What is being started; empty when the topology runs."""
    snapshots: str = ""
    """With exactly once: the last snapshot. Then nothing is acked, and nothing is pending."""


class Rates:
    """Computes rates from counters, over the last `period_s` seconds."""

    def __init__(self, started_s: float, period_s: float = 1.0) -> None:
        self._started_s = started_s
        self._period_s = period_s
        self._samples: deque[tuple[float, dict[str, tuple[int, int]]]] = deque([(started_s, {})])

    def snapshot(
        self, metrics: TopologyMetrics, now_s: float, paced: str = "", starting: str = "", snapshots: str = ""
    ) -> Snapshot:
        """The snapshot at `now_s`, with rates since the sample that is `period_s` old (or the oldest)."""
        while len(self._samples) > 1 and self._samples[1][0] <= now_s - self._period_s:
            self._samples.popleft()
        then_s, then = self._samples[0]
        shown = [c for c in metrics.values() if not c.component.startswith("__")]
        self._samples.append((now_s, {c.component: (c.emitted, c.executed) for c in shown}))
        spouts = [c for c in shown if c.kind == "spout"]
        return Snapshot(
            elapsed_s=now_s - self._started_s,
            rows=tuple(_row(c, then.get(c.component, (0, 0)), now_s - then_s) for c in shown),
            pending_messages=sum(c.pending for c in spouts),
            pending_trees=sum(c.pending_trees for c in spouts),
            acked=sum(c.acked for c in spouts),
            failed=sum(c.failed for c in spouts),
            replayed=sum(c.replayed for c in spouts),
            dead_lettered=sum(c.dead_lettered for c in spouts),
            late=sum(c.late for c in shown),
            paced=paced,
            starting=starting,
            snapshots=snapshots,
        )


def starting_text(workers: Sequence[WorkerStatus]) -> str:
    """What a starting topology waits for; empty without workers."""
    if not workers:
        return "starting"
    running = sum(worker.phase == "RUNNING" for worker in workers)
    return f"starting workers, {running} of {len(workers)} run"


def _row(c: ComponentMetrics, then: tuple[int, int], seconds: float) -> ComponentRow:
    emitted, executed = c.emitted - then[0], c.executed - then[1]
    return ComponentRow(
        component=c.component,
        kind=c.kind,
        tasks=len(c.tasks),
        emitted_per_s=emitted / seconds if seconds > 0 else 0.0,
        executed_per_s=executed / seconds if seconds > 0 else 0.0,
        acked=c.acked,
        failed=c.failed,
        fill=c.fill_ratio,
        progress=c.progress,
    )


def plain_line(snapshot: Snapshot) -> str:
    """A snapshot as one line."""
    if snapshot.starting:
        return f"{snapshot.elapsed_s:.1f} s  {snapshot.starting}"
    rates = [f"{row.component} {row.rate:,.0f}/s" for row in snapshot.rows]
    fills = [f"{row.component} {row.fill:.0%}" for row in snapshot.rows if row.kind == "bolt"]
    pending = f"pending {snapshot.pending_messages:,} in {_count(snapshot.pending_trees, 'tree')}"
    far = [f"{row.component} {row.progress}" for row in snapshot.rows if row.progress is not None]
    parts = [f"{snapshot.elapsed_s:.1f} s", *rates, *far, *([] if snapshot.snapshots else [pending])]
    parts += [f"fill {' '.join(fills)}"] if fills else []
    for name in ("failed", "replayed", "dead_lettered", "late"):
        count = getattr(snapshot, name)
        if count or (name == "failed" and not snapshot.snapshots):
            parts.append(f"{name.replace('_', '-')} {count:,}")
    if snapshot.snapshots:
        parts.append(f"snapshots: {snapshot.snapshots}")
    return "  ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# -- displays ----------------------------------------------------------------------------------------------------------


class Display(AbstractContextManager["Display"], Protocol):
    """Shows snapshots, every `interval_s` seconds, and lines of text without damaging the table."""

    interval_s: float

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""

    def print_line(self, text: str) -> None:
        """Show a line of text."""


class QuietDisplay(Display):
    """No progress; lines of text are still shown."""

    interval_s = 3600.0

    def show(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def print_line(self, text: str) -> None:
        """Show a line of text on the standard error."""
        with suppress(BrokenPipeError):  # the reader has closed it
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        return None


class PlainLines(QuietDisplay):
    """One line a second, and one more while spouts are paced."""

    interval_s = 1.0

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot as one line, or two."""
        self.print_line(plain_line(snapshot))
        if snapshot.paced:
            self.print_line(f"  paced: {snapshot.paced}")


class LiveTable(Display):
    """A table that rich draws again in place. Logged or printed lines appear above it."""

    interval_s = 0.25

    def __init__(self, console: Console, title: str, high_mark: float) -> None:
        from rich.live import Live

        self._console = console
        self._title = title
        self._high_mark = high_mark
        # We draw it, from the event loop: no thread. Output to a file or a pipe is not redirected.
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )

    def show(self, snapshot: Snapshot) -> None:
        """Draw the table again."""
        self._live.update(live_table(snapshot, self._title, self._high_mark), refresh=True)

    def print_line(self, text: str) -> None:
        """Show a line of text above the table."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def log_handler(self) -> logging.Handler:
        """A handler whose lines appear above the table."""
        return _ConsoleHandler(self._console)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()


class _ConsoleHandler(logging.Handler):
    """Writes log lines to a rich console, from any thread: the console has its own lock."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            style = (
                "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else None
            )
            self._console.print(self.format(record), markup=False, highlight=False, soft_wrap=True, style=style)
        except Exception:
            self.handleError(record)


def live_table(snapshot: Snapshot, title: str, high_mark: float) -> Table:
    """A snapshot as a rich table. At `high_mark` a mailbox is full: its senders wait."""
    from rich.markup import escape
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    head = f"{title}  {snapshot.elapsed_s:.1f} s" + (f"  {snapshot.starting}" if snapshot.starting else "")
    table = Table(title=head, title_justify="left", caption_justify="left", box=None)
    table.add_column("component", no_wrap=True)
    acks = () if snapshot.snapshots else ("acked", "failed")
    for name in ("tasks", "emitted/s", "executed/s", *acks):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("mailbox", width=12)
    table.add_column("", justify="right", width=10)
    for row in snapshot.rows:
        full = row.fill >= high_mark
        bar: Any = ProgressBar(total=1.0, completed=row.fill, width=12, complete_style="red" if full else "blue")
        cells: Sequence[Any] = (
            row.component,
            str(row.tasks),
            f"{row.emitted_per_s:,.0f}",
            f"{row.executed_per_s:,.0f}" if row.kind == "bolt" else "",
            *((f"{row.acked:,}", f"{row.failed:,}") if acks else ()),
            bar if row.kind == "bolt" else "",
            (f"{row.fill:.0%}" + (" full" if full else "")) if row.kind == "bolt" else "",
        )
        table.add_row(*cells, style="red" if row.failed else None)
    table.caption = escape(_caption(snapshot))
    return table


def _caption(snapshot: Snapshot) -> str:
    """What stands below the live table."""
    lines = [f"snapshots: {snapshot.snapshots}"]
    if not snapshot.snapshots:
        pending = f"pending {snapshot.pending_messages:,} messages in {_count(snapshot.pending_trees, 'tree')}"
        lines = [f"{pending}, replayed {snapshot.replayed:,}, dead-lettered {snapshot.dead_lettered:,}"]
    if snapshot.late:
        lines[0] += f", late {snapshot.late:,}"
    lines += [f"{row.component}: {row.progress}" for row in snapshot.rows if row.progress is not None]
    if snapshot.paced:
        lines.append(f"paced: {snapshot.paced}")
    return "\n".join(lines)


def choose_display(title: str, high_mark: float, *, quiet: bool) -> Display:
    """The live table on a terminal with rich, else plain lines; only lines of text if quiet."""
    if quiet:
        return QuietDisplay()
    if sys.stderr.isatty():
        try:
            from rich.console import Console
        except ImportError:
            return PlainLines()
        console = Console(stderr=True)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveTable(console, title, high_mark)
    return PlainLines()
