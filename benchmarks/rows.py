"""Rows: what is measured against what, and what is aimed at.

A duel is a row whose other side is not a limit but aiostorm with one thing changed; its ratio is what that thing costs.
Peers will be rows too: a cell of an adapter, run by the Python of the peer's own environment (`Cell.env`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .cells import Cell, Row

AT_LEAST = "at least once"
AT_MOST = "at most once"
TREES = (1, 3, 16, 64, 256)
DEFAULT_TREE = 64
"""`topology.acker.tree.max.messages` as it is by default."""

Labels = Mapping[str, str]

_NO_ACKERS = "no ackers"
_W1_LIMIT = Cell("benchmarks.w1", "plain_loop")
_W3_LIMIT = Cell("benchmarks.w3", "nested_calls")


def all_rows() -> list[Row]:
    """Every row, in the order of the table."""
    rows = [*_w1(), *_w1_duels(), *_w3(), *_w4(), *_w6()]
    ids = [row.id for row in rows]
    assert len(set(ids)) == len(ids), f"two rows with one name: {sorted(ids)}"
    return rows


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
    return Row("w1", name, cell, against, against_name, "words", 50_000, labels=labels, **more)


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
            targets = {"rate": 0.15} if (style, guarantee) == ("functions", AT_LEAST) else {}
            cell = _word_count(style=style, guarantee=guarantee)
            yield _w1_row(f"{style}, {guarantee}", cell, _labels(style, guarantee), targets=targets)
    cell = _word_count(guarantee=_NO_ACKERS)
    yield _w1_row("functions, no ackers", cell, _labels("functions", f"{AT_MOST} (0 ackers)"))
    cell = _word_count(source="generator")
    yield _w1_row("functions, generator spout", cell, _labels("functions, @spout", AT_LEAST))
    for tree in TREES:
        if tree != DEFAULT_TREE:
            cell = _word_count(config={"acker_tree_max_messages": tree})
            yield _w1_row(f"functions, trees of {tree}", cell, _labels("functions", AT_LEAST, tree))
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


# -- W3, W4, W6 --------------------------------------------------------------------------------------------------------


def _w3() -> Iterator[Row]:
    for style in ("functions", "classes"):
        for guarantee in (AT_LEAST, AT_MOST):
            cell = Cell("benchmarks.adapters.ours_w3", "identities", {"style": style, "guarantee": guarantee})
            labels = _labels(style, guarantee)
            name = f"{style}, {guarantee}"
            yield Row("w3", name, cell, _W3_LIMIT, "nested calls", "tuples", 200_000, labels=labels)


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
            metrics=("p50", "p99", "max"),
            labels=_labels(style, guarantee, 1, loop),
        )
