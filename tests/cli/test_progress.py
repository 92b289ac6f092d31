"""Progress: rates as a machine, the plain line, the live table on a real (pseudo) terminal."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cli.progress import LiveTable, PlainLines, QuietDisplay, Rates, choose_display, plain_line, starting_text
from aiostorm.cluster import WorkerStatus
from aiostorm.metrics import ComponentMetrics, ProgressMetrics, TaskMetrics, TopologyMetrics

from .conftest import JOBS

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-79]|38;[\d;]+)m")


def metrics(emitted: int, executed: int, *, failed: int = 0, fill: tuple[int, int] = (0, 0)) -> TopologyMetrics:
    """A spout with one task and a bolt with two."""
    spout = TaskMetrics(
        1, emitted=emitted, acked=executed, failed=failed, replayed=failed, pending=emitted - executed, pending_trees=2
    )
    bolts = tuple(TaskMetrics(2 + i, executed=executed // 2, fill=fill[i], capacity=100) for i in range(2))
    acker = TaskMetrics(4, fill=50, capacity=100)
    return TopologyMetrics(
        [
            ComponentMetrics("lines", "spout", (spout,)),
            ComponentMetrics("count", "bolt", bolts),
            ComponentMetrics("__acker", "acker", (acker,)),
        ]
    )


def test_rates_are_over_the_window():
    rates = Rates(started_s=100.0, period_s=1.0)
    first = rates.snapshot(metrics(100, 50), 100.5)
    assert [row.rate for row in first.rows] == [200.0, 100.0], "over the half second that there is"
    second = rates.snapshot(metrics(400, 350), 101.0)
    assert [row.rate for row in second.rows] == [400.0, 350.0]
    third = rates.snapshot(metrics(400, 400), 101.5)
    assert [row.rate for row in third.rows] == [300.0, 350.0], "since 100.5, not since the start"
    assert third.elapsed_s == 1.5
    later = rates.snapshot(metrics(400, 400), 110.0)
    assert [row.rate for row in later.rows] == [0.0, 0.0]


def test_a_snapshot_at_the_start_does_not_divide_by_zero():
    assert [row.rate for row in Rates(5.0).snapshot(metrics(10, 2), 5.0).rows] == [0.0, 0.0]


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(0, 1000)), min_size=1, max_size=40))
def test_rates_never_invent_tuples(steps: list[tuple[float, int]]):
    """Rate times its window is what was counted in it, and the window is never shorter than asked once there is one."""
    rates, now_s, emitted, history = Rates(0.0), 0.0, 0, [(0.0, 0)]
    for step_s, more in steps:
        now_s, emitted = now_s + step_s, emitted + more
        rate = rates.snapshot(metrics(emitted, 0), now_s).rows[0].emitted_per_s
        old = [(at_s, count) for at_s, count in history if at_s <= now_s - 1.0] or history[:1]
        since_s, before = old[-1]
        assert rate == pytest.approx((emitted - before) / (now_s - since_s))
        history.append((now_s, emitted))


def test_plain_line():
    rates = Rates(0.0)
    rates.snapshot(metrics(0, 0), 11.0)
    line = plain_line(rates.snapshot(metrics(10_234, 9_000, fill=(40, 12)), 12.0))
    assert line == "12.0 s  lines 10,234/s  count 9,000/s  pending 1,234 in 2 trees  fill count 40%  failed 0"
    line = plain_line(rates.snapshot(metrics(10_234, 9_000, failed=3), 13.0))
    assert line.endswith("failed 3  replayed 3")
    late = TopologyMetrics([ComponentMetrics("windows", "bolt", (TaskMetrics(3, late=2), TaskMetrics(4, late=1)))])
    assert plain_line(rates.snapshot(late, 14.0)).endswith("failed 0  late 3")
    assert "flights 0/s  flights 7 of 32 partitions, 1 row  pending" in plain_line(rates.snapshot(half_way(), 15.0))


def test_progress_counts_the_workers_that_start():
    workers = [WorkerStatus("local-1", 7, "RUNNING", (1,), 0), WorkerStatus("local-2", 0, "STARTING", (2,), 0)]
    starting = starting_text(workers)
    snapshot = Rates(0.0).snapshot(metrics(0, 0), 2.0, starting=starting)
    assert plain_line(snapshot) == "2.0 s  starting workers, 1 of 2 run"
    table, file = drawn()
    with table:
        table.show(snapshot)
    assert "word-count  2.0 s  starting workers, 1 of 2 run" in ESCAPES.sub("", file.getvalue())
    assert starting_text([]) == "starting"


def half_way() -> TopologyMetrics:
    """A spout with progress."""
    task = TaskMetrics(1, progress=ProgressMetrics("partitions", 7, 32, 1))
    return TopologyMetrics([ComponentMetrics("flights", "spout", (task,))])


def test_choice(monkeypatch: pytest.MonkeyPatch):
    assert type(choose_display("x", 0.8, quiet=True)) is QuietDisplay
    assert type(choose_display("x", 0.8, quiet=False)) is PlainLines, "the standard error of a test is no terminal"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert type(choose_display("x", 0.8, quiet=False)) is LiveTable
    monkeypatch.setenv("TERM", "dumb")
    assert type(choose_display("x", 0.8, quiet=False)) is PlainLines, "it cannot draw anything anew"
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("TERM", "xterm")
    assert type(choose_display("x", 0.8, quiet=False)) is PlainLines, "rich is not installed"


def test_a_closed_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.close(reading)
    with monkeypatch.context() as patched, open(writing, "w", buffering=1) as closed:
        patched.setattr(sys, "stderr", closed)
        PlainLines().print_line("into the void")
        with contextlib.suppress(BrokenPipeError):  # of what is left in its buffer
            closed.close()
    assert closed.closed


def drawn() -> tuple[LiveTable, io.StringIO]:
    """A live table, drawn as text."""
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), force_terminal=True, width=100)
    return LiveTable(console, "word-count", 0.8), console.file


def test_with_exactly_once_nothing_is_acked_or_pending():
    rates = Rates(0.0)
    rates.snapshot(metrics(0, 0), 1.0)
    snapshot = rates.snapshot(metrics(10, 8, fill=(40, 12)), 2.0, snapshots="3 taken")
    assert plain_line(snapshot) == "2.0 s  lines 10/s  count 8/s  fill count 40%  snapshots: 3 taken"
    table, file = drawn()
    with table:
        table.show(snapshot)
    text = ESCAPES.sub("", file.getvalue())
    assert "snapshots: 3 taken" in text
    assert not any(word in text for word in ("acked", "failed", "pending", "replayed"))


def test_live_table():
    table, file = drawn()
    rates = Rates(0.0)
    with table:
        table.show(rates.snapshot(metrics(10_000, 9_000, failed=3, fill=(90, 10)), 1.0))
    text = ESCAPES.sub("", file.getvalue())
    assert "word-count  1.0 s" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["component"][:6] == ["component", "tasks", "emitted/s", "executed/s", "acked", "failed"]
    assert rows["lines"] == ["lines", "1", "10,000", "9,000", "3"]
    assert rows["count"][:4] == ["count", "2", "0", "9,000"]
    assert rows["count"][-2:] == ["90%", "full"]
    assert "pending 1,000 messages in 2 trees, replayed 3, dead-lettered 0" in text
    assert "__acker" not in text
    table, file = drawn()
    with table:
        table.show(rates.snapshot(half_way(), 2.0))
    assert "flights: 7 of 32 partitions, 1 row" in ESCAPES.sub("", file.getvalue())


def test_log_lines_appear_above_the_table():
    table, file = drawn()
    rates = Rates(0.0)
    logger = logging.getLogger("tests.cli.live")
    logger.addHandler(table.log_handler())
    with table:
        table.show(rates.snapshot(metrics(10, 9), 1.0))
        before = len(file.getvalue())
        logger.error("a [bold]long[/bold] line %s", "x" * 150)
        table.print_line("[red]said[/red]")
        table.show(rates.snapshot(metrics(10, 9), 1.25))
    logger.handlers.clear()
    moved = re.sub(r"(\r?\x1b\[\d*[AK])+", "\n", file.getvalue()[before:])
    lines = [line.rstrip() for line in ESCAPES.sub("", moved).splitlines()]
    assert f"a [bold]long[/bold] line {'x' * 150}" in lines, "whole, and not read as markup"
    assert "[red]said[/red]" in lines
    logged = file.getvalue()[before : file.getvalue().index("a [bold]")]
    assert "\x1b[2K" in logged, "the old table is erased before the line is written"
    assert lines.index("[red]said[/red]") < len(lines) - 1 - lines[::-1].index("word-count  1.2 s")


# -- on a pseudo terminal ----------------------------------------------------------------------------------------------


class Terminal:
    """The command with a pseudo terminal as its standard error."""

    def __init__(self, *arguments: str, **env: str) -> None:
        import pty

        inherited = {
            name: value for name, value in os.environ.items() if name != "NO_COLOR"
        }  # each test says for itself
        self._mine, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aiostorm", *arguments],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**inherited, "TERM": "xterm-256color", "COLUMNS": "110", **env},
        )
        os.close(theirs)
        self.output = ""

    def until(self, text: str) -> None:
        """Read until a text was printed."""
        while text not in self.output and self._read():
            pass
        assert text in self.output

    def end(self) -> tuple[int, str, str]:
        """Exit code, standard output, and the output of the terminal."""
        while self._read():
            pass
        os.close(self._mine)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), self.output

    def _read(self) -> bool:
        try:
            data = os.read(self._mine, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.output += data.decode()
        return bool(data)


terminals = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals of this kind"),
]


@pytest.mark.parametrize("colour", [True, False])
class TestOnATerminal:
    pytestmark = terminals

    def test_table_log_and_end(self, colour: bool):
        pytest.importorskip("rich")
        env = {} if colour else {"NO_COLOR": "1"}
        terminal = Terminal("run", f"{JOBS}:complains", **env)
        terminal.until("not 20")
        terminal.until("sum  ")  # the table
        terminal.process.send_signal(signal.SIGINT)
        code, out, output = terminal.end()
        assert code == 130
        assert "endless interrupted after" in out
        assert "\x1b" not in out
        assert "\x1b[?25l" in output
        assert output.count("\x1b[?25l") == output.count("\x1b[?25h"), "the cursor is there again"
        lines = [line.strip() for line in ESCAPES.sub("", output).replace("\r", "\n").splitlines()]
        assert any(re.match(r"endless  \d+\.\d", line) for line in lines)
        assert any(re.match(r"sum +1 +0 +[\d,]+ ", line) for line in lines)
        assert any(line.endswith("ValueError: not 20") and "sum[2] failed in execute" in line for line in lines)
        assert bool(COLOURS.search(output)) is colour

    def test_two_interrupts(self, colour: bool):
        pytest.importorskip("rich")
        terminal = Terminal("run", f"{JOBS}:never_acks_for_long", **({} if colour else {"NO_COLOR": "1"}))
        terminal.until("numbers")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("Press Ctrl-C again to stop now.")
        terminal.process.send_signal(signal.SIGINT)
        code, _, output = terminal.end()
        assert code == 130
        assert "Stopped now. Pending: 20 messages of numbers (message ids 0, 1, 2, 3, 4, …)." in output
        assert output.index("\x1b[?25h") < output.index("Stopped now.")
