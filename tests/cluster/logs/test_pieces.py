"""Pieces of logs: each line once, over rotations, in bounded pieces; and nothing but logs."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from aiostorm.cluster.logs import LogsAsked, ProcessLines, read_pieces
from aiostorm.cluster.logs.pieces import MAX_PIECE_BYTES, MAX_PROCESSES
from aiostorm.cluster.logs.wire import ANSWER, Answer
from aiostorm.cluster.supervisor.logs import limit_log
from aiostorm.transport import MAX_FRAME_BYTES


class Reader:
    """One who follows the logs in a folder."""

    def __init__(self, folder: Path, lines: int | None = None, *, at_end: bool = False) -> None:
        self.folder = folder
        self.lines = lines
        self.at_end = at_end
        self.cursors: dict[str, str] = {}
        self.missed: list[str] = []

    def once(self) -> list[ProcessLines]:
        """One request."""
        found = read_pieces(self.folder, LogsAsked("x", "", dict(self.cursors), self.lines, self.at_end))
        self.cursors |= {piece.process: piece.cursor for piece in found if piece.cursor}
        self.missed += [piece.process for piece in found if piece.missed]
        return found

    def all(self) -> list[str]:
        """Requests until there is no more."""
        lines: list[str] = []
        more = True
        while more:
            found = self.once()
            lines += [line for piece in found for line in piece.lines]
            more = any(piece.more for piece in found)
        return lines


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_the_last_lines_and_what_comes(tmp_path: Path) -> None:
    log = tmp_path / "parent.log"
    log.write_text("one\ntwo\nthree\nhalf")
    (tmp_path / "parent.log.1").write_text("before\n")
    assert Reader(tmp_path, 2, at_end=True).all() == ["three", "half"]
    assert Reader(tmp_path, 5, at_end=True).all() == ["before", "one", "two", "three", "half"]
    assert Reader(tmp_path, 0, at_end=True).all() == []
    reader = Reader(tmp_path, 2)
    assert reader.all() == ["three"]
    add(log, " and half\r\n")
    assert reader.all() == ["half and half"]
    assert reader.all() == []
    (tmp_path / "worker-1.log").write_text("begins\n")
    assert reader.all() == ["begins"]
    assert not reader.missed


@pytest.mark.parametrize("seed", range(20))
def test_each_line_comes_once_over_renames(tmp_path: Path, seed: int) -> None:
    """Supervisors rename a log before they start its process again; a process may write before it is read."""
    rng, log, written = random.Random(seed), tmp_path / "worker-1.log", 0
    log.write_text("")
    reader = Reader(tmp_path)
    read = reader.all()
    for _ in range(60):
        for _ in range(rng.randrange(40)):
            add(log, f"{written} {'x' * rng.choice((0, 10, 5000))}\n")
            written += 1
        if rng.random() < 0.2:
            os.replace(log, f"{log}.1")
            if rng.random() < 0.3:
                reader.once()  # just between two files: not there
            log.write_text("")
            read += reader.all()
        elif rng.random() < 0.5:
            read += [line for piece in reader.once() for line in piece.lines]
        if rng.random() < 0.2:
            read += reader.all()
    read += reader.all()
    assert not reader.missed
    numbers = [int(line.split()[0]) for line in read]
    assert numbers == list(range(written))


def test_a_log_that_is_cut_begins_anew_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.log"
    log.write_text("".join(f"line {n}\n" for n in range(1000)))
    reader = Reader(tmp_path, 1)
    assert reader.all() == ["line 999"]
    limit_log(log, 100)
    add(log, "after the cut\n")
    assert reader.all() == ["after the cut"]
    assert reader.missed == ["worker-1"]
    read_to = log.stat().st_size
    add(log, "lost\n" * 100)
    limit_log(log, 100)
    add(log, "x" * read_to + "\nlonger than what was read\n")  # the size alone does not show it
    assert reader.all() == ["x" * read_to, "longer than what was read"]
    assert reader.missed == ["worker-1"] * 2


def test_a_piece_fits_into_a_frame_whatever_is_written(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"worker-{number}.log").write_bytes(bytes((0, 255)) * 500_000)
    found = Reader(tmp_path).once()
    assert all(piece.more for piece in found)
    assert sum(len(line) for piece in found for line in piece.lines) < 6 * MAX_PIECE_BYTES
    assert len(ANSWER.dump_json(Answer(tuple(found)))) < MAX_FRAME_BYTES


def test_of_many_processes_too(tmp_path: Path) -> None:
    for number in range(MAX_PROCESSES + 10):
        (tmp_path / f"worker-{number}.log").write_bytes(b"\1" * 10_000)
    found = Reader(tmp_path).once()
    assert len(found) == MAX_PROCESSES
    assert len(ANSWER.dump_json(Answer(tuple(found)))) < MAX_FRAME_BYTES


def test_a_large_log_comes_whole(tmp_path: Path) -> None:
    lines = [f"{n} {'y' * (n % 300)}" for n in range(5000)]
    (tmp_path / "parent.log").write_text("\n".join(lines))
    assert Reader(tmp_path, at_end=True).all() == lines


@pytest.mark.parametrize("cursor", ["", "1.2", "1.2.3.4", "-1.0.0", "a.b.c", "../../etc/passwd", "1.2.3\n", "9" * 100])
def test_what_is_no_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    (tmp_path / "parent.log").write_text("x\n")
    with pytest.raises(ValueError, match="is no cursor of a log"):
        read_pieces(tmp_path, LogsAsked("x", cursors={"parent": cursor}))


def test_a_cursor_of_another_file_shows_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "parent.log").write_text("x\n")
    [piece] = read_pieces(tmp_path, LogsAsked("x", cursors={"parent": "1.2.99999999999999999999", "worker-9": "1.2.3"}))
    assert (piece.lines, piece.missed) == (("x",), True)


@pytest.mark.skipif(sys.platform == "win32", reason="no links")
def test_only_logs_of_processes_are_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "parent.log").write_text("x\n")
    (logs / "parent.log.1").symlink_to(tmp_path / "secret")
    (logs / "worker-1.log").symlink_to(tmp_path / "secret")
    (logs / "\x1b[31m.log").write_text("a name that the code of a topology has chosen\n")
    assert Reader(logs, 100, at_end=True).all() == ["x"]
    for process in ("../secret", "worker-1", "\x1b[31m", "/etc/passwd"):
        assert not [line for piece in read_pieces(logs, LogsAsked("x", process)) for line in piece.lines]
    assert read_pieces(tmp_path / "none", LogsAsked("x")) == []
