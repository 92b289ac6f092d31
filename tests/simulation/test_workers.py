"""Topologies on several workers under every fault of the network and the processes, against the model."""

from __future__ import annotations

import pytest

from .planted.planting import has_no_problem
from .planted.workers import FIRST_LOOK, PLANTED, SEEDS, found_by
from .workers.world import KINDS, run
from .worlds import printed


@pytest.mark.parametrize("seed", range(6))
def test_workers_keep_their_promises(seed: int) -> None:
    result = run(seed, last=100)
    assert not result.problems, "\n".join([*result.problems, result.trace])
    assert result.executed > 0
    assert result.frames > 100


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_alone(kind: str) -> None:
    result = run(1_000, faults=kind, faults_s=15.0)
    assert not result.problems
    assert {fault.kind for fault in result.script} == {kind}


@pytest.mark.slow
@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_run_is_the_same_under_any_hash_seed() -> None:
    seeds = [(1, False), (2, True)]
    runs = f"[run(s, faults_s=5.0, spawned=h).digest for s, h in {seeds}]"
    program = f"from tests.simulation.workers.world import run; print({runs})"
    assert printed(program) == f"{[run(seed, faults_s=5.0, spawned=spawned).digest for seed, spawned in seeds]}\n"


@pytest.mark.slow
def test_without_ackers_rows_of_a_cycle_may_take_their_time() -> None:
    """Of 400 messages, which are acked when they are emitted, 24,000 rows come, one by one through a slow bolt."""
    assert not run(50003391, faults_s=11.0).problems


@pytest.mark.slow
def test_rows_of_attempts_that_timed_out_may_take_their_time() -> None:
    """All 200 messages are acked, some at their 13th attempt; rows of the other attempts go on for 75 s in a cycle."""
    assert not run(15988479, faults_s=220.0).problems


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert has_no_problem(run, result.seed)  # it was the bug, and nothing else
