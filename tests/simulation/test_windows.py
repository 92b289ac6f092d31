"""Windows on several workers: whichever worker dies, each fires once, complete, in time, and all fire at the end."""

from __future__ import annotations

import pytest

from .planted.planting import has_no_problem
from .planted.windows import FIRST_LOOK, PLANTED, SEEDS, found_by
from .windows.measured import INTERVAL_MS, day, idle
from .windows.world import KINDS, run
from .worlds import printed


@pytest.mark.parametrize("seed", range(10))
def test_windows_keep_their_promises(seed: int) -> None:
    result = run(seed, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])
    assert result.rows > 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_alone(kind: str) -> None:
    result = run(1_000, faults=kind)
    assert not result.problems
    assert {fault.kind for fault in result.script} == {kind}


@pytest.mark.parametrize("seed", [0, 17, 27, 35])
def test_a_silent_input_holds_windows_back_for_the_idle_timeout_and_a_tick(seed: int) -> None:
    talk = idle(seed)
    assert len(talk.fired_s) == 29
    assert max(talk.held_s) <= INTERVAL_MS / 1000 + 0.01


@pytest.mark.parametrize("emits_watermarks", [False, True])
def test_no_timer_fires_on_an_idle_day(emits_watermarks: bool) -> None:
    assert day(0, emits_watermarks=emits_watermarks) <= 5  # the test itself sleeps through it


@pytest.mark.slow
@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_run_is_the_same_under_any_hash_seed() -> None:
    seeds = [1, 2, 3]
    program = f"from tests.simulation.windows.world import run; print([run(s).digest for s in {seeds}])"
    assert printed(program) == f"{[run(seed).digest for seed in seeds]}\n"


def test_a_result_that_a_link_repeats_is_waited_for() -> None:
    """Results of merged windows have no message: the connection with three of them breaks when all rows are acked."""
    assert not run(965618084, faults_s=220 / 30).problems


@pytest.mark.slow
def test_a_large_join_takes_its_time_and_does_not_poll() -> None:
    """Rows of both spouts by processing time, which a frozen process finds at once: 3,000 results."""
    assert not run(678318854, faults_s=220 / 30).problems


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert has_no_problem(run, result.seed)  # it was the bug, and nothing else
