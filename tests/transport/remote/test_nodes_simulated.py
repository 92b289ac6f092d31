"""Actors of three processes that tell, ask and watch one another, in a simulated world: crashes, cuts, wrong clocks."""

from __future__ import annotations

import pytest

from .simulated_nodes import live


@pytest.mark.parametrize("seed", range(4))
def test_remote_refs_keep_their_promises_under_any_faults(seed: int) -> None:
    happened, answered = live(seed)
    assert happened["tell"] > 300
    assert answered["answer"] > 100
    assert answered["AskTimeoutError"] > 0
    assert answered["PeerLostError"] > 0 or not happened["crash"]
