"""1,000 random topologies in virtual time: every message is acked or failed exactly once, and nothing is left over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiostorm.testing import VirtualTimeLoop

from . import random_topologies

SEEDS = 1000
CHUNK = 50
KILLED = 100
QUICK = 50
"""So many run on other Pythons too."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] if first >= QUICK else []) for first in range(0, SEEDS, CHUNK)],
)
def test_every_message_is_settled_exactly_once(first: int) -> None:
    assert _executed(random_topologies.run, range(first, first + CHUNK)) > 0


@pytest.mark.parametrize(
    "first", [pytest.param(0), *(pytest.param(first, marks=pytest.mark.slow) for first in range(KILLED, SEEDS, KILLED))]
)
def test_a_kill_at_any_time_leaves_nothing(first: int) -> None:
    assert _executed(random_topologies.run_killed, range(first, first + KILLED)) > 0


def test_a_message_does_not_wait_for_a_row_that_was_made_of_another() -> None:
    """Both were made of rows that had left their trees, and are in one segment; the other row is forgotten."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(random_topologies.run(538, order=51))


def _executed(run: Callable[[int], Coroutine[Any, Any, Any]], seeds: range) -> int:
    logging.disable(logging.CRITICAL)  # bolts fail on purpose, tens of thousands of times
    try:
        executed = 0
        for seed in seeds:
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                executed += runner.run(run(seed)).executed
        return executed
    finally:
        logging.disable(logging.NOTSET)
