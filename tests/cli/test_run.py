"""`aiostorm run` in this process: what it prints, its exit codes, its configuration."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from aiostorm import Config, __version__
from aiostorm.cli.progress import PlainLines
from aiostorm.cli.report import as_text
from aiostorm.cli.run import Job, WorkerPlan, run
from aiostorm.cli.signals import Interrupts
from aiostorm.cluster import ProcessBackend

from . import jobs
from .conftest import JOBS, Command

COUNTS = (
    "emitted",
    "transferred",
    "executed",
    "acked",
    "failed",
    "replayed",
    "dead_lettered",
    "forgotten",
    "errors",
    "restarts",
)


def test_summary_and_totals(aiostorm: Command):
    outcome = aiostorm("run", JOBS, "-q")
    assert (outcome.code, outcome.err) == (0, "")
    summary, totals, components = outcome.out.strip().split("\n\n")
    assert summary == "sum  9,900"
    head, messages, trees = totals.splitlines()
    assert head.startswith("sums finished after ")
    assert messages == "messages  100 acked, 0 failed, 0 replayed, 0 dead-lettered, 0 pending"
    assert trees.split()[0] == "trees"
    rows = [line.split() for line in components.splitlines()]
    assert rows[0] == ["component", "tasks", "emitted", "executed", "acked", "failed", "per", "second"]
    assert [row[:4] for row in rows[1:]] == [
        ["numbers", "1", "100", "100"],
        ["double", "2", "100", "100"],
        ["sum", "1", "0", "100"],
    ]


def test_arguments_reach_the_function(aiostorm: Command):
    assert aiostorm("run", f"{JOBS}:bounded", "7", "-q").out.startswith("sum  42\n")
    assert aiostorm("run", f"{JOBS}:bounded(limit=4)", "-q").out.startswith("sum  12\n")


def test_results_stand_in_for_a_summary(aiostorm: Command):
    out = aiostorm("run", f"{JOBS}:without_summary", "-q").out
    assert "sum [0]  " in out
    assert "sum [1]  " in out
    assert "kinds\n  number 0    0\n  number 1    1\n" in out
    assert "… and 10 more" in out
    assert out.rstrip().splitlines()[0].startswith("sum [0]")
    assert "\njobs finished after " in out, "named like its module, since it has no name"


def check_components(components: dict[str, dict[str, Any]]) -> None:
    assert list(components) == ["numbers", "double", "sum"], "the acker is no component of the user's"
    for component in components.values():
        assert set(component) == {
            *COUNTS,
            "kind",
            "tasks",
            "trees",
            "pending_trees",
            "pending",
            "emitted_per_s",
            "executed_per_s",
            "execute_latency_s",
            "complete_latency_s",
            "state_keys",
            "latencies",
            "seconds",
            "streams",
            "edges",
            "metrics",
            "windows",
            "progress",
        }
        assert component["metrics"] == []
        assert set(component["seconds"]) == {"busy_s", "blocked_s", "idle_s", "throttled_s"}
        assert component["windows"] is None
        assert component["progress"] is None


@pytest.mark.parametrize("loop", ["auto", "asyncio", "uvloop"])
def test_json(aiostorm: Command, loop: str):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    outcome = aiostorm("run", f"{JOBS}:bounded", "--json", "-q", "--name", "mine", "--loop", loop)
    assert (outcome.code, outcome.err) == (0, "")
    document = outcome.json
    elapsed_s = document.pop("elapsed_s")
    assert 0 < elapsed_s < 60
    trees = document.pop("trees")
    assert 2 <= trees <= 100
    components = document.pop("components")
    (process,) = document.pop("processes").values()
    assert process["cpu_s"] > 0
    backpressure = document.pop("backpressure")
    assert (backpressure["state"], backpressure["spouts"]) == ("NORMAL", [])
    assert document == {
        "topology": "mine",
        "state": "finished",
        "problems": [],
        "done_before": None,
        "summary": {"sum": 9900},
        "results": None,
        "messages": {
            "acked": 100,
            "failed": 0,
            "replayed": 0,
            "dead_lettered": 0,
            "forgotten": 0,
            "given_up": 0,
            "pending": 0,
        },
        "snapshots": None,
        "pending": {"numbers": []},
        "error_count": 0,
        "errors": [],
    }
    check_components(components)
    numbers, double = components["numbers"], components["double"]
    assert (numbers["kind"], numbers["tasks"], numbers["acked"], numbers["trees"]) == ("spout", 1, 100, trees)
    assert (double["kind"], double["tasks"], double["emitted"], double["executed"]) == ("bolt", 2, 100, 100)
    assert (numbers["edges"], double["streams"]) == (
        [{"stream": "default", "to": "double", "tuples": 100}],
        {"default": 100},
    )
    assert double["latencies"]["process"]["count"] == numbers["latencies"]["complete"]["count"] == 100
    assert double["executed_per_s"] == pytest.approx(100 / elapsed_s, rel=0.2)


def test_json_without_a_summary_has_the_results(aiostorm: Command):
    document = aiostorm("run", f"{JOBS}:without_summary", "--json", "-q").json
    assert document["summary"] is None
    assert sum(document["results"]["sum"]) == 4950
    assert len(document["results"]["kinds"][0]) == 30


def test_prints_of_components_stay_out_of_the_document(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:prints", "--json", "-q")
    assert outcome.json["state"] == "finished"
    assert outcome.err.count("a print of") == 10
    assert aiostorm("run", f"{JOBS}:prints", "-q").out.count("a print of") == 10


# -- when not all is well ----------------------------------------------------------------------------------------------


def test_dead_letters_are_exit_code_1(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:dead_letters", "--json", "-q")
    assert outcome.code == 1
    document = outcome.json
    assert document["state"] == "finished"
    assert document["messages"] == {
        "acked": 27,
        "failed": 6,
        "replayed": 3,
        "dead_lettered": 3,
        "forgotten": 0,
        "given_up": 0,
        "pending": 0,
    }
    assert document["problems"] == ["3 messages dead-lettered after too many failures"]
    assert document["error_count"] == 6
    assert len(document["errors"]) == 6
    error = document["errors"][0]
    assert (error["component"], error["where"], error["error"]) == ("sum", "execute", "ValueError: not 3")
    assert "Traceback" in error["traceback"]
    assert "Error: 3 messages dead-lettered after too many failures\n" in outcome.err


def test_errors_in_user_code_are_logged_and_counted(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:dead_letters", "-q")
    assert outcome.code == 1
    assert "ERROR   aiostorm.component: sums: sum[2] failed in execute on Tuple(n=3; from numbers[1]" in outcome.err
    assert "ValueError: not 3" in outcome.err
    assert "errors    6 in user code" in outcome.out


def test_messages_that_a_spout_lets_go_are_exit_code_1(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:given_up", "-q")
    assert outcome.code == 1
    assert "Error: 1 message failed and not emitted again\n" in outcome.err
    assert "messages  4 acked, 1 failed, 0 replayed, 0 dead-lettered, 0 pending" in outcome.out


@pytest.mark.parametrize("job", ["escalates", "cannot_open"])
def test_a_topology_that_fails_is_exit_code_1(aiostorm: Command, job: str):
    outcome = aiostorm("run", f"{JOBS}:{job}", "--json", "-q")
    assert outcome.code == 1
    document = outcome.json
    assert (document["state"], document["summary"]) == ("failed", None)
    cause = "it broke" if job == "escalates" else "no database"
    assert "topology 'sums' failed: sum[2] was given up" in document["problems"][0]
    assert cause in document["problems"][0]
    assert f"Error: {document['problems'][0]}" in outcome.err
    assert cause in document["errors"][-1]["error"]
    assert "during handling" not in outcome.err.lower()


def test_a_summary_that_raises_is_exit_code_1_and_the_results_are_shown(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:bad_summary", "-q")
    assert outcome.code == 1
    assert "Error: the topology's summary raised KeyError: 'no such component'" in outcome.err
    assert outcome.out.startswith("sum  45\n")


def test_a_summary_may_be_text(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:text_summary", "-q")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("the sum is 45\n  \\x1b[31mred\n\nsums finished after")
    assert aiostorm("run", f"{JOBS}:text_summary", "-q", "--json").json["summary"] == "the sum is 45\n  \x1b[31mred"


def test_a_summary_of_another_type_is_exit_code_1(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:odd_summary", "-q")
    assert outcome.code == 1
    assert "Error: the topology's summary returned a list: return names and values, or text" in outcome.err
    assert outcome.out.startswith("sum  45\n")


def test_a_result_that_raises_is_exit_code_1(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:bad_result", "-q")
    assert outcome.code == 1
    assert "no results: RuntimeError: lost it" in outcome.err
    assert "10 acked" in outcome.out


def test_timeout_drains_and_is_exit_code_124(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:endless", "--json", "-q", "--timeout", "0.2")
    assert outcome.code == 124
    document = outcome.json
    assert document["state"] == "timed out"
    assert document["messages"]["pending"] == 0
    assert document["messages"]["acked"] > 0
    assert document["summary"]["sum"] > 0
    assert "timed out; pending: nothing" in outcome.err


def test_messages_that_cannot_be_drained_are_named(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:holds", "--json", "-q", "--timeout", "0.2")
    assert outcome.code == 124
    document = outcome.json
    assert sorted(document["pending"]["numbers"]) == list(range(20))
    assert document["problems"] == ["20 messages neither acked nor failed"]
    assert document["messages"]["failed"] == 20, "by timeout, and they would have been emitted again"
    assert "pending: 20 messages of numbers (message ids " in outcome.err


# -- configuration -----------------------------------------------------------------------------------------------------


def test_layers(aiostorm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "storm.yaml"
    file.write_text(
        "topology.max.task.parallelism: 1\ntopology.acker.tree.max.messages: 1\ntopology.worker.childopts: x\n"
    )
    target = f"{JOBS}:wide"

    def tasks(*arguments: str) -> tuple[int, int]:
        document = aiostorm("run", target, "--json", "-q", *arguments).json
        return document["components"]["double"]["tasks"], document["trees"]

    assert tasks()[0] == 4, "as declared"
    assert tasks("--config", str(file)) == (1, 100), "the file, over the topology's own"
    monkeypatch.setenv("AIOSTORM_TOPOLOGY__MAX_TASK_PARALLELISM", "2")
    assert tasks("--config", str(file)) == (2, 100), "the environment, over the file"
    assert tasks("--config", str(file), "-c", "topology.max.task.parallelism=3") == (3, 100)
    assert tasks("--set", "max_task_parallelism=3", "-c", "max_task_parallelism=4")[0] == 4, "the last of them"
    outcome = aiostorm("run", target, "-q", "--config", str(file))
    assert "Ignored, because they have no effect here: topology.worker.childopts\n" in outcome.err


def test_config_show(aiostorm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "storm.yaml"
    file.write_text("topology.workers: 2\nmy.key: [a]\n")
    monkeypatch.setenv("AIOSTORM_MESSAGE_TIMEOUT_S", "5")
    arguments = ("config", "show", f"{JOBS}:bounded", "--config", str(file), "-c", "topology.debug=true")
    document = aiostorm(*arguments, "--json").json
    settings = document["settings"]
    assert settings["workers"] == {"value": 2, "source": f"file {file}"}
    assert settings["my.key"] == {"value": ["a"], "source": f"file {file}"}
    assert settings["message_timeout_s"] == {"value": 5.0, "source": "env AIOSTORM_MESSAGE_TIMEOUT_S"}
    assert settings["debug"] == {"value": True, "source": "-c"}
    assert settings["max_spout_pending"]["value"] == 50
    assert settings["max_retries"] == {"value": None, "source": "default"}
    assert document["ignored"] == []
    lines = aiostorm(*arguments).out.splitlines()
    assert lines[0].split() == ["setting", "value", "source"]
    assert ["message_timeout_s", "5.0", "env", "AIOSTORM_MESSAGE_TIMEOUT_S"] in [line.split() for line in lines]
    assert len(aiostorm("config", "show").out.splitlines()) == len(Config.model_fields) + 1


def test_config_schema(aiostorm: Command):
    schema = aiostorm("config", "schema").json
    assert set(schema["properties"]) == set(Config.model_fields)
    assert all(field["description"] for field in schema["properties"].values())


def test_config_check(aiostorm: Command, tmp_path: Path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("topology.workers: 2\nmine: 1\n")
    bad.write_text("topology.workers: none\ntopology.max.spout.pnding: 3\n")
    outcome = aiostorm("config", "check", str(good))
    assert (outcome.code, outcome.out) == (0, f"{good}: 2 settings, no mistakes\n")
    outcome = aiostorm("config", "check", str(bad))
    assert outcome.code == 2
    assert "2 mistakes" in outcome.err
    assert "did you mean topology.max.spout.pending?" in outcome.err
    assert "line 1" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-c", "topology.workers"), "expected KEY=VALUE"),
        (("-c", "topology.wrkers=1"), "did you mean topology.workers?"),
        (("-c", "topology.workers=no"), "topology.workers = False (-c)"),
        (("--config", "no_such.yaml"), "no_such.yaml: cannot be read"),
        (("--loop", "libev"), "'libev' is not one of"),
        (("--timeout", "0"), "0"),
        (("--nonsense",), "No such option"),
    ],
)
def test_a_target_that_cannot_be_run_is_exit_code_2(aiostorm: Command, arguments: tuple[str, ...], message: str):
    outcome = aiostorm("run", JOBS, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_yaml_that_does_not_parse(aiostorm: Command, tmp_path: Path):
    file = tmp_path / "storm.yaml"
    file.write_text("topology.workers: [1\n")
    outcome = aiostorm("run", JOBS, "--config", str(file))
    assert outcome.code == 2
    assert f"file {file}, line 2, column 1" in outcome.err


def test_uvloop_that_is_not_there(aiostorm: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    outcome = aiostorm("run", JOBS, "--loop", "uvloop")
    assert outcome.code == 2
    assert "uvloop is not installed here" in outcome.err
    assert aiostorm("run", JOBS, "-q").code == 0, "auto does without it"


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_graph(aiostorm: Command):
    text = aiostorm("graph", f"{JOBS}:bounded").out
    assert "spout numbers: 1 task, emits (n)" in text
    assert "    <- double, global" in text
    mermaid = aiostorm("graph", JOBS, "--format", "mermaid").out
    assert mermaid.startswith("flowchart LR\n")
    assert "double ×2" in mermaid
    for form, begin in (("dot", 'digraph "sums" {'), ("svg", "<svg "), ("json", "{")):
        assert aiostorm("graph", JOBS, "--format", form).out.startswith(begin)


def test_version_and_help(aiostorm: Command):
    assert aiostorm("--version").out == f"aiostorm, version {__version__}\n"
    assert "aiostorm run examples.word_count:topology" in aiostorm("--help").out
    text = aiostorm("run", "--help").out
    assert "pkg.mod:topology" in text
    assert "Exit codes: 0 all processed" in text


def test_log_level(aiostorm: Command):
    outcome = aiostorm("run", f"{JOBS}:logs", "-q")
    assert [line.split(maxsplit=1)[1] for line in outcome.err.splitlines()] == ["INFO    tests.jobs: received 0"]
    assert aiostorm("run", f"{JOBS}:logs", "-q", "--log-level", "warning").err == ""
    assert len(logging.root.handlers) > 0


def test_interrupt_while_the_target_is_imported(aiostorm: Command, tmp_path: Path):
    job = tmp_path / "slow_job.py"
    job.write_text("raise KeyboardInterrupt")
    outcome = aiostorm("run", str(job))
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")


async def test_progress_in_virtual_time(capsys: pytest.CaptureFixture[str]):
    """A line a second, whatever the topology does; here it is stopped after five."""
    topology = jobs.endless()
    job = Job("endless", topology, Config(), timeout_s=5.5)
    reports = []
    await run(job, PlainLines(), Interrupts(), reports.append)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" s  ")[0] for line in lines] == ["1.0", "2.0", "3.0", "4.0", "5.0"]
    rates = [int(rate.replace(",", "")) for line in lines[1:] for rate in re.findall(r"([\d,]+)/s", line)]
    assert len(rates) == 8
    assert all(998 <= rate <= 1002 for rate in rates), lines
    assert reports[0].state == "timed out"
    assert reports[0].messages["pending"] == 0
    assert reports[0].summary is not None
    assert asyncio.get_running_loop().time() >= 5.5
    assert json.dumps(reports[0].messages)


async def test_progress_while_workers_are_started(capsys: pytest.CaptureFixture[str]):
    class Slow(ProcessBackend):
        async def __aenter__(self) -> Self:
            await asyncio.sleep(60)
            return await super().__aenter__()

    spread = WorkerPlan("tests.cli.jobs:endless", (), 1, 0, Slow(), lambda address, names: None, lambda: None)
    reports = []
    await run(Job("slow", jobs.endless(), Config(), 3.5, spread), PlainLines(), Interrupts(), reports.append)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["1.0 s  starting workers", "2.0 s  starting workers", "3.0 s  starting workers"]
    assert reports[0].state == "timed out"


async def test_progress_and_report_say_that_a_spout_is_paced(capsys: pytest.CaptureFixture[str]):
    reports = []
    for enabled in (True, False):
        config = Config(backpressure_enable=enabled)
        await run(Job("too-fast", jobs.too_fast(), config, 5.5), PlainLines(), Interrupts(), reports.append)
        lines = capsys.readouterr().err.splitlines()
        paced = [re.sub(r"waits [\d.]+ ms", "waits MS", line) for line in lines if line.startswith("  paced: ")]
        if enabled:
            assert len(paced) >= 4
            assert set(paced) == {"  paced: numbers waits MS a tuple, because slow cannot keep up"}
        else:
            assert not paced
    assert f"paced     {reports[0].paced}\n" in as_text(reports[0])
    assert reports[0].paced.endswith(" ms a tuple, because slow cannot keep up")
    assert reports[0].pressure is not None
    assert [spout.why for spout in reports[0].pressure.spouts] == [("slow",)]
    assert "paced" not in as_text(reports[1])
