"""Layers of configuration: file, environment, overrides; which one wins, and every mistake at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiostorm.topology import Config

from .configs import load, mistakes


def test_layers_win_in_order_and_remember_where_values_came_from(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text("topology.workers: 2\ntopology.debug: true\ntopology.max.retries: 2\nmy.key: [1, 2]\n")
    config = load(
        base=Config(workers=1, max_spout_pending=1, turn_max_tuples=1),
        file=file,
        env={"AIOSTORM_TOPOLOGY__WORKERS": "3", "AIOSTORM_MAX_RETRIES": "3", "PATH": "x", "AIOSTORM_HOME": "/x"},
        overrides=["topology.workers=4", "other.key=a"],
    )
    assert (config.workers, config.max_retries, config.debug, config.max_spout_pending) == (4, 3, True, 1)
    assert config.source_of("topology.workers") == "-c"
    assert config.source_of("max_retries") == "env AIOSTORM_MAX_RETRIES"
    assert config.source_of("debug") == config.source_of("my.key") == f"file {file}"
    assert config.source_of("max_spout_pending") == "keyword"
    assert config.source_of("message_timeout_s") == "default"
    assert dict(config.user) == {"my.key": [1, 2], "other.key": "a"}


def test_only_what_was_set_explicitly_wins() -> None:
    low = Config(workers=5, debug=True)
    assert low.merge(Config(workers=1)) == Config(workers=1, debug=True)
    assert low.merge(Config()) == low
    assert low.merge(None) is low
    assert low.merge({"topology.debug": False}) == Config(workers=5, debug=False)
    assert load(base=low, overrides={"workers": 2}).debug is True


@pytest.mark.parametrize(
    "variable",
    [
        "AIOSTORM_TOPOLOGY__MAX_SPOUT_PENDING",
        "AIOSTORM_MAX_SPOUT_PENDING",
        "AIOSTORM_TOPOLOGY_MAX_SPOUT_PENDING",
        "AIOSTORM_TOPOLOGY__MAX__SPOUT__PENDING",
    ],
)
def test_names_in_the_environment_are_compared_without_separators(variable: str) -> None:
    config = load(env={variable: "7"})
    assert config.max_spout_pending == 7
    assert config.source_of("max_spout_pending") == f"env {variable}"


def test_the_environment_knows_fields_keys_and_ignored_keys() -> None:
    env = {"AIOSTORM_TOPOLOGY__MESSAGE_TIMEOUT_S": "3", "AIOSTORM_TOPOLOGY__EXECUTOR_RECEIVE_BUFFER_SIZE": "9"}
    config = load(env={**env, "AIOSTORM_TOPOLOGY__WORKER_CHILDOPTS": "-Xmx1g"})
    assert (config.message_timeout_s, config.mailbox_capacity_tuples) == (3.0, 9)
    assert config.ignored == ("topology.worker.childopts",)


def test_an_unknown_topology_variable_is_an_error_others_are_left_alone() -> None:
    assert load(env={"AIOSTORM_TOKEN": "x", "AIOSTORM_TOPOLOGY": "a:b", "TOPOLOGY_WORKERS": "3"}) == Config()
    (problem,) = mistakes(lambda: load(env={"AIOSTORM_TOPOLOGY__WORKRES": "3"}))
    assert problem == ("env AIOSTORM_TOPOLOGY__WORKRES: no such setting; did you mean AIOSTORM_TOPOLOGY__WORKERS?")


def test_without_env_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSTORM_TOPOLOGY__WORKERS", "6")
    assert Config.load().workers == 6


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("topology.max.spout.pending=500", "max_spout_pending", 500),
        ("topology.max.spout.pending=null", "max_spout_pending", None),
        ("message_timeout_s=1e3", "message_timeout_s", 1000.0),
        ("debug=yes", "debug", True),
        (" debug =true", "debug", True),
        ("restart_backoff_s=0, 0.5,2", "restart_backoff_s", (0.0, 0.5, 2.0)),
        ("restart_backoff_s=[0, 1]", "restart_backoff_s", (0.0, 1.0)),
        ("restart_backoff_s=3", "restart_backoff_s", (3.0,)),
        ("auto_task_hooks=a.b:C, d:E", "auto_task_hooks", ("a.b:C", "d:E")),
        ("auto_task_hooks=[a.b:C]", "auto_task_hooks", ("a.b:C",)),
        ("auto_task_hooks=", "auto_task_hooks", ()),
        ("my.key=a=b", "my.key", "a=b"),
        ("my.key='1'", "my.key", "1"),
    ],
)
def test_overrides_are_yaml_values(text: str, field: str, expected: Any) -> None:
    config = load(overrides=[text])
    assert config.get(field) == expected


@pytest.mark.parametrize("text", ["topology.workers", "=3", "my.key=[1"])
def test_an_override_that_cannot_be_read_is_shown(text: str) -> None:
    (problem,) = mistakes(lambda: load(overrides=[text]))
    assert repr(text) in problem


def test_all_mistakes_of_all_layers_come_together(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text("# settings\ntopology.workrs: 2\ntopology.workers: 0\n")
    problems = mistakes(
        lambda: load(
            file=file,
            env={"AIOSTORM_TOPOLOGY__NOPE_QQ": "1", "AIOSTORM_MAX_RETRIES": "-1"},
            overrides=["topology.debug=maybe", "nonsense"],
        )
    )
    text = "\n".join(problems)
    for part in (
        f"topology.workrs (file {file}, line 2): no such setting; did you mean topology.workers?",
        f"topology.workers = 0 (file {file}, line 3): Input should be greater",
        "env AIOSTORM_TOPOLOGY__NOPE_QQ: no such setting",
        "max_retries = -1 (env AIOSTORM_MAX_RETRIES)",
        "'nonsense'",
    ):
        assert part in text, part


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_storm_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(
        """
