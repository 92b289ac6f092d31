"""Streams, and whether the machines say of them what the reference says. One `random.Random` makes a stream.

Out of order, late, skewed keys, same timestamps, gaps, before 1970, far jumps, batches of any size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from aiostorm.windows import (
    END_MS,
    BufferedSessions,
    BufferedWindows,
    Collect,
    Combined,
    Count,
    Counts,
    Fold,
    Mixed,
    MsEachRows,
    Periodic,
    RowsEachMs,
    Session,
    Sliding,
    Sum,
    Tumbling,
    WatermarkPolicy,
    Watermarks,
    count_windows,
    time_windows,
)

from . import reference

POLICIES = {
    "max": WatermarkPolicy.GLOBAL_MAX_TIMESTAMP,
    "ratio": WatermarkPolicy.MAX_TIMESTAMP_WITH_RATIO,
    "min": WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP,
}
KEYS = ("a", "a", "a", "b", "c", "d")
MERGING = Combined(all=Collect(), count=Count(), sum=Sum())
NOT_MERGING = Fold(list, lambda state, value: [*state, value])


def batches(rng: random.Random) -> Iterator[tuple[list[reference.Row], int]]:
    """Rows, and a watermark after them. All values differ."""
    at = rng.choice((0, -10_000, -40, 1_700_000_000_000))
    watermark, value = at - 50, 0
    for _ in range(rng.randint(1, 12)):
        rows: list[reference.Row] = []
        for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
            at += rng.choice((0, 0, 1, 2, 5, 5, 9, 40))
            late = rng.choice((0, 0, 0, 1, 4, 10, 30))
            rows.append((rng.choice(KEYS), at - late, value))
            value += 1
        if rng.random() < 0.05:
            at += rng.choice((1_000, 1_000_000))
        watermark = max(watermark, at - rng.choice((-30, -3, 0, 0, 3, 5, 10, 20)))
        yield rows, watermark - rng.choice((0, 0, 0, 50))  # a watermark that goes back is none


def sizes(rng: random.Random) -> tuple[int, int, int]:
    """Size, slide, offset."""
    size = rng.choice((1, 2, 3, 7, 10, 10, 12, 25))
    slide = rng.choice((size, rng.randint(1, size), rng.randint(1, size)))
    return size, slide, rng.choice((0, 0, 3, -7, 1_000_003))


def columns(rows: list[reference.Row]) -> tuple[list[object], list[int], list[object]]:
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def assert_incremental(rng: random.Random, kind: str) -> None:
    """Tumbling, shared or plain sliding windows, or sessions: each batch and each watermark against the reference."""
    size, slide, offset = sizes(rng)
    lateness = rng.choice((0, 0, 3, 15))
    if kind == "session":
        windows = time_windows(Session(size), MERGING, allowed_lateness_ms=lateness)
        expected: reference.Sessions | reference.Aligned = reference.Sessions(size, lateness)
    else:
        slide = size if kind == "tumbling" else slide
        assigner = Tumbling(size, offset) if kind == "tumbling" else Sliding(size, slide, offset)
        windows = time_windows(assigner, NOT_MERGING if kind == "plain" else MERGING, allowed_lateness_ms=lateness)
        expected = reference.Aligned(size, slide, offset, lateness)
    abandon = rng.random() < 0.2
    for rows, watermark in batches(rng):
        keys, timestamps, values = columns(rows)
        expected.late.clear()
        expected.add(rows)
        taken = windows.add(keys, timestamps, values)
        assert taken.failed == []
        assert [rows[place] for place in sorted(taken.late)] == expected.late
        due = expected.advance(watermark)
        soonest = windows.next_fire_ms
        assert not due or (soonest is not None and soonest <= windows_watermark(windows, watermark))
        if abandon:  # what is not taken at once is not lost
            windows.advance(watermark)
        fired = list(windows.advance(watermark))
        assert [((one.window.start, one.window.end), one.key, values_of(one)) for one in fired] == due
    far = 10**15
    assert [((one.window.start, one.window.end), one.key, values_of(one)) for one in windows.advance(far)] == (
        expected.advance(far)
    )
    assert windows.states == 0
    assert windows.next_fire_ms is None


def windows_watermark(windows: object, watermark: int) -> int:
    known = windows.watermark  # type: ignore[attr-defined]
    return watermark if known is None else max(known, watermark)


def values_of(fired: object) -> list[object]:
    """Checks that the parts of a result agree."""
    assert fired.error is None, fired.error  # type: ignore[attr-defined]
    result = fired.result  # type: ignore[attr-defined]
    if isinstance(result, dict):
        assert result["count"] == len(result["all"])
        assert result["sum"] == sum(result["all"])
        result = result["all"]
    return sorted(result)


def assert_counts(rng: random.Random) -> None:
    size, slide, _ = sizes(rng)
    rows = [(rng.choice(KEYS), value) for value in range(rng.randint(0, 80))]
    for aggregate in (MERGING, NOT_MERGING):
        windows = count_windows(Counts(size, slide), aggregate)
        assert windows.add([key for key, _ in rows], [value for _, value in rows]).failed == []
        fired = [((one.window.start, one.window.end), one.key, values_of(one)) for one in windows.fire()]
        assert fired == reference.counted(rows, size, slide)
        for key in KEYS:
            windows.forget(key)
        assert windows.states == 0


def assert_buffered(rng: random.Random, kind: str) -> None:
    """Windows that keep their rows: each batch and each watermark against the reference."""
    size, slide, offset = sizes(rng)
    lateness = rng.choice((0, 0, 3, 15))
    windows: BufferedWindows | BufferedSessions
    expected: reference.Buffered | reference.KeptSessions
    if kind == "session":
        windows = BufferedSessions(Session(size), allowed_lateness_ms=lateness)
        expected = reference.KeptSessions(size, lateness)
    else:
        windows = BufferedWindows(Sliding(size, slide, offset), allowed_lateness_ms=lateness)
        expected = reference.Buffered(size, slide, offset, lateness)
    released: list[object] = []
    for rows, watermark in [*batches(rng), ([], 10**12 * 2)]:
        expected.late.clear()
        expected.add(rows)
        taken = windows.add(*columns(rows))
        assert taken.failed == []
        assert [rows[place] for place in taken.late] == expected.late
        fired = [
            ((one.window.start, one.window.end), one.key, list(one.get()), list(one.get_new()), list(one.get_expired()))
            for one in windows.advance(watermark)
        ]
        due, done = expected.advance(watermark)
        assert fired == due
        released += windows.released()
        assert len(released) == len(set(released))
        assert set(released) == done
    assert windows.rows == 0
    assert windows.next_fire_ms is None


def assert_mixed(rng: random.Random, kind: str) -> None:
    """So many rows each so many milliseconds, or the reverse."""
    lateness, size, slide, offset = rng.choice((0, 0, 3, 15)), rng.randint(1, 8), rng.randint(1, 30), rng.choice((0, 7))
    windows: RowsEachMs | MsEachRows
    expected: reference.RowsEach | reference.SpanEach
    if kind == "rows":
        windows = RowsEachMs(Mixed(size=size, slide_ms=slide, offset_ms=offset), allowed_lateness_ms=lateness)
        expected = reference.RowsEach(size, slide, offset, lateness)
    else:
        windows = MsEachRows(Mixed(size_ms=slide, slide=size), allowed_lateness_ms=lateness)
        expected = reference.SpanEach(slide, size, lateness)
    released: list[object] = []
    for rows, watermark in [*batches(rng), ([], END_MS)]:
        expected.late.clear()
        expected.add(rows)
        taken = windows.add(*columns(rows))
        assert taken.failed == []
        assert [rows[place] for place in taken.late] == expected.late
        fired = [
            ((one.window.start, one.window.end), one.key, list(one.get()), list(one.get_new()), list(one.get_expired()))
            for one in windows.advance(watermark)
        ]
        due, done = expected.advance(watermark)
        assert fired == due
        released += windows.released()
        assert len(released) == len(set(released))
        assert set(released) == done
    assert windows.rows == 0
    assert windows.next_fire_ms is None


def assert_watermarks(rng: random.Random) -> None:
    inputs = rng.randint(1, 5)
    policy = rng.choice(list(POLICIES))
    ratio = rng.choice((0.3, 0.5, 0.6, 0.9, 1))
    idle_timeout = rng.choice((None, 1, 10, 30))
    watermarks = Watermarks(range(inputs), policy=POLICIES[policy], ratio=ratio, idle_timeout_ms=idle_timeout)
    expected = reference.InputWatermarks(inputs, policy, ratio, idle_timeout)
    now, before = 0, None
    for _ in range(rng.randint(1, 25)):
        now += rng.choice((0, 1, 3, 9, 12, 40))
        what, name, watermark = (
            rng.choice(("advance", "advance", "activity", "tick")),
            rng.randrange(inputs),
            rng.randint(-99, 99),
        )
        if what == "advance":
            said, wanted = watermarks.advance(name, watermark, now), expected.event(now, name, watermark)
        elif what == "activity":
            said, wanted = watermarks.on_activity(name, now), expected.event(now, name)
        else:
            said, wanted = watermarks.tick(now), expected.event(now)
        assert (float("-inf") if said is None else said) == wanted
        assert watermarks.idle == expected.silent
        assert before is None or (said is not None and said >= before)
        before = said


def assert_whole(rng: random.Random) -> None:
    """Several input tasks with clocks of their own, generators, a policy, and windows: all of it at once."""
    inputs = rng.randint(1, 4)
    policy, idle_timeout = rng.choice(list(POLICIES)), rng.choice((None, 20, 60))
    lag = rng.choice((0, 2, 10))
    size, slide, offset = sizes(rng)
    generators = [Periodic(lag, interval_ms=10) for _ in range(inputs)]
    watermarks = Watermarks(range(inputs), policy=POLICIES[policy], idle_timeout_ms=idle_timeout)
    windows = time_windows(Sliding(size, slide, offset), MERGING)
    expected_watermarks = reference.InputWatermarks(inputs, policy, 0.9, idle_timeout)
    expected = reference.Aligned(size, slide, offset)
    skew = [rng.choice((0, 0, 5, -30, 200)) for _ in range(inputs)]
    highest: dict[int, int] = {}
    for step in range(rng.randint(1, 20)):
        now = step * 10  # periodic generators begin at the first tick: their turns are those of the loop
        speaker = rng.randrange(inputs)
        rows = [
            (rng.choice(KEYS), now + skew[speaker] - rng.choice((0, 1, 7, 25)), step * 10 + n)
            for n in range(rng.randint(0, 4))
        ]
        if rows:
            highest[speaker] = max([highest.get(speaker, -(10**9)), *(row[1] for row in rows)])
            expected.add(rows)
            keys, timestamps, values = columns(rows)
            windows.add(keys, timestamps, values)
            generators[speaker].observe(timestamps, values)
            watermarks.on_activity(speaker, now)
            expected_watermarks.event(now, speaker)
        for name, generator in enumerate(generators):
            watermark = generator.tick(now)
            if watermark is not None:
                assert watermark == highest[name] - lag
                watermarks.advance(name, watermark, now)
                expected_watermarks.event(now, name, watermark)
        said, wanted = watermarks.tick(now), expected_watermarks.event(now)
        assert (float("-inf") if said is None else said) == wanted
        if said is not None:
            fired = [((one.window.start, one.window.end), one.key, values_of(one)) for one in windows.advance(said)]
            assert fired == expected.advance(said)


CHECKS = {
    "tumbling": lambda rng: assert_incremental(rng, "tumbling"),
    "shared": lambda rng: assert_incremental(rng, "shared"),
    "plain": lambda rng: assert_incremental(rng, "plain"),
    "session": lambda rng: assert_incremental(rng, "session"),
    "counts": assert_counts,
    "buffered": lambda rng: assert_buffered(rng, "time"),
    "buffered session": lambda rng: assert_buffered(rng, "session"),
    "mixed rows": lambda rng: assert_mixed(rng, "rows"),
    "mixed span": lambda rng: assert_mixed(rng, "span"),
    "watermarks": assert_watermarks,
    "whole": assert_whole,
}
