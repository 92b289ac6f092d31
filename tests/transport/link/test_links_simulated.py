"""Links between three processes of a simulated world: crashes, cuts, frozen processes, wrong clocks, bad networks."""

from __future__ import annotations

import pytest

from .simulated import live


@pytest.mark.parametrize("seed", range(12))
def test_nothing_comes_twice_or_early_and_all_comes_in_the_end(seed: int) -> None:
    happened = live(seed)
    assert happened["came"] > 500
    assert happened["incarnations"] >= 6


def test_one_seed_is_one_world() -> None:
    assert live(4, "ab") == live(4, "ab")
