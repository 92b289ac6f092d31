"""Projects of a user's with simulated tests, for pytester."""

from __future__ import annotations

import pytest

# Pytester drops what was imported by a run within this process: what is here before is the same in all of them.
import aiostorm.testing.simulation.rerun  # noqa: F401

INI = """
    [pytest]
    asyncio_mode = {mode}
    asyncio_default_fixture_loop_scope = function
    addopts = --strict-markers
    filterwarnings =
        error
        ignore:Module already imported so cannot be rewritten
"""

BOLTS = '''
from aiostorm import Bolt, Fields, TopologyBuilder


class Clean(Bolt):
    """Forgets to ack a blank word."""

    outputs = Fields("word")

    def prepare(self, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup["word"].strip():
            self.collector.emit((tup["word"],), anchors=tup)
            self.collector.ack(tup)


class Batches(Clean):
    """Keeps words outside of their trees: it acks them before it has emitted them."""

    config = {"tick_tuple_freq_s": 5}

    def prepare(self, context, collector):
        super().prepare(context, collector)
        self.words = []

    def execute(self, tup):
        if not tup.is_tick:
            self.words.append(tup["word"])
            self.collector.ack(tup)
        else:
            for word in self.words:
                self.collector.emit((word,))
            self.words = []


def chain(simulation, bolt, rows):
    source, sink = simulation.source(rows, "word"), simulation.sink()
    builder = TopologyBuilder()
    builder.set_spout("words", source)
    builder.set_bolt("bolt", bolt).shuffle_grouping("words")
    builder.set_bolt("out", sink).shuffle_grouping("bolt")
    return builder.create_topology(), sink
'''


@pytest.fixture(params=["strict", "auto"])
def simulated(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of a user's, in one of pytest-asyncio's modes."""
    pytester.makeini(INI.format(mode=request.param))
    pytester.makepyfile(bolts=BOLTS)
    return pytester


@pytest.fixture
def simulated_strict(pytester: pytest.Pytester) -> pytest.Pytester:
    """One in strict mode."""
    pytester.makeini(INI.format(mode="strict"))
    pytester.makepyfile(bolts=BOLTS)
    return pytester
