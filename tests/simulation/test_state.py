"""State: with exactly once, whatever is killed, and wherever, sinks and states are those of an undisturbed run."""

from __future__ import annotations

import inspect

import pytest

from .planted.planting import has_no_problem
from .planted.state import FIRST_LOOK, PLANTED, SEEDS, found_by
from .state.failpoints import NAMES, POINTS
from .state.faults import KINDS
from .state.world import run
from .worlds import printed

ALONE = 1_000


@pytest.mark.parametrize("seed", range(8))
def test_state_keeps_its_promises(seed: int) -> None:
    result = run(seed, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])
    assert result.snapshots > 0


def test_tasks_that_are_about_to_be_rolled_back_are_not_finished() -> None:
    """In this run they were quiet when their rollback had been decided, and had not begun."""
    assert not run(471222134, faults_s=2.2).problems


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_alone(kind: str) -> None:
    result = run(ALONE, faults=kind, workers=0 if kind == "sync" else 2)
    assert not result.problems
    assert {fault.kind for fault in result.script} == {kind}


def test_failpoints_are_methods_of_the_library() -> None:
    assert len(POINTS) >= 25
    assert len(NAMES) == len(set(NAMES)) > 2 * len(POINTS)
    for owner, method in POINTS.values():
        assert inspect.isfunction(getattr(owner, method))


@pytest.mark.slow
@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_run_is_the_same_under_any_hash_seed() -> None:
    seeds = [(1, 0), (2, 2)]
    runs = f"[run(s, workers=w).digest for s, w in {seeds}]"
    program = f"from tests.simulation.state.world import run; print({runs})"
    assert printed(program) == f"{[run(seed, workers=workers).digest for seed, workers in seeds]}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert has_no_problem(run, result.seed)  # it was the bug, and nothing else
