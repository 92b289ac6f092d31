"""Traces: the rows that processes have kept of sampled tuple trees (spans.py), joined into trees.

    rows of all workers, on one clock ─► by root ─► spans, each below the one that it came from ─► the slowest way

1. A span came from the span of its sending task that had begun last when it arrived. (What a task makes of several
   segments of one tree in one turn is one segment.)
2. The steps of `path` add up to the time of the tree: nothing of it is left out or counted twice. Times that clocks put
   into another order (by less than their error) are moved together.
3. What is missing is said: a span whose sender is not known, a tree that is open, a worker that has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from .spans import EMITTED, HANDLED, SETTLED, SPLIT, SpanRow

MAX_TREES: Final = 200
MAX_SPANS: Final = 500

Outcome = Literal["open", "acked", "failed"]
StepKind = Literal["send", "wait", "execute", "ack"]


class PlacedRow(NamedTuple):
    """A row, and where it was kept. `offset_s`: of the clock there, by `error_s` more or less."""

    worker: str
    offset_s: float
    error_s: float
    row: SpanRow


@dataclass(frozen=True, slots=True)
class Span:
    """A segment of the tree, as one task has handled it. Times are seconds since the tree was emitted.

    `parent`: the edge of the span that it came from; empty: the spout. `depth` counts from the spout, 1 below it.
    `arrived_s`: in its mailbox, or before a full one; `ended_s`: its last row was executed (if the bolt acks by
    itself: acked). `error_s`: its clock may be wrong by so much.
    """

    edge: str
    parent: str
    depth: int
    component: str
    task: int
    worker: str
    source: str
    stream: str
    rows: int
    arrived_s: float
    begun_s: float
    ended_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the way that took longest: sent to a component, waited in its mailbox, executed there; then acked."""

    kind: StepKind
    component: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Trace:
    """One tuple tree: its spout's `messages`, and all that was made of them.

    `attempt` 2: one message that had failed once, in the tree `replay_of`. `complete_s`: seconds from emit to the last
    ack or failure; None: it is open. `problem`: why messages failed. `notes`: what is missing here. `omitted`: spans
    beyond the first 500. `context`: of the span in which it was emitted, as W3C's `traceparent`, and after a space
    `tracestate`; empty: none, or `topology.trace.context` is off.
    """

    id: str
    component: str
    task: int
    worker: str
    emitted_at_s: float
    messages: int
    attempt: int
    replay_of: str
    outcome: Outcome
    problem: str
    complete_s: float | None
    spans: tuple[Span, ...]
    path: tuple[Step, ...]
    notes: tuple[str, ...]
    omitted: int
    context: str = ""

    @property
    def error_s(self) -> float:
        """Times of other workers may be wrong by so much."""
        return max((span.error_s for span in self.spans if span.worker != self.worker), default=0.0)

    def passes(self, component: str) -> bool:
        """Is the component its spout, or one of those that have handled it?"""
        return component == self.component or any(span.component == component for span in self.spans)


def joined_traces(
    rows: Iterable[PlacedRow], component_of: Mapping[int, str], ended: Iterable[tuple[float, str]] = ()
) -> list[Trace]:
    """The trees of these rows, the last one first; at most 200. A tree whose start is not among them is left out.

    `component_of`: task → component. `ended`: (when, worker) of processes that have ended, on the clock here.
    """
    trees: dict[int, _Tree] = {}
    owner: dict[int, int] = {}
    placed = list(rows)
    for each in placed:
        if each.row[0] == EMITTED:
            trees[_whole(each.row[1])] = _Tree(each)
        elif each.row[0] == SPLIT:
            owner[_whole(each.row[2])] = _whole(each.row[1])
    for each in placed:
        tree = trees.get(_top(_whole(each.row[1]), owner))
        if tree is not None and each.row[0] == HANDLED:
            tree.handled.append(each)
        elif tree is not None and each.row[0] == SETTLED:
            tree.settled.append(each)
    newest = sorted(trees.values(), key=lambda tree: tree.at_s)[: -MAX_TREES - 1 : -1]
    lost = list(ended)
    return [tree.joined(component_of, lost) for tree in newest]


def _top(root: int, owner: Mapping[int, int]) -> int:
    """The tree that a sub-tree belongs to."""
    for _ in range(MAX_SPANS):
        if root not in owner:
            break
        root = owner[root]
    return root


def _whole(value: Any) -> int:
    return int(value)


