"""Word count counts what a plain Counter counts, whatever the files, and loses no line."""

from __future__ import annotations

import asyncio
import re
import sysconfig
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiostorm import Config, LocalCluster
from aiostorm.runtime import loop_factory

from . import load

word_count = load("word_count")


def plain_count(files: list[str]) -> tuple[int, Counter[str]]:
    """The lines and the words of files, the plain way."""
    lines, counts = 0, Counter[str]()
    for path in files:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                lines += 1
                counts.update(re.findall(r"\w+", line.lower()))
    return lines, counts


async def run(*paths: str, config: Config | None = None) -> tuple[dict[str, list[Any]], Any]:
    """All results, and the metrics of the spout."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("word-count", word_count.topology(*paths), config)
        await running.wait_finished()
        return await running.results(), running.metrics()["lines"]


def counted(results: dict[str, list[Any]]) -> Counter[str]:
    """What all tasks counted; no word is counted by two."""
    parts = results["count"]
    assert len(parts) == 4
    total: Counter[str] = Counter()
    for part in parts:
        assert not total.keys() & part.keys()
        total.update(part)
    return total


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Files of every kind: empty, without a last newline, not UTF-8, Windows' line ends, a long line, not Python."""
    (tmp_path / "sub" / "site-packages").mkdir(parents=True)
    (tmp_path / "a.py").write_text(
        "To be, or not to be:\nthat is the question.\n\n_under_score x2 ÄRGER ärger\n", "utf-8"
    )
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "sub" / "no_newline.py").write_text("last line has no end")
    (tmp_path / "sub" / "latin.py").write_bytes("caf\xe9 caf\xe9 na\xefve\n".encode("latin-1"))
    (tmp_path / "sub" / "windows.py").write_bytes(b"one two\r\nthree\rfour\r\n")
    (tmp_path / "sub" / "long.py").write_text("word " * 20_000 + "\n" + "x y\n" * 3000)
    (tmp_path / "sub" / "site-packages" / "installed.py").write_text("not meant\n")
    (tmp_path / "notes.txt").write_text("only if asked for\n")
    return tmp_path


async def test_counts_like_a_counter(corpus: Path):
    results, spout = await run(str(corpus))
    names = ("a.py", "empty.py", "sub/latin.py", "sub/long.py", "sub/no_newline.py", "sub/windows.py")
    lines, expected = plain_count([str(corpus / name) for name in names])
    assert counted(results) == expected
    assert results["lines"] == [{"files": 6, "files not readable": 0, "lines": lines}]
    assert (spout.acked, spout.failed, spout.pending) == (lines, 0, 0)


@pytest.mark.parametrize("tree_max", [1, 7])
async def test_counts_the_same_with_small_trees_and_mailboxes(corpus: Path, tree_max: int):
    config = Config(acker_tree_max_messages=tree_max, mailbox_capacity_tuples=3, max_spout_pending=5)
    results, _ = await run(str(corpus / "sub" / "l*.py"), str(corpus / "a.py"), config=config)
    assert counted(results) == plain_count([str(corpus / name) for name in ("sub/long.py", "sub/latin.py", "a.py")])[1]


async def test_summary(corpus: Path):
    results, _ = await run(str(corpus / "a.py"), str(corpus / "notes.txt"))
    summary = word_count.topology(str(corpus)).summary(results)
    top = summary.pop("most frequent words")
    assert summary == {"files": 2, "files not readable": 0, "lines": 5, "words": 18, "distinct words": 15}
    expected = plain_count([str(corpus / "a.py"), str(corpus / "notes.txt")])[1]
    assert top == sorted(expected.items(), key=lambda pair: (-pair[1], pair[0]))


async def test_a_file_that_cannot_be_read_is_counted_and_not_fatal(corpus: Path):
    lines = word_count.Lines([str(corpus / "missing.py"), str(corpus / "a.py"), str(corpus)])
    topology = word_count.topology(str(corpus / "a.py"))
    spec = replace(topology.components["lines"], template=lines)
    topology = replace(topology, components={**topology.components, "lines": spec})
    async with LocalCluster() as cluster:
        running = await cluster.submit("word-count", topology)
        await running.wait_finished()
        results = await running.results()
        errors = [report.error for report in running.errors()]
    assert results["lines"] == [{"files": 1, "files not readable": 2, "lines": 4}]
    assert [error.split(":")[0] for error in errors] == ["FileNotFoundError", "IsADirectoryError"]
    assert counted(results) == plain_count([str(corpus / "a.py")])[1]


def test_find_files(corpus: Path):
    def names(*patterns: str) -> list[str]:
        return [Path(path).relative_to(corpus).as_posix() for path in word_count.find_files(patterns)]

    assert names(str(corpus / "notes.txt")) == ["notes.txt"]
    assert names(str(corpus / "*.py")) == ["a.py", "empty.py"]
    assert names(str(corpus / "**" / "w*.py"), str(corpus / "*.txt")) == ["sub/windows.py", "notes.txt"]
    assert names(str(corpus / "a.py"), str(corpus / "*.py")) == ["a.py", "empty.py"], "each once"
    assert "sub/site-packages/installed.py" not in names(str(corpus))
    assert names(str(corpus / "sub" / "site-packages")) == ["sub/site-packages/installed.py"], "asked for by name"


@pytest.mark.parametrize("pattern", ["no_such_file", "no/such/*.py", "an_empty_folder"])
def test_patterns_without_a_match_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "an_empty_folder").mkdir()
    (tmp_path / "good.py").write_text("")
    with pytest.raises(FileNotFoundError, match=re.escape(repr(pattern))):
        word_count.topology("good.py", pattern)


@pytest.mark.slow
def test_the_standard_library():
    """Every word of the modules at the top of the running Python's library, in real time. All of it is the default."""
    library = sysconfig.get_path("stdlib")
    assert word_count.topology().components["lines"].template.paths == word_count.find_files((library,))
    modules = f"{library}/*.py"
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        results, spout = runner.run(run(modules))
    files = word_count.find_files((modules,))
    lines, expected = plain_count(files)
    assert len(files) > 100
    assert lines > 100_000
    assert counted(results) == expected
    assert results["lines"] == [{"files": len(files), "files not readable": 0, "lines": lines}]
    assert (spout.acked, spout.failed, spout.replayed, spout.pending) == (lines, 0, 0, 0)
