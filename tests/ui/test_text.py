"""The page as plain text: what is in each line, and that no name moves the cursor."""

from __future__ import annotations

from typing import Any

from aiostorm.ui.model import Cause, ComponentTick, Latency, Marks, Tick
from aiostorm.ui.text import text_of

COUNTS = {"emitted": 1200.0, "executed": 0.0, "acked": 7.0, "failed": 1.0, "pending": 3.0}


def component(name: str, kind: str, **given: Any) -> ComponentTick:
    known: dict[str, Any] = {
        "tasks": 2,
        "counts": COUNTS,
        "fill": 0.256,
        "level": "calm",
        "blocked_tasks": 0,
        "wait_s": 0.0,
        "execute_s": None,
        "complete_s": None,
        "open_windows": 0,
        "watermark_ms": None,
        "watermark_lag_s": None,
        "progress": "",
    }
    return ComponentTick(name, kind, **{**known, **given})


def lines_of(*components: ComponentTick, degraded: str = "", causes: tuple[Cause, ...] = (), name: str = "t") -> Any:
    tick = Tick(1, 1.0, "running", degraded, "normal", 12_345, 1_000, Marks(0.2, 0.8), components, causes)
    return text_of(name, tick).split("\n")


def cells(line: str) -> list[str]:
    return line.split()


def test_the_whole_text() -> None:
    took = {"process": Latency(9, 0.0005, 1.25), "complete": Latency(9, 0.9, 0.999)}
    cause = Cause("lines", 0.002, 1.0, "count", 0.9, ("lines", "count"), "lines waits")
    spout = component("lines", "spout", wait_s=0.0015, latencies=took)
    bolt = component("count", "bolt", level="blocked", latencies=took)
    assert lines_of(spout, bolt, degraded="no disk", causes=(cause,)) == [
        "t running, 12,345 pending, 1,000 errors",
        "degraded: no disk",
        "lines waits",
        "",
        "component  tasks  emitted  executed  acked  failed  pending     p50     p99  fill  mailbox   waits",
        "lines          2    1,200         0      7       1        3  900 ms  999 ms                 1.5 ms",
        "count          2    1,200         0      7       1        3  0.5 ms  1.25 s   26%  blocked",
        "",
    ]


def test_what_is_not_known_is_left_out() -> None:
    first, empty, _, line, end = lines_of(component("count", "bolt"))
    assert (first, empty, end) == ("t running, 12,345 pending, 1,000 errors", "", "")
    assert cells(line) == ["count", "2", "1,200", "0", "7", "1", "3", "26%", "calm"]
    assert cells(lines_of(component("lines", "spout"))[3]) == ["lines", "2", "1,200", "0", "7", "1", "3"]


def test_a_second_is_no_millisecond() -> None:
    spout = component("lines", "spout", wait_s=1.0)
    assert lines_of(spout)[3].endswith("  1 s")
    assert lines_of(component("lines", "spout", wait_s=0.9996))[3].endswith("  1e+03 ms")


def test_names_are_printable() -> None:
    first, _, _, line, _ = lines_of(component("a\x1b[2Jb", "bolt"), name="ü\n\x00")
    assert first.startswith("ü\\n\\x00 running")
    assert cells(line)[0] == "a\\x1b[2Jb"
