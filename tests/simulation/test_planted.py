"""Testing the tester: every planted bug is found within 50 seeds."""

from __future__ import annotations

import pytest

from . import storm
from .planted.planting import SEEDS, has_no_problem
from .planted.storm import BUGS, FIRST_LOOK


def short(seed: int) -> storm.Storm:
    return storm.run(seed, faults_s=storm.SHORT_S)


def test_there_are_enough() -> None:
    assert len(BUGS) >= 12
    assert set(FIRST_LOOK) <= set(BUGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hint = FIRST_LOOK.get(name, 0)
    with BUGS[name]():
        assert any(short(seed).problems for seed in (hint, *range(SEEDS)))
    assert has_no_problem(short, hint)  # it was the bug, and nothing else
