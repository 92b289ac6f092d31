"""Checks before a command imports user code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiostorm.cli.start import taken_credentials
from aiostorm.cluster import check_name
from aiostorm.transport import CREDENTIALS_VARIABLE, Credentials

from .conftest import JOBS, Command

WRONG = [
    "../x",
    "..",
    "a/b",
    "a\\b",
    "a b",
    "a\tb",
    "a\nb",
    "\x1b[2J",
    "a\x00",
    ".hidden",
    "a..b",
    "",
    "n" * 129,
    "\u200e",
]


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_name_is_refused_in_one_line(name: str, aiostorm: Command) -> None:
    with pytest.raises(ValueError, match="a topology's name is 1 to 128 printable characters"):
        check_name(name)
    if name and "\x00" not in name:
        outcome = aiostorm("run", "--name", name, f"{JOBS}:topology")
        assert outcome.code == 2
        assert outcome.out == ""
        assert len(outcome.err.splitlines()) == 1
        assert outcome.err.startswith("Error: --name: a topology's name is")


@pytest.mark.parametrize("name", ["word-count", "word_count", "a.b", "größe", "x", "n" * 128, "a@b:c"])
def test_valid_names_are_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["../x", "a b", "..", "", "a\nb"])
def test_an_invalid_name_of_a_worker_is_refused_in_one_line(name: str, aiostorm: Command) -> None:
    outcome = aiostorm("worker", "--name", name, "--connect", "127.0.0.1:1", "--target", "jobs")
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("Error: --name:")


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
@pytest.mark.parametrize(
    "words", [["run", "--workers", "2", "examples.word_count:topology"], ["worker", "--name", "w"]]
)
def test_too_few_open_files_are_reported_at_once(words: list[str]) -> None:
    more = ["--connect", "127.0.0.1:1", "--target", "jobs"] if words[0] == "worker" else []
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)); "
        f"from aiostorm.cli import cli; cli({[*words, *more]!r}, prog_name='aiostorm')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 2
    assert "at most 24 files may be open here, but" in found.stderr
    assert "ulimit -n 1024" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_token_is_taken_out_of_the_environment(
    aiostorm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's module is imported after that, and its child processes inherit the environment."""
    (tmp_path / "looks_jobs.py").write_text(
        f"import os\nassert {CREDENTIALS_VARIABLE!r} not in os.environ\nraise SystemExit('it was not there')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("aiostorm.cli.start._taken", {})  # those of other tests of this process stay as they are
    line = Credentials.new("test").to_bytes().decode()
    monkeypatch.setenv(CREDENTIALS_VARIABLE, line)
    outcome = aiostorm("run", "looks_jobs")
    assert "it was not there" in outcome.err
    assert CREDENTIALS_VARIABLE not in os.environ
    assert taken_credentials() == {CREDENTIALS_VARIABLE: line}
    monkeypatch.setenv(CREDENTIALS_VARIABLE, line)
    aiostorm("worker", "--name", "w", "--connect", "10.0.0.2:6700", "--target", "jobs")
    assert CREDENTIALS_VARIABLE not in os.environ


def test_what_needs_more_memory_than_it_may_have_is_refused() -> None:
    program = (
        "from aiostorm.cli.start import limit_data; limit_data(256 << 20)\n"
        "import mmap, resource\n"
        "mmap.mmap(-1, 1 << 30, flags=mmap.MAP_SHARED)\n"  # not its own
        "try:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('refused')\n"
        "limit_data(1 << 30)\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "refused\n256\n"
