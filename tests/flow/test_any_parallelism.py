"""What windows by event time give does not depend on how many tasks there are (300 streams: any_parallelism.py)."""

from __future__ import annotations

import pytest

from .any_parallelism import problem


@pytest.mark.parametrize("seed", range(24))
async def test_results_equal_those_of_a_plain_model(seed: int) -> None:
    assert await problem(seed) is None
