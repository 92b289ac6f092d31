"""Peers: what other systems make of W1, W2 and W4 to W6, each against the same limit, by the same child and oracle.

1. A peer is measured in its fastest idiomatic form, with batches where it offers them; where its own examples do
   without, that form has a row as well. Each adapter says what it does. Ours is measured in its fastest form, too: with
   batches, and at least once.
2. The guarantee that is on is part of the row. Nearly all have none.
3. The limit of W1 has the size of ours, whatever the peer's. Limits with queues run on the standard library's loop,
   which every environment has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .cells import Cell, Row
from .environments import PEERS

NONE = "none"
_OURS = {
    "w1": "w1/batches, at least once",
    "w2": "w2/batches, at least once",
    "ask": "w4/ask, as peers",
    "tell": "w4/tell, as peers",
    "w5": "w5/WindowedBolt, at least once",
    "w6": "w6/functions, at least once, asyncio",
}
_FASTEST = {"rate": 3.0}
"""Ours, at least once, is to be three times the fastest peer that guarantees nothing; so three times each."""


def peer_rows() -> Iterator[Row]:
    """All of them."""
    yield from _w1()
    yield _w2()
    yield from _w4()
    yield from _w4_processes()
    yield from _w5()
    yield from _w6()


def _labels(peer: str, style: str, guarantee: str = NONE, loop: str = "–", what: str = "rate") -> Mapping[str, str]:
    return {"what": what, "peer": PEERS[peer].shown, "style": style, "guarantee": guarantee, "tree": "–", "loop": loop}


def _cell(peer: str, function: str, **options: Any) -> Cell:
    return Cell(f"benchmarks.adapters.peer_{peer}", function, options, env=peer)


def _w1() -> Iterator[Row]:
    loop = {"loop": "uvloop"}
    for peer, style, guarantee, size, options in (
        ("bytewax", "batch operators", NONE, 50_000, {"style": "batches"}),
        ("bytewax", "flat_map, count_final", NONE, 50_000, {"style": "operators"}),
        ("bytewax", "batch operators", "recovery, epochs of 1 s", 150_000, {"style": "batches", "recovery": True}),
        ("pathway", "Python connector, groupby", NONE, 50_000, {}),
        ("pathway", "Python connector, groupby", "persistence", 50_000, {"persistence": True}),
        ("xoscar", "actors, batch", NONE, 20_000, {"batched": True, **loop}),
        ("xoscar", "actors", NONE, 10_000, {"batched": False, **loop}),
        ("streamz", "map, flatten, sink", NONE, 10_000, {}),
        ("pykka", "threading actors", NONE, 10_000, {}),
        ("thespian", "actors, simpleSystemBase", NONE, 10_000, {}),
        ("faust", "agents, memory channels", NONE, 3_000, {"loop": "asyncio"}),
    ):
        yield Row(
            "w1",
            f"{peer}, {style}" + (f", {guarantee}" if guarantee != NONE else ""),
            _cell(peer, "word_count", **options),
            Cell("benchmarks.w1", "plain_loop"),
            "plain loop",
            "words",
            size,
            against_size=50_000,
            rounds=2,
            labels=_labels(peer, style, guarantee, options.get("loop", "–")),
            ours=_OURS["w1"],
            ours_targets=_FASTEST if guarantee == NONE else {},
        )


def _w2() -> Row:
    return Row(
        "w2",
        "bytewax, batch operators, two processes",
        Cell("benchmarks.adapters.peer_bytewax_w2", "word_count", env="bytewax"),
        Cell("benchmarks.w1", "plain_loop"),
        "plain loop",
        "words",
        50_000,
        against_size=50_000,
        rounds=2,
        labels=_labels("bytewax", "batch operators"),
        ours=_OURS["w2"],
        ours_targets=_FASTEST,
    )


def _w4() -> Iterator[Row]:
    for peer, options, sizes in (
        ("xoscar", {"loop": "uvloop"}, (50_000, 50_000)),
        ("pykka", {}, (10_000, 50_000)),
        ("thespian", {}, (20_000, 50_000)),
    ):
        for what, size in zip(("ask", "tell"), sizes, strict=True):
            targets = {"tell": {"rate": 5.0}, "ask": {"rate": 1.0} if peer == "xoscar" else {}}
            yield Row(
                "w4",
                f"{what}, {peer}",
                _cell(peer, what, **options),
                Cell("benchmarks.w4", f"queue_{what}", {"loop": "asyncio"}),
                "asyncio.Queue on asyncio",
                "messages",
                size,
                against_size=50_000,
                rounds=2,
                labels=_labels(peer, "actors", loop=options.get("loop", "–"), what=what),
                ours=_OURS[what],
                ours_targets=targets[what],
            )


def _w4_processes() -> Iterator[Row]:
    loop = {"loop": "uvloop"}
    for name, function, options, size, limit, limits, limit_size in (
        ("ask", "ask_far", {}, 3_000, "socket_ask", {}, 5_000),
        ("ask, 64 at a time", "ask_far", {"at_a_time": 64}, 5_000, "socket_ask", {"at_a_time": 64}, 20_000),
        ("tell", "tell_far", {}, 5_000, "socket_tell", {}, 50_000),
        ("tell, fan-in from 10", "tell_far", {"senders": 10}, 5_000, "socket_tell", {}, 50_000),
    ):
        yield Row(
            "w4",
            f"two processes: {name}, xoscar",
            _cell("xoscar", function, **loop, **options),
            Cell("benchmarks.w4_processes", limit, {"loop": "asyncio", **limits}),
            "bare socket on asyncio",
            "messages",
            size,
            against_size=limit_size,
            rounds=2,
            labels=_labels("xoscar", "actors", loop="uvloop", what=f"two processes: {name}"),
            ours=f"w4/two processes: {name}",
            ours_targets={"rate": 10.0},
        )


def _w5() -> Iterator[Row]:
    for peer, style, size, options in (
        ("bytewax", "fold_window", 200_000, {"style": "fold_window"}),
        ("bytewax", "stateful_batch, by hand", 200_000, {"style": "by hand"}),
        ("pathway", "Python connector, windowby", 60_000, {}),
    ):
        yield Row(
            "w5",
            f"{peer}, {style}",
            Cell(f"benchmarks.adapters.peer_{peer}_w5", "windows", options, env=peer),
            Cell("benchmarks.w5", "dict_of_windows"),
            "dict of windows",
            "events",
            size,
            against_size=500_000,
            rounds=2,
            labels=_labels(peer, style),
            ours=_OURS["w5"],
            ours_targets=_FASTEST if "window" in style else {},
        )


def _w6() -> Iterator[Row]:
    for peer, style, options in (
        ("xoscar", "actors", {"loop": "asyncio"}),
        ("pykka", "threading actors", {}),
        ("faust", "agents, memory channels", {"loop": "asyncio"}),
    ):
        yield Row(
            "w6",
            f"{peer}, {style}",
            _cell(peer, "latency", **options),
            Cell("benchmarks.w6", "queue_chain", {"loop": "asyncio"}),
            "asyncio.Queue chain",
            "tuples",
            1_500,
            rounds=2,
            metrics=("p50", "p99", "max"),
            labels=_labels(peer, style, loop=options.get("loop", "–")),
            ours=_OURS["w6"],
        )
