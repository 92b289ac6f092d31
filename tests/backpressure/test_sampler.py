"""Sampler: periods, marks and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure import Level, PressureVerdict, Sample, Sampler, Settings, level_of

SETTINGS = Settings()


def sample(fill: int, *, closed: bool = False, executed: int = 0, execute_s: float = 0.0, instance: int = 0) -> Sample:
    return Sample(fill, 100, closed, executed, execute_s, instance=instance)


def verdicts(
    sampler: Sampler, fills: Sequence[int], *, busy: float = 1.0, closed: bool = False
) -> list[PressureVerdict]:
    """A sample each second, the first of them at the start of the period."""
    return [
        sampler.sample(sample(fill, execute_s=busy * second, closed=closed), float(second))
        for second, fill in enumerate(fills)
    ]


@pytest.mark.parametrize(
    ("fill", "closed", "level"),
    [
        (81, False, Level.HIGH),
        (80, False, Level.BETWEEN),
        (6, False, Level.BETWEEN),
        (5, False, Level.LOW),
        (30, True, Level.HIGH),
        (0, True, Level.HIGH),
    ],
)
def test_above_high_at_or_below_low_or_between(fill: int, closed: bool, level: Level) -> None:
    assert level_of(sample(fill, closed=closed), SETTINGS) is level


def test_a_task_that_is_blocked_behind_is_no_cause() -> None:
    sampler = Sampler(SETTINGS)
    for second in range(20):
        sampler.sample(Sample(100, 100, True, 0, 0.0, stuck=True), float(second))
    assert not sampler.flagged


@pytest.mark.parametrize(
    ("number", "rate", "high", "blocked"),
    [(4, 0.75, 4, True), (4, 0.75, 3, False), (4, 0.5, 3, True), (4, 0.5, 2, False), (4, 1.0, 4, True),
     (4, 1.0, 3, False), (1, 1.0, 1, True), (10, 0.8, 9, True), (10, 0.8, 8, False)],
)  # fmt: skip
def test_more_than_the_rate_must_be_high_and_a_rate_of_1_means_all(
    number: int, rate: float, high: int, blocked: bool
) -> None:
    sampler = Sampler(Settings(samples=number, rate=rate))
    found = verdicts(sampler, [0] + [90] * high + [50] * (number - high))
    assert found[-1] is (PressureVerdict.BLOCKED if blocked else PressureVerdict.NONE)
    assert sampler.flagged is blocked


def test_each_period_has_a_verdict_of_its_own_and_the_flag_stays_until_clear() -> None:
    sampler = Sampler(SETTINGS)
    found = verdicts(sampler, [90] * 9 + [50] * 4 + [3] * 8)
    judged = [(second, verdict) for second, verdict in enumerate(found) if verdict is not PressureVerdict.NONE]
    blocked, relieved = PressureVerdict.BLOCKED, PressureVerdict.RELIEVED
    assert judged == [(4, blocked), (8, blocked), (16, relieved), (20, relieved)]
    assert (sampler.flagged, sampler.step) == (True, 4)
    sampler.clear()
    assert (sampler.flagged, sampler.verdict) == (False, PressureVerdict.NONE)


def test_blocks_counts_the_periods_that_were_blocked_until_one_is_relieved() -> None:
    sampler = Sampler(SETTINGS)
    counted = []
    for second, fill in enumerate([90] * 9 + [50] * 4 + [90] * 4 + [3] * 4 + [90] * 4):
        if sampler.sample(sample(fill, execute_s=float(second)), float(second)) is not PressureVerdict.NONE:
            counted.append((second, sampler.blocks))
    assert counted == [(4, 1), (8, 2), (16, 3), (20, 0), (24, 1)]
    sampler.clear()
    assert sampler.blocks == 0


def test_a_task_that_is_not_flagged_is_not_relieved() -> None:
    assert set(verdicts(Sampler(SETTINGS), [0] * 30, busy=0.0)) == {PressureVerdict.NONE}


def test_a_flagged_one_that_is_low_and_idle_is_relieved_at_once() -> None:
    sampler = Sampler(SETTINGS)
    verdicts(sampler, [90] * 5)
    assert sampler.sample(sample(2, execute_s=4.9), 5.0) is PressureVerdict.NONE  # low, and busy
    assert sampler.sample(sample(2, execute_s=5.0), 6.0) is PressureVerdict.RELIEVED
    assert sampler.busy == pytest.approx(0.1)


def test_another_instance_is_another_task() -> None:
    sampler = Sampler(SETTINGS)
    verdicts(sampler, [90] * 5)
    assert sampler.flagged
    assert sampler.sample(sample(90, instance=1), 5.0) is PressureVerdict.NONE
    assert (sampler.flagged, sampler.high) == (False, 0)


def test_switched_off_nothing_is_flagged_and_other_settings_begin_a_period() -> None:
    sampler = Sampler(SETTINGS)
    verdicts(sampler, [90] * 8)
    sampler.update(Settings(high=0.95))
    assert (sampler.flagged, sampler.high) == (True, 0)
    assert set(verdicts(sampler, [90] * 9)) == {PressureVerdict.NONE}
    sampler.update(Settings(enable=False))
    assert not sampler.flagged


def test_load_is_of_the_last_interval_and_starved_is_of_the_last_period() -> None:
    sampler = Sampler(SETTINGS)
    observed = []
    for second in range(8):
        sampler.sample(Sample(50, 100, False, 0, 0.5 * second, dry=second == 2), float(second))
        observed.append((sampler.load, sampler.starved))
    assert observed[:2] == [(0.0, False), (1.0, False)]  # idle or not, nothing was missing
    assert observed[2:4] == [(pytest.approx(0.5), True), (1.0, True)]
    assert observed[6:] == [(1.0, True), (1.0, False)]


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=60), st.integers(1, 8), st.floats(0.05, 1))
def test_the_verdicts_are_those_of_the_text(looks: list[tuple[int, bool]], number: int, rate: float) -> None:
    """Against a reference that keeps all samples of a period. Always busy, so there is no verdict before its end."""
    settings = Settings(samples=number, rate=rate)
    sampler, flagged, period = Sampler(settings), False, []
    for second, (fill, closed) in enumerate(looks):
        found = sampler.sample(sample(fill, closed=closed, execute_s=float(second)), float(second))
        expected = PressureVerdict.NONE
        if second:
            period.append(Level.HIGH if closed or fill > 80 else Level.LOW if fill <= 5 else Level.BETWEEN)
        if len(period) == number:
            need = rate * number
            if period.count(Level.HIGH) > need or period.count(Level.HIGH) == number:
                expected = PressureVerdict.BLOCKED
            elif flagged and (period.count(Level.LOW) > need or period.count(Level.LOW) == number):
                expected = PressureVerdict.RELIEVED
            period = []
        assert found is expected
        flagged = flagged or expected is PressureVerdict.BLOCKED
        assert sampler.flagged is flagged


def test_a_task_that_is_busy_half_of_the_time_is_not_idle() -> None:
    sampler = Sampler(SETTINGS)
    verdicts(sampler, [90] * 5)
    assert sampler.sample(sample(2, execute_s=4.5), 5.0) is PressureVerdict.NONE
    assert sampler.sample(sample(5, execute_s=4.9), 6.0) is PressureVerdict.RELIEVED
    assert sampler.sample(sample(6, execute_s=4.9), 7.0) is PressureVerdict.NONE, "between its marks"


def test_a_verdict_says_how_busy_the_task_was_in_all_of_its_period() -> None:
    sampler = Sampler(SETTINGS)
    for second, execute_s in enumerate((0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.4)):
        sampler.sample(sample(90, execute_s=execute_s), float(second))
        assert sampler.busy == pytest.approx(0.0 if second < 4 else 0.5 if second < 8 else 0.1)


@pytest.mark.parametrize(("spent_s", "passed_s", "load"), [(3.0, 1.0, 1.0), (-3.0, 1.0, 0.0), (1.0, 0.0, 1.0)])
def test_clocks_that_disagree_make_no_share_beyond_its_bounds(spent_s: float, passed_s: float, load: float) -> None:
    sampler = Sampler(SETTINGS)
    sampler.sample(Sample(50, 100, False, 0, 10.0), 0.0)
    sampler.sample(Sample(50, 100, False, 0, 10.0 + spent_s, dry=True), passed_s)
    assert sampler.load == load


def test_what_was_observed_of_another_instance_or_with_other_settings_is_forgotten() -> None:
    sampler = Sampler(SETTINGS)
    for second in range(3):
        sampler.sample(Sample(50, 100, False, 0, 0.0, dry=True), float(second))
    assert sampler.starved
    sampler.sample(Sample(90, 100, False, 0, 0.0, instance=1), 3.0)
    assert (sampler.starved, sampler.load) == (False, 0.0)
    sampler.sample(Sample(90, 100, False, 0, 0.0, dry=True, instance=1), 4.0)
    assert (sampler.starved, sampler.high) == (True, 1)
    sampler.update(Settings(samples=6))
    assert (sampler.starved, sampler.load, sampler.high) == (False, 0.0, 0)
    found = [(sampler.sample(Sample(90, 100, False, 0, 0.0, dry=at == 0, instance=1), 10.0 + at), sampler.starved)
             for at in range(8)]  # fmt: skip
    assert [verdict is PressureVerdict.BLOCKED for verdict, _ in found] == [at == 6 for at in range(8)]
    assert [starved for _, starved in found] == [True] * 7 + [False]


def test_after_clear_the_next_period_counts_from_its_own_start() -> None:
    sampler = Sampler(SETTINGS)
    verdicts(sampler, [90] * 9)
    assert (sampler.verdict, sampler.blocks, sampler.step) == (PressureVerdict.BLOCKED, 2, 2)
    sampler.clear()
    assert (sampler.flagged, sampler.blocks, sampler.step) == (False, 0, 2)
    assert [sampler.sample(sample(90, execute_s=9.0 + n), 9.0 + n) for n in range(4)][-1] is PressureVerdict.BLOCKED
    assert (sampler.blocks, sampler.step) == (1, 3)
