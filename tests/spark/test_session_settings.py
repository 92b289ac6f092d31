"""What the command line says wins over what components ask for, and conflicts are found before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiostorm.spark import SparkUnavailableError
from aiostorm.spark.session_settings import VARIABLE, merged_settings, override_settings, overriding_settings

ROOT = Path(__file__).parents[2]
CONFLICT = """
from aiostorm import TopologyBuilder
from aiostorm.spark import SparkBatchSpout

def topology():
    builder = TopologyBuilder()
    for name, memory in (("a", "1g"), ("b", "2g")):
        session = {"spark.driver.memory": memory}
        builder.set_spout(name, SparkBatchSpout(sql="select 1 as x", fields="x", session=session))
    return builder.create_topology()
"""


def test_the_command_line_wins_and_says_so() -> None:
    asked = [("a", {"spark.master": "local[2]", "spark.ui.enabled": False}), ("b", None), ("c", lambda: None)]
    found, overruled = merged_settings(asked, {"spark.master": "local[9]"})
    assert found == {"spark.ui.enabled": "false"}
    assert overruled == ["spark.master=local[9] wins over spark.master=local[2] of 'a'"]
    assert merged_settings(asked, {"spark.master": "local[2]"})[1] == []


def test_contradicting_settings_are_refused() -> None:
    two = [("a", {"spark.driver.memory": "1g"}), ("b", {"spark.driver.memory": "2g"})]
    with pytest.raises(
        SparkUnavailableError, match=r"'a' wants spark\.driver\.memory=1g, and 'b' spark\.driver\.memory=2g"
    ):
        merged_settings(two, {})
    assert merged_settings(two, {"spark.driver.memory": "3g"})[0] == {}
    changeable = [("a", {"spark.sql.shuffle.partitions": 2}), ("b", {"spark.sql.shuffle.partitions": 4})]
    assert merged_settings(changeable, {})[0] == {"spark.sql.shuffle.partitions": "2"}


def test_overriding_settings_hold_in_this_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert overriding_settings() == {}
    override_settings({"spark.a": "1"})
    override_settings({"spark.b": "2"})
    assert overriding_settings() == {"spark.a": "1", "spark.b": "2"}
    for wrong in ("{", "[1]", '{"a": 1}'):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(SparkUnavailableError, match="JSON object of texts"):
            overriding_settings()


def command(*words: str, cwd: Path = ROOT, timeout_s: float = 170) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "aiostorm", "run", *words]
    return subprocess.run(
        line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


@pytest.mark.slow
def test_a_conflict_is_found_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(CONFLICT)
    done = command("jobs:topology", cwd=tmp_path)
    assert (done.returncode, "'a' wants spark.driver.memory=1g" in done.stderr) == (2, True), done.stderr


@pytest.mark.spark
@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_documented_command_of_the_flights(java: None, tmp_path: Path) -> None:
    """docs/spark.md and the example say it so; the example's own session= says local[2]."""
    documented = "aiostorm run --spark 'local-cluster[2,1,1024]' examples.spark_flights:topology FILE FOLDER"
    assert documented in (ROOT / "examples" / "spark_flights.py").read_text()
    out = tmp_path / "delays"
    done = command("--spark", "local-cluster[2,1,1024]", "examples.spark_flights:topology", "-", str(out))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "spark.master=local-cluster[2,1,1024] wins over spark.master=local[2] of 'flights'" in done.stderr
    assert list(out.glob("size=*/*.parquet"))


@pytest.mark.spark
@pytest.mark.sockets
@pytest.mark.slow
def test_settings_of_the_command_line_hold_on_worker_processes(java: None, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "from aiostorm import TopologyBuilder\n"
        "from aiostorm.spark import ParquetSinkBolt, SparkBatchSpout\n"
        "def made(spark):\n"
        "    conf = spark.sparkContext.getConf()\n"
        "    return spark.sql(f\"select '{spark.sparkContext.master} {conf.get('spark.my')}' as found\")\n"
        "def topology(folder):\n"
        "    builder = TopologyBuilder()\n"
        "    spout = SparkBatchSpout(made, fields='found', session={'spark.master': 'local[2]', 'spark.my': 'its'})\n"
        "    builder.set_spout('in', spout)\n"
        "    builder.set_bolt('out', ParquetSinkBolt(folder)).shuffle_grouping('in')\n"
        "    return builder.create_topology()\n"
    )
    conf = ("--spark-conf", "spark.master=local[1]", "--spark-conf", "spark.my=ours")
    done = command("--workers", "1", *conf, "jobs:topology", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    import pyarrow.parquet as parquet

    assert parquet.read_table(tmp_path / "out").to_pylist() == [{"found": "local[1] ours"}]
