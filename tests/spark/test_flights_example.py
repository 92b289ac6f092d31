"""Delays by airport and hour: through Spark, windows and Parquet, and the same rows as Spark SQL's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster

from ..examples import load

# The flights of tests/windows: date, delay, distance, origin, destination.
FLIGHTS = Path(__file__).resolve().parents[1] / "windows" / "flights.json"


@pytest.mark.spark
@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_each_row_is_what_spark_sql_says(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("spark_flights")
    monkeypatch.setattr(example, "SPARK", {})  # the session that is there
    rows = [dict(zip(("date", "delay", "distance", "origin", "destination"), row, strict=True)) for row in read()]
    bad = [
        {"date": "yesterday", "delay": 1, "origin": "SFO"},
        {"date": "2001/01/05 10:00", "delay": 9_999, "origin": "SFO"},
    ]
    file, folder = tmp_path / "flights.json", tmp_path / "delays"
    file.write_text(json.dumps([*rows, *bad]))
    async with LocalCluster() as cluster:
        running = await cluster.submit("flights", example.topology(str(file), str(folder)))
        await running.wait_finished()
        assert running.metrics()["delays"].executed == len(rows)
        assert running.metrics()["delays"].late == 0
    asked, wrong, missing = await asyncio.to_thread(example.check, str(file), str(folder))
    assert (wrong, missing) == ([], [])
    assert asked == len({(row["origin"], row["date"][:13]) for row in rows})
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} <= {
        "size=small",
        "size=large",
        "_SUCCESS",
        "_manifest.json",
    }


def read() -> list[list[Any]]:
    return json.loads(FLIGHTS.read_text())


def test_without_a_folder_it_says_what_to_give() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="FILE FOLDER"):
        load("spark_flights").topology()
