"""Rows: what is measured against what, and what is aimed at: aiostorm's own.

A duel is a row whose other side is not a limit but aiostorm with one thing changed; its ratio is what that thing costs.
Peers are in rows_peers.py, what is not held against anything in rows_probes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .cells import Cell, Item, Row
from .rows_peers import peer_rows
from .rows_probes import probes

AT_LEAST = "at least once"
AT_MOST = "at most once"
TREES = (1, 3, 16, 64, 256)
TURNS = (64, 256, 1024)
DEFAULT_TREE = 256
"""`topology.acker.tree.max.messages` as it is by default."""
W1_SIZE = 50_000
W2_SIZE = 500_000
"""Some seconds: two processes begin and end within it."""
W5_SIZE = 500_000
CURVE = "curve"
"""The workload of the rows that make the curve: W1 at every size of tree and turn, with the latency of acks."""

Labels = Mapping[str, str]

_NO_ACKERS = "no ackers"
_W1_LIMIT = Cell("benchmarks.w1", "plain_loop")
_W3_LIMIT = Cell("benchmarks.w3", "nested_calls")
_W5_LIMIT = Cell("benchmarks.w5", "dict_of_windows")
_TARGETS = {AT_LEAST: {"rate": 0.30}, AT_MOST: {"rate": 0.45}}
"""Of W1, for the styles that are made for throughput."""
_FAST = ("functions", "batches")


def all_items() -> list[Item]:
    """Every row and probe, in the order of the tables."""
    items = [*_w1(), *_w1_duels(), *_w2(), *_w3(), *_w4(), *_w5(), *_w6(), *_w7(), *_curve(), *peer_rows(), *probes()]
    ids = [item.id for item in items]
    assert len(set(ids)) == len(ids), f"two rows with one name: {sorted(ids)}"
    return items


# -- W1 ----------------------------------------------------------------------------------------------------------------


def _word_count(**options: Any) -> Cell:
    return Cell("benchmarks.adapters.ours_w1", "word_count", options)


def _w1_row(
    name: str,
    cell: Cell,
    labels: Labels,
    against: Cell = _W1_LIMIT,
    against_name: str = "plain loop",
    **more: Any,
) -> Row:
    return Row("w1", name, cell, against, against_name, "words", W1_SIZE, labels=labels, **more)


def _labels(style: str, guarantee: str, tree: int = DEFAULT_TREE, loop: str = "uvloop", what: str = "rate") -> Labels:
    return {
        "what": what,
        "style": style,
        "guarantee": guarantee,
        "tree": str(tree) if guarantee == AT_LEAST else "–",
        "loop": loop,
    }


def _w1() -> Iterator[Row]:
    for style in ("functions", "classes", "batches", "rich"):
        for guarantee in (AT_LEAST, AT_MOST) if style != "rich" else (AT_LEAST,):
            cell = _word_count(style=style, guarantee=guarantee)
            targets = _TARGETS[guarantee] if style in _FAST else {}
            yield _w1_row(f"{style}, {guarantee}", cell, _labels(style, guarantee), targets=targets)
    cell = _word_count(guarantee=_NO_ACKERS)
    yield _w1_row("functions, no ackers", cell, _labels("functions", f"{AT_MOST} (0 ackers)"))
    for style in _FAST:
        cell = _word_count(style=style, source="class")
        yield _w1_row(f"{style}, class spout", cell, _labels(f"{style}, class spout", AT_LEAST))
    cell = _word_count(loop="asyncio")
    yield _w1_row("functions, asyncio", cell, _labels("functions", AT_LEAST, loop="asyncio"))


def _w1_duels() -> Iterator[Row]:
    # Two kinds of at most once: what is faster of them is what acks are held against.
    for other, without in ((AT_MOST, "no message ids"), (_NO_ACKERS, "0 ackers")):
        for style in ("functions", "classes", "batches"):
            yield _w1_row(
                f"{style}, acks against {without}",
                _word_count(style=style),
                _labels(style, AT_LEAST),
                _word_count(style=style, guarantee=other),
                without,
                targets={"rate": 0.85},
            )
    yield _w1_row(
        "functions, asyncio's loop against uvloop",
        _word_count(loop="asyncio"),
        _labels("functions", AT_LEAST, loop="asyncio"),
        _word_count(),
        "on uvloop",
    )
    yield from _collectors()


def _collectors() -> Iterator[Row]:
    """What the garbage collector takes, and what can be had of it."""
    for collector in ("frozen", "thresholds", "frozen, thresholds", "off"):
        yield _w1_row(
            f"functions, garbage collector: {collector}",
            Cell("benchmarks.adapters.ours_w1", "word_count", collector=collector),
            {**_labels("functions", AT_LEAST), "what": f"rate, garbage collector: {collector}"},
            _word_count(),
            "as Python has it",
        )


def _w2() -> Iterator[Row]:
    for style, guarantee in (
        ("batches", AT_LEAST),
        ("batches", AT_MOST),
        ("functions", AT_LEAST),
        ("classes", AT_LEAST),
    ):
        cell = Cell("benchmarks.adapters.ours_w2", "word_count", {"style": style, "guarantee": guarantee})
        labels = _labels(style, guarantee)
        one = _word_count(style=style, guarantee=guarantee)
        yield Row(
            "w2", f"{style}, {guarantee}", cell, _W1_LIMIT, "plain loop", "words", W2_SIZE, labels=labels, rounds=2
        )
        yield Row(
            "w2",
            f"{style}, {guarantee}, against one process",
            cell,
            one,
            "W1 in one process",
            "words",
            W2_SIZE,
            rounds=2,
            labels=labels,
            targets={"rate": 1.4} if guarantee == AT_LEAST else {},
        )


def _curve() -> Iterator[Row]:
    """Throughput and latency of acks under full load, by size of tree and turn. (A tree is no larger than a turn.)"""
    for tree in TREES:
        for turn in TURNS:
            yield Row(
                CURVE,
                f"trees of {tree}, turns of {turn}",
                _word_count(timed=True, config={"acker_tree_max_messages": tree, "turn_max_tuples": turn}),
                _W1_LIMIT,
                "plain loop",
                "words",
                25_000,
                rounds=2,
                labels={**_labels("functions", AT_LEAST, tree), "turn": str(turn)},
            )


# -- W3 to W6 ----------------------------------------------------------------------------------------------------------


def _w3() -> Iterator[Row]:
    for style in ("functions", "classes"):
        for guarantee in (AT_LEAST, AT_MOST):
            cell = Cell("benchmarks.adapters.ours_w3", "identities", {"style": style, "guarantee": guarantee})
            labels = _labels(style, guarantee)
            name = f"{style}, {guarantee}"
            targets = {"rate": 0.4} if (style, guarantee) == ("functions", AT_LEAST) else {}
            yield Row("w3", name, cell, _W3_LIMIT, "nested calls", "tuples", 200_000, targets=targets, labels=labels)
    cell = Cell("benchmarks.adapters.ours_w3", "identities", {"source": "class"})
    labels = _labels("functions, class spout", AT_LEAST)
    yield Row("w3", "functions, class spout", cell, _W3_LIMIT, "nested calls", "tuples", 200_000, labels=labels)


def _w4() -> Iterator[Row]:
    for loop in ("uvloop", "asyncio"):
        for name, ours, limit, options, size in (
            ("ask", "ask", "queue_ask", {}, 50_000),
            ("tell", "tell", "queue_tell", {}, 300_000),
            ("tell, fan-in from 10", "tell", "queue_tell", {"senders": 10}, 300_000),
        ):
            yield Row(
                "w4",
                f"{name}, {loop}",
                Cell("benchmarks.adapters.ours_w4", ours, {"loop": loop, **options}),
                Cell("benchmarks.w4", limit, {"loop": loop, **options}),
                "asyncio.Queue",
                "messages",
                size,
                labels=_labels("actors", AT_MOST, loop=loop, what=name),
            )
    yield from _w4_processes()
    for name in ("ask", "tell"):  # what peers are held against: one limit for all, that of the standard library's loop
        yield Row(
            "w4",
            f"{name}, as peers",
            Cell("benchmarks.adapters.ours_w4", name, {"loop": "uvloop"}),
            Cell("benchmarks.w4", f"queue_{name}", {"loop": "asyncio"}),
            "asyncio.Queue on asyncio",
            "messages",
            50_000,
            labels=_labels("actors", AT_MOST, what=name),
        )


def _w4_processes() -> Iterator[Row]:
    """The same between two processes."""
    for name, ours, limit, options, limits, size in (
        ("ask", "ask", "socket_ask", {}, {}, 5_000),
        ("ask, 64 at a time", "ask", "socket_ask", {"at_a_time": 64}, {"at_a_time": 64}, 20_000),
        ("tell", "tell", "socket_tell", {}, {}, 50_000),
        ("tell, fan-in from 10", "tell", "socket_tell", {"senders": 10}, {}, 50_000),
    ):
        yield Row(
            "w4",
            f"two processes: {name}",
            Cell("benchmarks.adapters.ours_w4_processes", ours, {"loop": "uvloop", **options}),
            Cell("benchmarks.w4_processes", limit, {"loop": "asyncio", **limits}),
            "bare socket on asyncio",
            "messages",
            size,
            rounds=2,
            labels=_labels("actors", AT_MOST, what=f"two processes: {name}"),
        )


def _w5() -> Iterator[Row]:
    """Windows: at least once and at most once, one task and four; what is left of them without a topology."""

    def row(name: str, cell: Cell, labels: Labels, **more: Any) -> Row:
        return Row("w5", name, cell, _W5_LIMIT, "dict of windows", "events", W5_SIZE, labels=labels, **more)

    for tasks, guarantee in ((1, AT_LEAST), (1, AT_MOST), (4, AT_LEAST), (4, AT_MOST)):
        cell = Cell("benchmarks.adapters.ours_w5", "windows", {"guarantee": guarantee, "tasks": tasks})
        style = f"WindowedBolt, {tasks} tasks" if tasks > 1 else "WindowedBolt"
        targets = {"rate": 0.3} if guarantee == AT_LEAST else {}
        yield row(f"{style}, {guarantee}", cell, _labels(style, guarantee), targets=targets)
    labels = {**_labels("the machine alone", AT_MOST, loop="–"), "guarantee": "–"}
    yield row("the machine alone", Cell("benchmarks.adapters.ours_w5_machine", "machine"), labels)
    for keys, size in ((10, 200_000), (1_000, 50_000)):
        for parts in (10, 100):
            options = {"keys": keys, "parts": parts}
            yield Row(
                "slides",
                f"topology, {keys:,} keys, size / slide {parts}",
                Cell("benchmarks.adapters.ours_w5_slides", "in_topology", options),
                Cell("benchmarks.adapters.ours_w5_slides", "in_topology", {**options, "parts": 1}),
                "windows that tumble",
                "events",
                size,
                rounds=2,
                labels=_labels("WindowedBolt", AT_LEAST, what=f"{keys:,} keys, size / slide {parts}"),
            )


def _w6() -> Iterator[Row]:
    for style, guarantee, loop in (
        ("functions", AT_LEAST, "uvloop"),
        ("functions", AT_MOST, "uvloop"),
        ("classes", AT_LEAST, "uvloop"),
        ("functions", AT_LEAST, "asyncio"),
    ):
        yield Row(
            "w6",
            f"{style}, {guarantee}, {loop}",
            Cell("benchmarks.adapters.ours_w6", "latency", {"style": style, "guarantee": guarantee, "loop": loop}),
            Cell("benchmarks.w6", "queue_chain", {"loop": loop}),
            "asyncio.Queue chain",
            "tuples",
            1_500,
            rounds=2,
            metrics=("p50", "p99", "max"),
            targets={"p50": 1.5, "p99": 2.0} if (style, guarantee) == ("functions", AT_LEAST) else {},
            labels=_labels(style, guarantee, 1, loop),
        )


# -- W7 ----------------------------------------------------------------------------------------------------------------


def _w7() -> Iterator[Row]:
    """Columns against pyarrow on the whole table, and against rows."""

    def cell(**options: Any) -> Cell:
        return Cell("benchmarks.adapters.ours_w7", "filter_group_count", options)

    limit = Cell("benchmarks.w7", "whole_table")
    for guarantee in (AT_LEAST, AT_MOST):
        labels = {**_labels("columns", guarantee, 1), "what": "rate"}
        ours = cell(guarantee=guarantee)
        yield Row("w7", f"columns, {guarantee}", ours, limit, "one table", "rows", 2_000_000, labels=labels)
    labels = {**_labels("columns", AT_LEAST, 1), "what": "rate"}
    yield Row("w7", "columns against rows", cell(), cell(style="rows"), "bolts of rows", "rows", 400_000, labels=labels)
