"""Log lines in JSON: one object a line, with what is known of where they come from."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from aiostorm.cli.logs import JsonFormatter, formatter
from aiostorm.cluster.worker import WorkerLog
from aiostorm.runtime.processes import ChildLine

from .conftest import JOBS, Command

FAILS = """
from aiostorm import BasicBolt, TopologyBuilder, spout
import logging

@spout(outputs="n")
def numbers():
    yield 7

class Fails(BasicBolt):
    def execute(self, tup, collector):
        logging.getLogger("mine").warning("sees %d", tup["n"])
        raise ValueError("seven")

def topology():
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers, max_retries=0)
    builder.set_bolt("fails", Fails).shuffle_grouping("numbers")
    return builder.create_topology("job")
"""


def made(message: str, *arguments: Any, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("mine", logging.WARNING, __file__, 1, message, arguments, more.pop("exc_info", None))
    record.created = 1_700_000_000.25
    record.__dict__.update(more)
    return record


def test_a_record() -> None:
    line = JsonFormatter("job").format(made('two\nlines "%s"', "ä"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "warning",
        "logger": "mine",
        "message": 'two\nlines "ä"',
        "topology": "job",
    }


def test_an_error_and_what_is_known() -> None:
    try:
        raise ValueError("seven")
    except ValueError:
        record = made(
            "failed", exc_info=sys.exc_info(), aiostorm={"component": "c", "task": 3, "tuple": None, "x": {1}}
        )
    found = json.loads(JsonFormatter().format(record))
    assert (found["component"], found["task"], found["x"]) == ("c", 3, "{1}")
    assert found["exception"].endswith("ValueError: seven")
    assert "tuple" not in found
    assert "topology" not in found


def test_a_thread_of_a_component_is_known() -> None:
    found = json.loads(JsonFormatter().format(made("x", threadName="aiostorm-count[7]_0")))
    assert (found["component"], found["task"]) == ("count", 7)


def test_lines_of_workers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        WorkerLog().line(ChildLine("worker-1", 7, "stderr", "\x1e30 my.module count[7]\x1fa line"))
        WorkerLog().line(ChildLine("worker-2", 8, "stderr", "of a library in C"))
    first, second = (json.loads(JsonFormatter("job").format(record)) for record in caplog.records)
    for found in (first, second):
        del found["time"]
    assert first == {
        "level": "warning",
        "logger": "my.module",
        "message": "a line",
        "topology": "job",
        "worker": "worker-1",
        "component": "count",
        "task": 7,
    }
    assert (second["worker"], second["message"], second["logger"]) == (
        "worker-2",
        "of a library in C",
        "aiostorm.worker",
    )
    assert caplog.records[0].getMessage() == "worker-1 count[7] my.module: a line"


def test_text_is_as_before() -> None:
    assert formatter("text").format(made("x")).endswith(" WARNING mine: x")


def test_a_run(aiostorm: Command, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(FAILS)
    outcome = aiostorm("run", str(job), "--log-format", "json")
    lines = [json.loads(line) for line in outcome.err.splitlines() if line.startswith("{")]
    (mine,) = (line for line in lines if line["logger"] == "mine")
    assert (mine["topology"], mine["component"], mine["message"]) == ("job", "fails", "sees 7")
    assert mine["task"] > 0
    (error,) = (line for line in lines if line["logger"] == "aiostorm.component")
    assert (error["component"], error["level"], error["task"]) == ("fails", "error", mine["task"])
    assert "ValueError: seven" in error["message"]
    assert "7" in error["tuple"]
    (message,) = error["messages"]
    assert message.endswith(":0")
    assert outcome.code == 1


def test_the_option_is_checked(aiostorm: Command) -> None:
    outcome = aiostorm("run", f"{JOBS}:logs", "--log-format", "xml")
    assert outcome.code == 2
    assert "'xml' is not one of 'text', 'json'" in outcome.err
