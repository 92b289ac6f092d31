"""The level of a logger, changed while a topology runs (in a worker: test_workers_real.py)."""

from __future__ import annotations

import logging

import pytest

from aiostorm import LocalCluster, TopologyBuilder, TopologyKilledError, spout
from aiostorm.cluster import loggers

NAME = "aiostorm.tests.levels"

logger = logging.getLogger(NAME)


@spout(outputs="n")
def three():
    yield from range(3)


async def test_it_is_set_and_reset():
    builder = TopologyBuilder()
    builder.set_spout("three", three)
    async with LocalCluster() as cluster:
        running = await cluster.submit("three", builder.create_topology())
        await running.set_log_level(NAME, "ERROR")
        assert logger.level == logging.ERROR
        await running.set_log_level(NAME, "")
        assert logger.level == logging.NOTSET
        for name, level, words in [
            (NAME, "LOUD", "'LOUD' is no level; there are DEBUG, INFO, WARNING, ERROR, CRITICAL"),
            (NAME, "debug", "is no level"),
            ("aiostorm.tests.levles", "INFO", f"did you mean {NAME}"),
            ("", "", "the root logger has none above it"),
        ]:
            with pytest.raises(ValueError, match=words):
                await running.set_log_level(name, level)
        assert "aiostorm.tests.levles" not in loggers()
        await running.kill(0)
        with pytest.raises(TopologyKilledError):
            await running.set_log_level(NAME, "INFO")
