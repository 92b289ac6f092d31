"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aiostorm.spark import SparkUnavailableError, find_java
from aiostorm.spark.java import _make_shim, ensure_java, version_in

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Javas made here are shell scripts")


def make_java(home: Path, *, release: str | None = None, says: str = "") -> Path:
    """A folder that looks like a JDK."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n" if says else "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but those that a test makes."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("release", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25.0.2", 25), ("25-ea", 25)]
)
def test_the_version_stands_in_the_file_release(tmp_path: Path, release: str, version: int):
    assert version_in(make_java(tmp_path / "jdk", release=release)) == version


def test_a_java_without_the_file_is_asked(tmp_path: Path):
    assert version_in(make_java(tmp_path / "jdk", says="17.0.1")) == 17


def test_a_java_that_does_not_start_is_none(tmp_path: Path):
    assert version_in(make_java(tmp_path / "jdk")) is None
    assert version_in(tmp_path / "nothing") is None


def test_a_configured_java_is_preferred_to_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", release="21.0.1")))
    named = make_java(tmp_path / "b", release="17.0.1")
    assert find_java(named).home == str(named)
    assert find_java().home == str(tmp_path / "a")
    assert find_java().where == "JAVA_HOME"


def test_a_configured_java_is_the_only_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", release="21.0.1")))
    with pytest.raises(SparkUnavailableError, match=r"Java 11 in .*old.*17"):
        find_java(make_java(tmp_path / "b", release="11.0.1"))
    with pytest.raises(SparkUnavailableError, match="there is no Java in"):
        find_java(tmp_path / "nowhere")


def test_a_java_on_the_path_is_resolved_to_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = make_java(tmp_path / "jdk", release="17.0.2")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert (find_java().home, find_java().where) == (str(home), "PATH")


def test_an_old_java_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", release="1.8.0_1")))
    new = make_java(tmp_path / "new", release="17.0.2")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert find_java().home == str(new)


def test_without_java_the_error_names_the_searched_places_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", release="11.0.2")))
    with pytest.raises(SparkUnavailableError) as refused:
        find_java()
    text = str(refused.value)
    for words in ("JAVA_HOME: Java 11 in", "aiostorm[spark-jre]", "apt-get install openjdk-17-jre-headless"):
        assert words in text


def test_ensure_java_sets_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = make_java(tmp_path / "jdk", release="17.0.2")
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back
    assert ensure_java().version == 17
    assert os.environ["JAVA_HOME"] == str(home)


def test_the_shim_drops_one_argument_and_keeps_the_others(tmp_path: Path):
    program = tmp_path / "a folder" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$#" "$@"\n')
    program.chmod(0o755)
    shim = _make_shim(tmp_path / "home", program) / "bin" / "java"
    words = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "*", "", "-cp", "it's"]
    done = subprocess.run([str(shim), *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["5", "-Dx=a b", "*", "", "-cp", "it's"]
    assert shim.stat().st_mode & 0o077 == 0
    _make_shim(tmp_path / "home", program)  # again: it is there
    assert [p.name for p in shim.parent.iterdir()] == ["java"]