@dataclass(slots=True)
class _Tree:
    """The rows of one tree. `at_s`: its start, on the clock here."""

    start: PlacedRow
    handled: list[PlacedRow] = field(default_factory=list)
    settled: list[PlacedRow] = field(default_factory=list)
    at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.at_s = _time(self.start, 3)

    def joined(self, component_of: Mapping[int, str], ended: list[tuple[float, str]]) -> Trace:
        _, root, task, _, wall_s, messages, failures, before, context = self.start.row
        spans = _arranged([self._span(each, component_of) for each in self.handled], _whole(task))
        done = sum(_whole(each.row[4]) for each in self.settled)
        failed = [each for each in self.settled if each.row[5] == "failed"]
        is_open = done < _whole(messages)
        complete_s = None if is_open else max(0.0, max(_time(each, 3) for each in self.settled) - self.at_s)
        return Trace(
            id=_id(root),
            component=component_of.get(_whole(task), "?"),
            task=_whole(task),
            worker=self.start.worker,
            emitted_at_s=float(wall_s),
            messages=_whole(messages),
            attempt=_whole(failures) + 1,
            replay_of=_id(before) if before else "",
            outcome="failed" if failed else "open" if is_open else "acked",
            problem=str(failed[-1].row[6]) if failed else "",
            complete_s=complete_s,
            spans=tuple(each.shown() for each in spans[:MAX_SPANS]),
            path=() if complete_s is None else tuple(_path(spans, complete_s)),
            notes=tuple(self._notes(spans, complete_s, ended)),
            omitted=max(0, len(spans) - MAX_SPANS),
            context=str(context),
        )

    def _span(self, placed: PlacedRow, component_of: Mapping[int, str]) -> _Open:
        _, _, edge, task, source, stream, _, _, _, rows = placed.row
        return _Open(
            edge=_id(edge),
            component=component_of.get(_whole(task), "?"),
            task=_whole(task),
            worker=placed.worker,
            source=component_of.get(_whole(source), "?"),
            source_task=_whole(source),
            stream=str(stream),
            rows=_whole(rows),
            times=tuple(_time(placed, at) - self.at_s for at in (6, 7, 8)),
            error_s=placed.error_s,
        )

    def _notes(self, spans: list[_Open], complete_s: float | None, ended: list[tuple[float, str]]) -> Iterator[str]:
        until_s = float("inf") if complete_s is None else self.at_s + complete_s
        for worker in dict.fromkeys(worker for at_s, worker in ended if self.at_s <= at_s <= until_s):
            yield f"{worker} has ended meanwhile: what it did is missing here, but for what it had reported"
        senders = dict.fromkeys(span.source for span in spans if span.orphan)
        if senders:
            yield f"spans are missing here, of {', '.join(senders)}"
        if complete_s is None and self.settled:
            yield "some of its messages are acked or failed, others are open"


@dataclass(slots=True)
class _Open:
    """A span that is being arranged. `times`: arrived, begun, ended."""

    edge: str
    component: str
    task: int
    worker: str
    source: str
    source_task: int
    stream: str
    rows: int
    times: tuple[float, ...]
    error_s: float
    parent: _Open | None = None
    depth: int = field(init=False)
    orphan: bool = False

    def shown(self) -> Span:
        return Span(
            edge=self.edge,
            parent="" if self.parent is None else self.parent.edge,
            depth=self.depth,
            component=self.component,
            task=self.task,
            worker=self.worker,
            source=self.source,
            stream=self.stream,
            rows=self.rows,
            arrived_s=self.times[0],
            begun_s=self.times[1],
            ended_s=self.times[2],
            error_s=self.error_s,
        )


def _arranged(spans: list[_Open], spout: int) -> list[_Open]:
    """Each span below its parent, children in the order of their arrival."""
    spans.sort(key=lambda span: (span.times[1], span.times[0]))
    by_task: dict[int, list[_Open]] = {}
    for span in spans:
        by_task.setdefault(span.task, []).append(span)
    children: dict[int, list[_Open]] = {}
    tops: list[_Open] = []
    for span in spans:
        parent = _parent(span, by_task.get(span.source_task, ()))
        if parent is None:
            span.orphan = span.source_task != spout
            tops.append(span)
        else:
            span.parent = parent
            children.setdefault(id(parent), []).append(span)
    arranged: list[_Open] = []
    waiting = sorted(tops, key=_arrival, reverse=True)
    while waiting:
        span = waiting.pop()
        span.depth = 1 if span.parent is None else span.parent.depth + 1
        arranged.append(span)
        waiting.extend(sorted(children.get(id(span), ()), key=_arrival, reverse=True))
    return arranged


def _parent(span: _Open, of_sender: Sequence[_Open]) -> _Open | None:
    """The span of the sending task that had begun last when this one arrived."""
    for each in reversed(of_sender):
        if each.times[1] <= span.times[0] + max(span.error_s, each.error_s) and _above(each, span):
            return each
    return None


def _above(parent: _Open, span: _Open) -> bool:
    """May it be the parent? Where a topology has a cycle, a span is never below itself."""
    above: _Open | None = parent
    while above is not None:
        if above is span:
            return False
        above = above.parent
    return True


def _arrival(span: _Open) -> tuple[float, str]:
    return span.times[0], span.edge


def _path(spans: list[_Open], complete_s: float) -> Iterator[Step]:
    """The steps to the span that has ended last, and to the last ack: their times add up to the time of the tree."""
    chain: list[_Open] = []
    above = max(spans, key=lambda span: span.times[2], default=None)
    while above is not None:
        chain.insert(0, above)
        above = above.parent
    now_s = 0.0

    def until(at_s: float) -> float:
        """The time that has passed since the step before."""
        nonlocal now_s
        before_s, now_s = now_s, min(max(now_s, at_s), complete_s)
        return now_s - before_s

    for span, below in zip_longest(chain, chain[1:]):
        arrived_s, begun_s, ended_s = span.times
        yield Step("send", span.component, until(arrived_s))
        yield Step("wait", span.component, until(begun_s))
        yield Step("execute", span.component, until(ended_s if below is None else min(ended_s, below.times[0])))
    yield Step("ack", "", until(complete_s))


def _time(placed: PlacedRow, at: int) -> float:
    return float(placed.row[at]) - placed.offset_s


def _id(number: Any) -> str:
    return f"{_whole(number):016x}"
