"""docs/testing.md is true: every snippet on it is run, as a project of a user's.

1. A Python or TOML block is a file; its first line names it. All files stand in one folder.
2. A text block that begins with `$ python -m pytest …` is a run of pytest. The lines that it shows are there, in this
   order, but for their numbers; `…` is what is not shown. The files that such runs name have tests that fail.
3. A Mermaid block is the diagram that the run above it draws.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.]+)\n")
RUN = re.compile(r"\$ python -m pytest (.*)\n")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SEEDS = 3


def blocks() -> list[tuple[str, str]]:
    """(language, text) of each block that has a language, in order."""
    return [(language, text) for language, text in FENCE.findall(PAGE.read_text(encoding="utf-8")) if language]


def snippets() -> dict[str, str]:
    found: dict[str, str] = {}
    for language, text in blocks():
        if language in ("text", "mermaid"):
            continue
        named = NAMED.match(text)
        assert named, f"the first line of a {language} snippet names its file: {text[:60]!r}"
        assert named[1] not in found, f"two snippets are named {named[1]}"
        found[named[1]] = text
    return found


def runs() -> list[tuple[list[str], str, str]]:
    """(arguments of pytest, what it prints, what it draws) of each run that is shown."""
    found: list[tuple[list[str], str, str]] = []
    for language, text in blocks():
        if language == "text":
            begun = RUN.match(text)
            assert begun, f"a text block shows a run of pytest: {text[:60]!r}"
            found.append((shlex.split(begun[1]), text[begun.end() :], ""))
        elif language == "mermaid":
            arguments, prints, _ = found.pop()
            found.append((arguments, prints, text))
    return found


def are_in(shown: str, real: str) -> None:
    """All lines of `shown` but those of dots are lines of `real`, in this order, whatever their numbers are."""
    lines = iter(NUMBER.sub("#", line).rstrip() for line in real.splitlines())
    for line in shown.splitlines():
        if line != "…":
            assert NUMBER.sub("#", line).rstrip() in lines, f"not there, or not there any more: {line}\n{real}"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project: its modules stand beside its tests."""
    for name, text in snippets().items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    return pytester


@pytest.mark.slow
def test_the_pages_tests_pass(project: pytest.Pytester) -> None:
    failing = {argument.partition("::")[0] for arguments, _, _ in runs() for argument in arguments if ".py" in argument}
    texts = [text for name, text in snippets().items() if name not in failing]
    arguments = [f"--ignore={name}" for name in failing] + [f"--simulation-seeds={SEEDS}"]
    result = project.runpytest_subprocess("-v", "-W", "error", "--import-mode=prepend", *arguments)
    tests = sum(text.count("async def test_") for text in texts)
    simulated = sum(text.count("@pytest.mark.simulate(") for text in texts)
    twice = 1 if importlib.util.find_spec("uvloop") else 0  # the one marked `sockets`
    assert tests >= 10
    result.assert_outcomes(passed=tests + simulated * (SEEDS - 1) + twice)


@pytest.mark.slow
@pytest.mark.parametrize("run", runs(), ids=lambda run: run[0][0])
def test_the_pages_mistakes_are_found(project: pytest.Pytester, run: tuple[list[str], str, str]) -> None:
    arguments, prints, draws = run
    result = project.runpytest_subprocess("-W", "error", "--import-mode=prepend", *arguments)
    result.assert_outcomes(failed=1)
    are_in(prints, result.stdout.str())
    if draws:
        [drawn] = [argument for argument in arguments if argument.endswith(".mmd")]
        are_in(draws, Path(drawn).read_text(encoding="utf-8"))


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
