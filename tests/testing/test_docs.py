"""docs/testing.md is true: every snippet on it is run, as a project of a user's."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.]+)\n")


def snippets() -> dict[str, str]:
    found: dict[str, str] = {}
    for language, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        named = NAMED.match(text)
        assert named, f"the first line of a {language} snippet names its file: {text[:60]!r}"
        assert named[1] not in found, f"two snippets are named {named[1]}"
        found[named[1]] = text
    return found


def test_the_pages_tests_pass(pytester: pytest.Pytester) -> None:
    for name, text in snippets().items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    # A user's project: its modules stand beside its tests.
    result = pytester.runpytest_subprocess("-v", "-W", "error", "--import-mode=prepend")
    tests = sum(text.count("async def test_") for text in snippets().values())
    twice = 1 if importlib.util.find_spec("uvloop") else 0  # the one marked `sockets`
    assert tests >= 10
    result.assert_outcomes(passed=tests + twice)


def test_the_pages_program_prints_what_it_says(tmp_path: Path) -> None:
    program = snippets()["outside.py"]
    [said] = re.findall(r"# ([\d.]+):", program)
    (tmp_path / "outside.py").write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, "outside.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{said}\n", "")


def test_the_pages_links_lead_somewhere() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", page, re.M)
    }
    for anchor in re.findall(r"\]\(#([\w-]+)\)", page):
        assert anchor in headings
