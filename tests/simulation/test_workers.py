"""Topologies on several workers under every fault of the network and the processes, against the ghost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .planted_workers import FIRST_LOOK, PLANTED, SEEDS, found_by
from .workers import KINDS, run


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


@pytest.mark.sockets  # a process of its own, for its hash seed
def test_a_seed_is_one_run_under_any_hash_seed() -> None:
    program = "from tests.simulation.workers import run; print(run(2, faults_s=10.0).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in (0, 1)
    }
    assert digests == {run(2, faults_s=10.0).digest + "\n"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert not run(result.seed).problems  # it was the bug, and it is gone
