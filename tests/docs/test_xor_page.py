"""docs/explanation/xor-acks.md: the size of a row is the one that is measured."""

from __future__ import annotations

import gc
import os
import re
import sys
import tracemalloc
from pathlib import Path

import pytest

from aiostorm.acker import Ledger

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "xor-acks.md").read_text(encoding="utf-8")
ROWS = 100_000


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="sizes are CPython's")
def test_a_row_is_as_large_as_the_page_says() -> None:
    said = re.search(r"^\| here, measured: .* \| (\d+) to (\d+) \|$", PAGE, re.MULTILINE)
    assert said is not None
    assert measured(own_times=False) == pytest.approx(int(said[1]), rel=0.15)
    assert measured(own_times=True) == pytest.approx(int(said[2]), rel=0.15)


def measured(own_times: bool) -> float:
    """Bytes a row, with its root, its XOR and, where each has its own, its time."""
    drawn = memoryview(os.urandom(16 * ROWS)).cast("Q")
    ledger = Ledger(timeout_s=30.0)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    now_s = 1.0
    for i in range(ROWS):
        if own_times:
            now_s = 1.0 + i / 1000
        ledger.init(1, drawn[2 * i], drawn[2 * i + 1], now_s, [])
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(ledger) == ROWS
    return taken / ROWS
