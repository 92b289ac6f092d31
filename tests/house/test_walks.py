"""The walks are measured right, and do not become longer unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .walks import MESSAGES, run, run_windows, shortest, walks, window_walks


@pytest.mark.parametrize(("bolts", "most"), [(1, 104), (2, 142)])
async def test_a_tuple_in_one_process(tmp_path: Path, bolts: int, most: int) -> None:
    """`most` is what was measured, and a little more: lower it when the walk becomes shorter."""
    await run(str(tmp_path), bolts, workers=0)
    found = list(walks(str(tmp_path)))
    assert len(found) == MESSAGES
    walk = shortest(found)
    assert walk.functions["topology/tuples/tuples.py Tuple.__init__"] == bolts, "a bolt receives it once"
    assert (walk.frames, walk.calls <= most) == (0, True), walk.calls
    assert walk.files <= 20, sorted({function.partition(" ")[0] for function in walk.functions})


async def test_a_row_of_a_window(tmp_path: Path) -> None:
    await run_windows(str(tmp_path))
    walk = shortest(window_walks(str(tmp_path)))
    assert walk.functions["tasks/event_time/driver.py EventTimeDriver.fire"] == 1
    assert walk.calls <= 265, walk.calls
    assert walk.files <= 42, sorted({function.partition(" ")[0] for function in walk.functions})
