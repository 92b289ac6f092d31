"""`aiostorm trace`: one tuple tree as text and as JSON, of a run in another process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aiostorm.cli.trace import BAR, NAMES, as_text
from aiostorm.metrics import Span, Step, Trace

from .conftest import JOBS, Command, Process

Start = Callable[..., Process]


def span(component: str, depth: int, times: tuple[float, float, float], **more: object) -> Span:
    made = Span("02", "", depth, component, depth + 1, "local", "spout", "default", 4, *times, error_s=0.0)
    return replace(made, **more)


TREE = Trace(
    id="00000000000000ff",
    component="spout",
    task=1,
    worker="local",
    emitted_at_s=1_700_000_000.0,
    messages=4,
    attempt=1,
    replay_of="",
    outcome="acked",
    problem="",
    complete_s=4.0,
    spans=(span("split", 1, (0.0, 1.0, 2.0)), span("store", 2, (2.0, 3.0, 4.0), rows=1)),
    path=(
        Step("send", "split", 0.0),
        Step("wait", "split", 1.0),
        Step("execute", "split", 1.0),
        Step("send", "store", 0.0),
        Step("wait", "store", 1.0),
        Step("execute", "store", 0.999),
        Step("ack", "", 0.001),
    ),
    notes=(),
    omitted=0,
)


def test_a_tree_is_shown_with_waits_and_execution_on_one_axis() -> None:
    head, top, split, store, way = as_text("orders", TREE).splitlines()
    assert head.startswith("orders: tree 00000000000000ff, emitted at ")
    assert top.endswith("4 messages, acked after 4 s")
    quarter = BAR // 4
    bar = f"{'░' * quarter}{'█' * quarter}{' ' * 2 * quarter}"
    assert split == f"{'split [2]':<{NAMES}}  {bar}  waited 1 s, executed 1 s, 4 rows"
    assert store.startswith("  store [3]")
    assert store.endswith(f"{' ' * 2 * quarter}{'░' * quarter}{'█' * quarter}  waited 1 s, executed 1 s, 1 row")
    assert way == (
        "Slowest way: waited for split 1 s (25%), executed by split 1 s (25%), waited for store 1 s (25%), "
        "executed by store 999 ms (25%)"
    )


def test_what_a_tree_of_workers_misses_and_why_it_failed_is_said() -> None:
    far = span("split" * 20, 1, (0.0, 0.0, 0.0), worker="worker-2", stream="late\x1b[31m", error_s=0.0015)
    tree = replace(
        TREE,
        outcome="failed",
        problem="failed in split[2]: ValueError: no\n",
        attempt=2,
        replay_of="01",
        complete_s=None,
        spans=(far,),
        path=(),
        notes=("worker-2 has ended meanwhile",),
        omitted=3,
    )
    text = as_text("orders", tree)
    assert "attempt 2 (tree 01 failed)" in text
    assert "4 messages, failed: failed in split[2]: ValueError: no" in text
    assert "… and 3 more" in text
    assert "Clocks of workers: ± 1.5 ms" in text
    assert "Note: worker-2 has ended meanwhile" in text
    assert "\x1b" not in text
    assert all(len(line) < 150 for line in text.splitlines())


@pytest.mark.sockets
@pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets")
def test_a_run_of_another_process_is_traced(aiostorm: Command, start: Start, runtime: Path) -> None:
    process = start("run", f"{JOBS}:endless", "-q", "-c", "topology.trace.one.in=0")
    process.until_out("under way")
    missing = aiostorm("trace", "endless", "--last")
    assert missing.code == 2
    assert "none is known: ask for the next one, without --last" in missing.err
    text = aiostorm("trace", "endless")
    assert (text.code, text.err) == (0, "")
    assert "Slowest way: " in text.out
    document = aiostorm("trace", "endless", "-C", "sum", "--json").json
    assert document["topology"] == "endless"
    assert [span["component"] for span in document["trace"]["spans"]] == ["sum"]
    assert aiostorm("trace", "endless", "--last", "--json").json["trace"]["outcome"] == "acked"
    wrong = aiostorm("trace", "endless", "-C", "sun")
    assert (wrong.code, "did you mean 'sum'?" in wrong.err) == (2, True)
    process.send(signal.SIGINT)
    process.end()