storm.zookeeper.servers:
    - "zk1"
nimbus.seeds: ["n1"]
topology.workers: 4
topology.acker.executors: null
topology.tick.tuple.freq.secs: null
topology.debug: false
topology.max.spout.pending: null
topology.message.timeout.secs: 60
topology.kryo.register: {a: b}
topology.auto.task.hooks: null
topology: {max: {task: {parallelism: 3}}}
base: &base {my.key: 1, other.key: 1}
<<: *base
my.key: 2
"""
    )
    config = Config.from_yaml(file)
    assert (config.workers, config.message_timeout_s, config.max_task_parallelism) == (4, 60, 3)
    assert config.ignored == ("nimbus.seeds", "storm.zookeeper.servers", "topology.kryo.register")
    assert config.auto_task_hooks == ()
    assert (config.get("my.key"), config.get("other.key")) == (2, 1)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(text)
    assert Config.from_yaml(file) == Config()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\nb: [1\nc: 2\n", "line 3, column 2"),
        ("a: 1\n  b: 2\n", "line 2, column 4"),
        ("a: b: c\n", "line 1, column 5"),
        ("a: !!python/object:os.system x\n", "line 1, column 4"),
        ("- topology.workers: 1\n", "line 1, column 1: expected 'key: value' lines, not a list"),
        ("workers\n", "line 1, column 1: expected 'key: value' lines, not text"),
        ("12\n", "not int"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1"),
        ("a: \x07\n", "unacceptable character"),
        ("workers: 1\nworkers: 2\n", "line 2, column 1: 'workers' is given twice"),
        ("[a, b]: 2\n", "line 1"),
        ("3: 2\n", "a key is text, not int"),
    ],
)
def test_yaml_that_cannot_be_read_says_file_line_and_column(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(text)
    (problem,) = mistakes(lambda: Config.from_yaml(file))
    assert f"file {file}" in problem
    assert where in problem


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        (problem,) = mistakes(lambda path=path: Config.from_yaml(path))  # type: ignore[misc]
        assert problem.startswith(f"file {path}: cannot be read: ")
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"a: \xff\xfe\n")
    (problem,) = mistakes(lambda: Config.from_yaml(str(file)))
    assert problem.startswith(f"file {file}: not UTF-8 text")


def test_yaml_is_imported_only_when_something_is_read() -> None:
    code = (
        "import sys, aiostorm.topology as t; t.Config(workers=2); t.Config.load(env={}); print('yaml' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"
