"""What the README and the documentation tell people to type is what the gate runs; their Python is Python."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from .rules import imports_outside
from .source import PACKAGE, ROOT, Fault, Source, files, no_faults, packages, pyproject, read

FIRST = "python3 -m pip install uv && python3 -m uv run aiostorm run examples.word_count:topology"
TESTS = "python3 -m uv run pytest"
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)


def fences(name: str, *languages: str) -> list[tuple[int, str]]:
    """(line, text) of each fenced block of a Markdown file in one of the languages."""
    text = read(name)
    return [
        (text.count("\n", 0, found.start()) + 2, found["body"])
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]


def commands(name: str) -> list[str]:
    """The commands that a reader types."""
    lines = [line for _, body in fences(name, "console", "bash", "sh", "shell") for line in body.splitlines()]
    typed = [line.strip().removeprefix("$ ").split("  #")[0].strip() for line in lines]
    return [line for line in typed if line and not line.startswith("#")]


def documents() -> list[str]:
    """Markdown files that people read."""
    return [name for name in files() if name.endswith(".md")]


def test_readme_tells_the_two_commands():
    found = commands("README.md")
    assert found[:2] == [FIRST, TESTS], "the README's first two commands are the promise: one runs, one tests"


def test_gate_runs_every_command_of_the_readme():
    gate = "".join(read(name) for name in files() if name.startswith(".ci/"))
    missing = [command for command in commands("README.md") if command not in gate]
    assert not missing, f"{missing}: the gate must run what the README says, word for word"


def test_readme_leads_everywhere():
    """Packages, pages, examples and extras: what the README leaves out, newcomers do not find.

    Pages in folders of docs/ are in the index of the pages, which tests/docs compares.
    """
    readme = read("README.md")
    pages = [name for name in files() if name.startswith("docs/") and name.endswith(".md") and name.count("/") == 1]
    examples = {"/".join(name.split("/")[:2]) for name in files() if name.startswith("examples/")}
    links = [*(f"{package}/__init__.py" for package in packages()), *pages, *examples]
    missing = [name for name in links if f"]({name}" not in readme]
    missing += [extra for extra in pyproject()["project"]["optional-dependencies"] if f"| `{extra}` |" not in readme]
    assert not missing, f"{missing}: the README does not say that they are there"


@pytest.mark.parametrize("name", documents())
def test_python_in_documents_is_python(name: str):
    for line, body in fences(name, "python", "py"):
        code = _dedent(body)
        try:
            compile(code, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            pytest.fail(f"{name}:{line + (error.lineno or 1) - 1}: {error.msg}: readers copy this")


@pytest.mark.parametrize("name", documents())
def test_documents_import_what_there_is(name: str):
    faults = []
    for line, body in fences(name, "python", "py"):
        snippet = Source.of(_dedent(body), name)
        faults += [Fault(name, line, str(fault.message)) for fault in imports_outside(snippet, private_too=False)]
        for node in ast.walk(snippet.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
                module = importlib.import_module(node.module or "")
                faults += [
                    Fault(name, line + node.lineno - 1, f"{node.module} has no {alias.name}")
                    for alias in node.names
                    if not hasattr(module, alias.name)
                ]
    no_faults(faults)


@pytest.mark.parametrize("name", documents())
def test_links_between_documents_lead_somewhere(name: str):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", read(name), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path = target.split("#")[0]
        if path and "://" not in path and not path.startswith("mailto:"):
            assert ((ROOT / name).parent / path).exists(), f"{name}: the link to {target} leads nowhere"


def _dedent(body: str) -> str:
    import textwrap

    return textwrap.dedent(body)
