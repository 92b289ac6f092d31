"""Testing the tester: every planted bug is found within 50 seeds."""

from __future__ import annotations

import pytest

from . import storm
from .planted.planting import SEEDS
from .planted.storm import BUGS, FIRST_LOOK


def test_there_are_enough() -> None:
    assert len(BUGS) >= 12
    assert set(FIRST_LOOK) <= set(BUGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    hint = FIRST_LOOK.get(name, 0)
    with BUGS[name]():
        assert any(storm.run(seed, faults_s=storm.SHORT_S).problems for seed in (hint, *range(SEEDS)))
    assert not storm.run(hint, faults_s=storm.SHORT_S).problems  # it was the bug, and nothing else
