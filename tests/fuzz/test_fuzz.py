"""A short run of the campaign, and the tester tested."""

from __future__ import annotations

from random import Random

import pytest

from . import grammar
from .campaign import TARGETS, Findings, campaign


def test_hostile_bytes_are_read_or_refused() -> None:
    found = campaign(20_000, seed=7)
    assert not found.wrong, "\n".join(found.wrong)
    for name in TARGETS:
        assert found.outcomes[name, "refused"] > 100, f"{name}: a campaign in which nothing is refused tests nothing"
        assert found.outcomes[name, "read"] > (0 if name in ("batches", "noise") else 20), (
            f"{name}: nor one that reads nothing"
        )


@pytest.mark.parametrize("name", TARGETS)
def test_frames_are_valid_before_they_are_mutated(name: str) -> None:
    make, read = TARGETS[name]
    if name != "noise":
        for seed in range(30):
            read(make(Random(seed)))


def test_an_unexpected_exception_is_found() -> None:
    def planted(data: bytes) -> None:
        raise KeyError(data)

    found = Findings()
    found.look("planted", grammar.noise(Random(1)), planted)
    assert len(found.wrong) == 1
    assert "KeyError" in found.wrong[0]
