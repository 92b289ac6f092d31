"""Topologies that cannot keep up, whatever is lost of what backpressure monitors, topology master and spouts say, and
whichever actor dies."""

from __future__ import annotations

import pytest

from .planted.planting import has_no_problem
from .planted.pressure import FIRST_LOOK, PLANTED, SEEDS, found_by
from .pressure.arrow import arrows
from .pressure.measured import day, release
from .pressure.world import KINDS, run
from .worlds import printed


@pytest.mark.parametrize("seed", [3, 4, 8, 19])
def test_pressure_is_answered_and_ends(seed: int) -> None:
    result = run(seed, faults_s=300, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])
    assert result.throttled
    assert result.executed > 0


@pytest.mark.parametrize("seed", [55, 258])
def test_a_lost_flag_of_a_busy_bolt_and_a_late_order_are_no_problems(seed: int) -> None:
    result = run(seed, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])
    assert result.throttled


def test_tuples_emitted_before_an_order_do_not_delay_the_spout_for_a_minute() -> None:
    result = run(33, faults_s=220, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])


@pytest.mark.parametrize(
    "seeds", [range(12), *(pytest.param(range(n, n + 95), marks=pytest.mark.slow) for n in range(0, 380, 95))]
)
def test_the_cause_arrow_leads_to_a_slow_bolt(seeds: range) -> None:
    found = [arrows(seed) for seed in seeds]
    assert [(seed, one.wrong[0]) for seed, one in zip(seeds, found, strict=True) if one.wrong] == []
    assert [one.kind for one in found if one.unknown] == []
    assert sum(one.right > 0 for one in found) >= len(seeds) / 3  # in the others no spout had to wait


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_alone(kind: str) -> None:
    result = run(1_003, faults=kind, faults_s=150)
    assert not result.problems
    assert {fault.kind for fault in result.script} <= {kind}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pressure_ends_soon_though_messages_are_lost_and_the_master_dies(seed: int) -> None:
    found = release(seed, 0.1)
    assert found is None or max(found.rate_s, found.normal_s) <= 2.0


def test_an_idle_day_is_silent() -> None:
    result = day(0, trickle=False)
    assert (result.events, result.messages) == (0, 0)


@pytest.mark.slow
def test_a_day_with_a_tuple_a_minute_changes_nothing() -> None:
    result = day(0, trickle=True)
    assert result.events == 0
    assert result.acked == result.emitted > 1_400
    assert result.messages <= 3 * result.emitted


@pytest.mark.slow
@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_run_is_the_same_under_any_hash_seed() -> None:
    program = "from tests.simulation.pressure.world import run; print([run(s, faults_s=150).digest for s in range(3)])"
    assert printed(program) == f"{[run(seed, faults_s=150).digest for seed in range(3)]}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert has_no_problem(run, result.seed)  # it was the bug, and nothing else
