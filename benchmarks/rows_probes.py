"""Probes: what windows that slide cost, memory, steadiness, what is replayed."""

from __future__ import annotations

from collections.abc import Iterator

from .cells import Cell, Figure, Probe

MEMORY = "memory"
REPLAY = "replay"
SLIDES = "slides"
_TREES = ((1, 30_000), (256, 1_000))
"""Messages of a tree; how many trees are held open."""


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _slides()
    yield _w9()
    yield from _w9_elsewhere()
    yield from _memory()
    yield from _replay()


def _slides() -> Iterator[Probe]:
    for keys in (10, 1_000):
        for kind in ("shared", "plain"):
            for parts in (1, 10, 100) if kind == "shared" else (10, 100):
                yield Probe(
                    SLIDES,
                    f"{kind}, {keys:,} keys, size / slide {parts}",
                    Cell("benchmarks.adapters.ours_w5_slides", "slides", {"kind": kind, "keys": keys, "parts": parts}),
                    10_000 if kind == "plain" and parts == 100 else 30_000,
                    (
                        Figure("a row", "of tumbling's"),
                        Figure("a result", "of tumbling's"),
                        Figure("results for a row"),
                    ),
                    warm=True,
                    note="processor time; the machine alone",
                )


def _w9() -> Probe:
    return Probe(
        "w9",
        "functions, at least once",
        Cell("benchmarks.adapters.ours_w9", "steady"),
        30_000,
        (
            Figure("rss growth", "MB", at_most=2.0),
            Figure("mailbox fill most", "of its capacity", at_most=1.0),
            Figure("pending most", "messages"),
            Figure("rss most", "MB"),
            Figure("rate", "of the bottleneck's own"),
            Figure("rate deviation", "of the bottleneck's own"),
            Figure("latency p50", "ms"),
            Figure("latency p99", "ms"),
        ),
        note="30 s; growth is from the middle third to the last, rates are of the last third",
    )


def _w9_elsewhere() -> Iterator[Probe]:
    for name, function, more in (
        ("ten tasks that wait, at least once", "waiting", (Figure("latency p50", "ms"), Figure("latency p99", "ms"))),
        ("on a second worker, at least once", "on_worker", ()),
    ):
        yield Probe(
            "w9",
            name,
            Cell("benchmarks.adapters.ours_w9_elsewhere", function),
            60_000,
            (
                Figure("rate off", "of the bottleneck's own", at_most=0.1),
                Figure("emit rate off", "of the bottleneck's own", at_most=0.1),
                Figure("longest pause", "s"),
                Figure("rate", "of the bottleneck's own"),
                Figure("rss growth", "MB"),
                Figure("failed", "messages"),
                *more,
            ),
            note="60 s; behind the first 20, off: the worst second; growth is from the first second to the most",
        )


def _memory() -> Iterator[Probe]:
    yield Probe(
        MEMORY,
        "W1, 1 M sentences, flight-limited",
        Cell("benchmarks.adapters.ours_memory", "flight_limited"),
        1_000_000,
        (Figure("peak", "MB", at_most=150.0), Figure("after imports", "MB")),
        note="max_spout_pending 5,000; peak of the whole process",
    )
    for tree, size in _TREES:
        yield Probe(
            MEMORY,
            f"pending trees of {tree}",
            Cell("benchmarks.adapters.ours_memory", "pending_trees", {"tree": tree}),
            size,
            (
                Figure("tracking", "bytes/tree", at_most=200.0 if tree == 1 else None),
                Figure("tracking of a message", "bytes/message", at_most=200.0),
                Figure("allocated", "bytes/tree"),
            ),
            note="beside ids and values of the user; tracking: spout and acker, without what the bolt's task holds",
        )


def _replay() -> Iterator[Probe]:
    for tree in (1, 3, 16, 64, 256):
        yield Probe(
            REPLAY,
            f"trees of {tree}",
            Cell("benchmarks.adapters.ours_replay", "lost", {"tree": tree}),
            20_000,
            (Figure("failed for one lost", "messages"),),
            note="a bolt forgets one tuple in a thousand",
        )
