"""1,000 random topologies in virtual time: every message is acked or failed exactly once, and nothing is left over."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from pathlib import Path

import pytest

from aiostorm.testing import VirtualTimeLoop

_spec = importlib.util.spec_from_file_location("random_topologies", Path(__file__).with_name("random_topologies.py"))
assert _spec is not None
assert _spec.loader is not None
random_topologies = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules[_spec.name] = random_topologies
_spec.loader.exec_module(random_topologies)

SEEDS = 1000
CHUNK = 50
QUICK = 100
"""So many run on other Pythons too."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] if first >= QUICK else []) for first in range(0, SEEDS, CHUNK)],
)
def test_every_message_is_settled_exactly_once(first: int) -> None:
    logging.disable(logging.CRITICAL)  # bolts fail on purpose, tens of thousands of times
    try:
        executed = 0
        for seed in range(first, first + CHUNK):
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                executed += runner.run(random_topologies.run(seed)).executed
        assert executed > 0
    finally:
        logging.disable(logging.NOTSET)
