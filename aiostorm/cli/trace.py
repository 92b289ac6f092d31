"""Trace: one tuple tree as text, and the program of `aiostorm trace`.

spout [1]        100 messages                        acked after 2.5 s
split [2]        ░░░███████                          waited 100 ms, executed 400 ms, 100 rows
  count [3]                ░░░░░░░░░█████████████    waited 1.1 s, executed 900 ms, 420 rows
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ..cluster import TraceRequest, find
from .control import query
from .document import plain
from .pressure import duration
from .report import printable

if TYPE_CHECKING:
    from ..metrics import Span, Trace

BAR = 40
NAMES = 32
STEPS = {"send": "sent to", "wait": "waited for", "execute": "executed by", "ack": "acked"}


def run_trace(name: str, component: str | None, timeout_s: float, *, last: bool, as_json: bool) -> None:
    """Print a tree. ControlError if there is none."""
    response = asyncio.run(query(find(name), TraceRequest(component or "", 0.0 if last else timeout_s)))
    if as_json:
        click.echo(json.dumps({"topology": response.topology, "trace": plain(response.trace)}, indent=2))
    else:
        click.echo(as_text(response.topology, response.trace))


def as_text(topology: str, trace: Trace) -> str:
    """The text of `aiostorm trace`."""
    return "\n".join(_lines(topology, trace))


def _lines(topology: str, trace: Trace) -> Iterator[str]:
    at = f"{datetime.fromtimestamp(trace.emitted_at_s):%H:%M:%S}"
    yield f"{printable(topology)}: tree {trace.id}, emitted at {at}{_again(trace)}"
    end_s = max([trace.complete_s or 0.0, *(span.ended_s for span in trace.spans)])
    yield f"{_name(trace.component, trace.task, trace.worker, 0)}  {' ' * BAR}  {_outcome(trace)}"
    for span in trace.spans:
        name = _name(span.component, span.task, span.worker, span.depth - 1)
        yield f"{name}  {_bar(span, end_s)}  {_times(span)}"
    if trace.omitted:
        yield f"… and {trace.omitted:,} more"
    if trace.path:
        yield f"Slowest way: {', '.join(_way(trace))}"
    if trace.error_s:
        yield f"Clocks of workers: ± {duration(trace.error_s)}"
    for note in trace.notes:
        yield f"Note: {printable(note)}"


def _again(trace: Trace) -> str:
    if trace.attempt == 1:
        return ""
    of = f" (tree {trace.replay_of} failed)" if trace.replay_of else ""
    return f", attempt {trace.attempt}{of}"


def _outcome(trace: Trace) -> str:
    messages = "1 message" if trace.messages == 1 else f"{trace.messages:,} messages"
    after = "" if trace.complete_s is None else f" after {duration(trace.complete_s)}"
    why = f": {printable(trace.problem)}" if trace.problem else ""
    return f"{messages}, {trace.outcome}{after}{why}"


def _name(component: str, task: int, worker: str, depth: int) -> str:
    where = "" if worker == "local" else f" {worker}"
    text = f"{'  ' * min(depth, 8)}{printable(component)} [{task}]{where}"
    return f"{text if len(text) <= NAMES else text[: NAMES - 1] + '…':<{NAMES}}"


def _bar(span: Span, end_s: float) -> str:
    """Waits and execution on the time of the tree; at least one character for what was executed."""

    def place(at_s: float) -> int:
        return 0 if end_s <= 0 else min(BAR, max(0, round(BAR * at_s / end_s)))

    begun = min(place(span.begun_s), BAR - 1)
    arrived, ended = min(place(span.arrived_s), begun), max(place(span.ended_s), begun + 1)
    return f"{' ' * arrived}{'░' * (begun - arrived)}{'█' * (ended - begun)}{' ' * (BAR - ended)}"


def _times(span: Span) -> str:
    rows = "1 row" if span.rows == 1 else f"{span.rows:,} rows"
    waited, executed = max(0.0, span.begun_s - span.arrived_s), max(0.0, span.ended_s - span.begun_s)
    stream = "" if span.stream == "default" else f", stream {printable(span.stream)}"
    return f"waited {duration(waited)}, executed {duration(executed)}, {rows}{stream}"


def _way(trace: Trace) -> Iterator[str]:
    """The steps that took a hundredth of the time or more."""
    whole_s = trace.complete_s or 0.0
    for step in trace.path:
        if step.seconds > 0 and step.seconds * 100 >= whole_s:
            what = f"{STEPS[step.kind]} {printable(step.component)}".strip()
            yield f"{what} {duration(step.seconds)} ({step.seconds / whole_s:.0%})"
