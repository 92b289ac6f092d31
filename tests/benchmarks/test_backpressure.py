"""The comparison of backpressures: schedules, what is counted, Heron's rule, tables; and short runs in virtual time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import asdict

import pytest

from aiostorm.testing.simulation.chance import SeededRng
from benchmarks.backpressure.__main__ import main
from benchmarks.backpressure.figures import figures
from benchmarks.backpressure.run import Second, watched
from benchmarks.backpressure.slowness import KINDS, PER_S, SERVICE_S, TASKS, Speed
from benchmarks.backpressure.table import BEGIN, END, into_page, markdown
from benchmarks.backpressure.tally import Histogram, Tally
from benchmarks.backpressure.topology import TIMES
from benchmarks.backpressure.ways import HERON, NONE, OURS, StopAndGo
from benchmarks.cells import WrongResultError

from .test_findings import MACHINE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begin_s", [0.0, 0.997, 29.999, 41.5, 89.99])
def test_started_work_ends_when_it_is_done(kind: str, begin_s: float):
    for speed in KINDS[kind](120.0).speeds:
        assert speed.work(begin_s, speed.end(begin_s)) == pytest.approx(SERVICE_S)


def test_work_started_during_a_hang_ends_after_it():
    speed = Speed(((0.0, 2.0), (1.0, 0.0), (2.0, 1.0)))
    assert speed.end(0.5, 0.1) == pytest.approx(0.55)
    assert speed.end(0.99, 0.1) == pytest.approx(2.08)
    assert speed.end(1.5, 0.1) == pytest.approx(2.1)


def test_the_rate_that_all_tasks_can_bear_is_computed():
    bears = {name: [make(120.0).bears(*between) for between in ((0, 30), (30, 90))] for name, make in KINDS.items()}
    assert bears["slow"] == pytest.approx([30 * PER_S, 60 * PER_S])
    assert bears["some"] == pytest.approx([30 * PER_S * 0.91, 60 * PER_S * 0.91])
    assert bears["keyed"] == pytest.approx([30 * 220, 60 * 220]), "by key, all wait for the slowest"
    assert bears["minute"] == pytest.approx([30 * PER_S, 6 * PER_S])
    assert bears["bursty"] == pytest.approx([30 * PER_S, 60 * PER_S], rel=0.15)
    assert KINDS["minute"](120.0).rate(60.0) == pytest.approx(PER_S / 10)


def test_herons_rule_stops_at_high_and_goes_when_none_is_above_low():
    rule = StopAndGo(high=100, low=60, above=3)
    full = [(1, 100), (2, 5)]
    assert [rule.look(full) for _ in range(4)] == [False, False, False, True]
    assert rule.stopped
    for _ in range(3):
        assert not rule.look([(1, 61), (2, 120)])
    assert not rule.look([(1, 60), (2, 120)])  # the second has become a cause as well
    assert rule.stopped
    assert rule.look([(1, 0), (2, 60)])
    assert not rule.stopped
    assert rule.transitions == 2


def test_herons_rule_forgets_what_was_above_only_for_a_moment():
    rule = StopAndGo(high=100, low=60, above=3)
    for _ in range(10):
        assert not any(rule.look([(1, fill)]) for fill in (100, 100, 100, 99))


def test_quantiles_are_right_to_two_and_a_half_percent():
    odd, even = Histogram(), Histogram()
    for number in range(1, 1001):
        (odd if number % 2 else even).add(number / 100)
    assert Histogram.quantile(0.5, [odd, even]) == pytest.approx(5.0, rel=0.026)
    assert Histogram.quantile(0.99, [odd, even]) == pytest.approx(9.9, rel=0.026)
    assert Histogram.quantile(0.5, [Histogram()]) is None


def test_a_number_that_was_lost_or_not_acked_is_seen():
    tally = Tally(1, 10, 1)
    numbers = [tally.emit(0) for _ in range(3)]
    for number in numbers:
        tally.execute(0, number)
        tally.ack(0, number, 0.5, 0.4)
    tally.execute(0, 0)
    tally.check()
    assert tally.again == 1
    tally.execute(0, tally.emit(0))
    with pytest.raises(WrongResultError, match="4 were emitted, 4 were done, 3 were acked"):
        tally.check()


def test_pauses_are_counted_behind_the_start():
    tally = Tally(1, 10, 10)
    tally.counts_from_s = 2.0
    for tenth in range(1, 61):
        if tenth in (5, 27, 30):
            tally.emit(0)
        tally.look(int(tenth >= 50), tenth / 10)
    tally.finished(6.0)
    assert tally.longest_pause_s == pytest.approx(1.9)
    assert tally.pauses == [pytest.approx((2.0, 2.6)), pytest.approx((3.0, 4.9)), pytest.approx((5.0, 6.0))]


def record(emits: list[int], does: list[int], way: str = OURS) -> dict:
    seconds = [
        Second(at + 1.0, emitted, done, 0, PER_S, 0, 0, 7, 9, 50.0 + at, 0.1, 0.2)
        for at, (emitted, done) in enumerate(zip(emits, does, strict=True))
    ]
    return {
        "slowness": "slow", "way": way, "seconds": float(len(seconds)), "warm_s": 2.0, "failed": 1234, "replayed": 5,
        "emitted": sum(emits), "again": 0, "peak_mb": 60.0, "p50_s": 0.1, "p99_s": 2.5, "longest_pause_s": 0.01,
        "pauses": [], "transitions": 3, "series": [list(asdict(second).values()) for second in seconds],
    }  # fmt: skip


def test_an_even_flow_varies_by_nothing_and_the_start_does_not_count():
    found = figures(record([9000, 0, 2000, 2000, 2000], [500, 900, 2000, 2000, 2000]))
    assert (found.emit_cv, found.done_cv, found.emit_off, found.share) == (0, 0, 0, 1)
    assert found.growth_mb == 4.0


def test_stop_and_go_varies_by_as_much_as_it_is():
    found = figures(record([0, 0, 4000, 0, 4000, 0], [2000] * 5 + [1000]))
    assert found.emit_cv == pytest.approx(1.0)
    assert found.done_cv == pytest.approx(0.2165, rel=0.01)
    assert (found.emit_off, found.done_off, found.share) == pytest.approx((1.0, 0.5, 0.875))


def test_tables_go_into_a_page(tmp_path):
    records = [record([2000] * 4, [2000] * 4, way) for way in (NONE, HERON, OURS)]
    text = markdown(MACHINE, records, {"some, none": "it ended with 1: no | way\nout"})
    assert "### Always as slow" in text
    assert "| coordinated | **0.00** | 0.00 | **1.000** | 100 ms | 2.5 s | 0.0 s | 0 | 3 | 1,234 | 0 |" in text
    assert "| some, none | it ended with 1: no \\| way out |" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    into_page(page, text)
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\n{text}\n{END}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="which are not there"):
        into_page(page, text)


def test_a_run_in_which_nothing_was_emitted_has_no_figure_for_it():
    text = markdown(MACHINE, [record([0] * 4, [0] * 4, OURS) | {"p50_s": None, "p99_s": None}], {})
    assert "| coordinated | – | 0.00 | **0.000** | – | – | 0.0 s |" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runs", "slowly"], "none of"),
        (["--ways", "e"], "none of"),
        (["--seconds", "1"], "at least 10 s"),
        (["--seconds", "nan"], "at least 10 s"),
        (["--again", "nowhere.json"], "there is no file nowhere.json"),
    ],
)
def test_an_unknown_choice_is_refused(arguments: list[str], said: str, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("way", [NONE, HERON, OURS])
async def test_a_short_run_is_checked_and_seen_second_by_second(way: str):
    loop = asyncio.get_running_loop()
    seen = await watched("slow", way, 4.0, loop.time, SeededRng(random.Random(7)))
    seconds = [Second(*values) for values in seen["series"]]
    assert [round(second.at_s) for second in seconds] == [1, 2, 3, 4]
    # As fast as it may, until it is held back: ours by mailboxes of 200 ms, the others by a thousand tuples a task.
    least, most = (1.2, 1.4) if way == OURS else (5.0, TIMES)
    assert least * PER_S < seconds[0].emitted < most * PER_S
    assert seconds[-1].done == pytest.approx(PER_S, rel=0.05)
    assert sum(second.emitted for second in seconds) < TIMES * PER_S * 2  # a quarter of what it could
    assert (seen["transitions"] > 0) is (way == HERON)  # ours takes four looks, one a second
    assert max(second.fill for second in seconds) < 1_300
    assert len(seconds) * TASKS == 40
