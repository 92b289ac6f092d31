"""Fresh seeds: a range for each commit, the same wherever that is looked at, and never the fixed seeds."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from . import fresh
from .__main__ import main

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


def commit(tree: Path, text: str) -> str:
    """Commit a file with this text; the commit's hash."""
    (tree / "part.py").write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", text]):
        subprocess.run([*GIT, "-C", str(tree), *command], check=True)
    ask = [*GIT, "-C", str(tree), "rev-parse", "HEAD"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()


@given(st.text(max_size=50), st.text(max_size=50))
def test_a_name_has_one_range_and_it_is_above_the_fixed_seeds(name: str, other: str) -> None:
    assert fresh.first_of(name) == fresh.first_of(name)
    assert fresh.LOWEST <= fresh.first_of(name) < fresh.LOWEST + fresh.SPAN
    assert (fresh.first_of(name) == fresh.first_of(other)) == (name == other)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@needs_git
def test_a_checkout_is_named_by_its_commit(tmp_path: Path) -> None:
    first = commit(tmp_path, "one")
    assert fresh.name_of(tmp_path) == first
    (tmp_path / "by_product.py").write_text("not committed")
    assert fresh.name_of(tmp_path) == first
    assert fresh.name_of(tmp_path) != commit(tmp_path, "two") == fresh.name_of(tmp_path)


@needs_git
def test_where_git_is_not_installed_a_checkout_is_named_as_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = commit(tmp_path, "one")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fresh.name_of(tmp_path) not in ("", known)


def test_an_archive_is_named_by_its_contents(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("one")
    (tmp_path / ".venv").mkdir()
    first = fresh.name_of(tmp_path)
    (tmp_path / ".venv" / "part.py").write_text("a by-product")
    assert fresh.name_of(tmp_path) == first
    (tmp_path / "part.py").rename(tmp_path / "other.py")
    second = fresh.name_of(tmp_path)
    (tmp_path / "other.py").write_text("two")
    assert len({first, second, fresh.name_of(tmp_path)}) == 3


@needs_git
def test_an_archive_inside_another_checkout_is_named_as_an_archive(tmp_path: Path) -> None:
    outer = commit(tmp_path, "one")
    (tmp_path / "archive").mkdir()
    assert fresh.name_of(tmp_path / "archive") != outer


@pytest.mark.slow
@pytest.mark.sockets  # processes of their own
def test_both_ranges_are_run_and_the_fresh_one_is_printed() -> None:
    result = CliRunner().invoke(main, "--seeds 2 --first 3 --fresh 3 --world windows --faults-s 30 --jobs 1")
    first = fresh.first_of(fresh.name_of())
    assert f"{first} to {first + 2}" in result.output
    assert f"python -m tests.simulation --first {first} --seeds 3 --faults-s 30 --world windows" in result.output
    assert re.search(r"^5 seeds, .* 0 violations$", result.output, re.MULTILINE), result.output
    assert result.exit_code == 0
