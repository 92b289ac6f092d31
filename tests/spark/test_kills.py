"""A short form of tests/spark/kills.py: driver and worker of a job killed once each. Every row is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import kills

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_every_row_is_there_once(java: None, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    outcome = kills.run("stream", folder, victims=("driver", "worker"), seed=4, workers=1, files=6, pause_s=0.05)
    assert outcome.good, f"{outcome}\n{(folder / 'log').read_text(errors='replace')[-3000:]}"
    assert {kill.victim for kill in outcome.kills} == {"driver", "worker"}
