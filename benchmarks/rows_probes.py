"""Probes: memory, steadiness, what is replayed, and limits whose subject is yet to come."""

from __future__ import annotations

from collections.abc import Iterator

from .cells import Cell, Figure, Probe

MEMORY = "memory"
REPLAY = "replay"
_TREES = ((1, 30_000), (256, 1_000))
"""Messages of a tree; how many trees are held open."""


def probes() -> Iterator[Probe]:
    """All of them."""
    yield _w5()
    yield _w9()
    yield from _memory()
    yield from _replay()


def _w5() -> Probe:
    return Probe(
        "w5",
        "limit only: dict of windows",
        Cell("benchmarks.w5", "dict_of_windows"),
        500_000,
        (Figure("rate", "events/s"),),
        warm=True,
        note="windows are yet to come",
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
