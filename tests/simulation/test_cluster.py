"""A cluster whose processes die and freeze, and whose store is away now and then: its topology goes on."""

from __future__ import annotations

import pytest

from .cluster.world import run
from .planted.cluster import FIRST_LOOK, PLANTED, SEEDS, found_by
from .planted.planting import has_no_problem


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    result = run(seed)
    assert not result.problems, "\n".join([*result.problems, *result.faults])
    assert result.acked > 100
    assert result.faults


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    result = found_by(PLANTED[name], FIRST_LOOK.get(name, 0))
    assert result is not None, f"{SEEDS} seeds do not find it"
    assert has_no_problem(run, result.seed)  # it was the bug, and nothing else
