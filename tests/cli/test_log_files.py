"""`aiostorm logs`: the last lines of log files, in bounded memory, and what comes, also after a rotation."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiostorm.cluster import Home
from aiostorm.cluster.logs import last_lines
from aiostorm.cluster.logs.files import start_of

from .conftest import Command, Process


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("AIOSTORM_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def logged(home: Home, name: str, **texts: str) -> None:
    home.logs(name).mkdir(parents=True, exist_ok=True)
    for process, text in texts.items():
        home.log(name, process.replace("_", "-")).write_text(text)


def test_the_last_lines_of_all_processes(aiostorm: Command, home: Home) -> None:
    lines = "".join(f"line {i}\n" for i in range(200))
    logged(home, "words", parent="begins\nruns", worker_1=lines, worker_10="", worker_2="one\r\ntwo\n")
    outcome = aiostorm("logs", "words", "-n", "2")
    assert outcome.out.splitlines() == [
        "parent    | begins",
        "parent    | runs",
        "worker-1  | line 198",
        "worker-1  | line 199",
        "worker-2  | one",
        "worker-2  | two",
    ]
    assert aiostorm("logs", "words", "worker-1", "-n", "3").out == "line 197\nline 198\nline 199\n"
    assert len(aiostorm("logs", "words", "worker-1").out.splitlines()) == 100
    assert aiostorm("logs", "words", "worker-1", "-n", "0").out == ""


def test_the_lines_as_json(aiostorm: Command, home: Home) -> None:
    logged(home, "words", parent='begins\nsays "läuft"\n', worker_1="", worker_2="one\r\ntwo")
    outcome = aiostorm("logs", "words", "--json", "-n", "1")
    lines = [{"process": "parent", "line": 'says "läuft"'}, {"process": "worker-2", "line": "two"}]
    assert json.loads(outcome.out) == {"topology": "words", "lines": lines}
    assert json.loads(aiostorm("logs", "words", "worker-1", "--json").out) == {"topology": "words", "lines": []}
    refused = aiostorm("logs", "words", "--json", "-f")
    assert (refused.code, refused.out) == (2, "")
    assert "leave out one of them" in refused.err


@pytest.mark.skipif(sys.platform == "win32", reason="no links")
def test_what_is_a_link_or_no_file_is_not_read(aiostorm: Command, home: Home, tmp_path: Path) -> None:
    """The code of a topology can write in the folder of its logs."""
    (tmp_path / "secret").write_text("secret\n")
    logged(home, "words", parent="runs\n")
    folder = home.logs("words")
    (folder / "worker-1.log").symlink_to(tmp_path / "secret")
    (folder / "parent.log.1").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "worker-2.log")  # no one writes to it: to open it would take forever
    (folder / "worker-3.log").mkdir()
    outcome = aiostorm("logs", "words")
    assert (outcome.code, outcome.out, outcome.err) == (0, "parent   | runs\n", "")
    expected = {"parent": ["runs"], "worker-1": [], "worker-2": [], "worker-3": []}
    assert last_lines(folder, "", 100) == expected


def test_logs_that_are_not_here(aiostorm: Command, home: Home) -> None:
    outcome = aiostorm("logs", "words")
    assert outcome.code == 2
    assert "there are no logs of 'words' in" in outcome.err
    assert "`aiostorm show words` says on which nodes it runs" in outcome.err
    logged(home, "words", parent="x\n", worker_1="y\n")
    assert "did you mean words?" in aiostorm("logs", "wrods").err
    assert "did you mean worker-1?" in aiostorm("logs", "words", "worker1").err
    assert "there are: parent, worker-1" in aiostorm("logs", "words", "q").err
    for name in ("..", "../x", ".", "a/b"):
        assert "a topology's name is" in aiostorm("logs", name).err
    assert "no logs of '../parent'" in aiostorm("logs", "words", "../parent").err


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("lines", [0, 1, 2, 5, 99, 100, 101])
def test_where_the_last_lines_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, end: str) -> None:
    monkeypatch.setattr("aiostorm.cluster.logs.files.BLOCK_BYTES", 7)
    every = [f"{'x' * (i % 13)}{i}" for i in range(100)]
    (tmp_path / "log").write_text("\n".join(every) + end)
    with (tmp_path / "log").open("rb") as file:
        start, missing = start_of(file, lines)
        assert missing == max(0, lines - 100)
        file.seek(start)
        assert file.read().decode().splitlines() == (every[-lines:] if lines else [])


def test_lines_that_were_rotated_away(aiostorm: Command, home: Home) -> None:
    logged(home, "words", parent="four\nfive\n", worker_1="")
    for process, text in {"parent": "one\ntwo\nthree\n", "worker-1": "six\n"}.items():
        home.log("words", process).with_suffix(".log.1").write_text(text)
    assert aiostorm("logs", "words", "parent", "-n", "3").out == "three\nfour\nfive\n"
    assert aiostorm("logs", "words", "parent", "-n", "2").out == "four\nfive\n"
    assert aiostorm("logs", "words", "parent").out == "one\ntwo\nthree\nfour\nfive\n"
    assert aiostorm("logs", "words", "worker-1", "-n", "1").out == "six\n"


def test_a_long_line_comes_in_pieces(aiostorm: Command, home: Home) -> None:
    logged(home, "words", parent="x" * 200_000 + "\nend\n")
    *pieces, last = aiostorm("logs", "words").out.splitlines()
    assert last == "parent | end"
    assert "".join(piece.removeprefix("parent | ") for piece in pieces) == "x" * 200_000
    assert max(map(len, pieces)) < 150_000


def test_what_comes_is_followed(home: Home, start: Callable[..., Process]) -> None:
    logged(home, "words", parent="before\n")
    process = start("logs", "words", "-f", "-n", "1")
    process.until_out("parent | before")
    log = home.log("words", "parent")
    with log.open("a") as file:
        file.write("half")
        file.flush()
        time.sleep(0.5)
        file.write(" and half\n")
    process.until_out("parent | half and half")
    log.rename(log.with_suffix(".1"))
    log.write_text("in the next file\n")
    process.until_out("parent | in the next file")
    log.write_text("cut\n")
    process.until_out("parent | cut")
    logged(home, "words", worker_1="a process that has just started\n")
    process.until_out("worker-1 | a process that has just started")
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
