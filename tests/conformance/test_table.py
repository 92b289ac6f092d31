"""The scenarios are what they say: named, black boxes, and listed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .sources import SOURCES
from .table import PAGE, WRITE, marked_in, modules, page, scenarios

FOLDER = Path(__file__).parent


def test_the_page_lists_the_scenarios() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"docs/conformance.md is made from the tests: run {WRITE}"


def test_the_table_has_enough_rows() -> None:
    assert len(scenarios()) >= 40


def test_every_test_names_its_scenario() -> None:
    for module in modules():
        for name, test in marked_in(module):
            assert hasattr(test, "scenario"), f"{module.__name__}.{name}: say where it is from, with @scenario"


def test_names_are_different_and_sources_known() -> None:
    names = [found.name for found in scenarios()]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    used = {found.source.partition("#")[0] for found in scenarios()}
    assert used == set(SOURCES), "sources.py lists the files that are used, all of them and no others"
    for found in scenarios():
        assert found.source.partition("#")[2], f"{found.source}: name the test, after a #"
        assert "|" not in found.name + found.departs + found.note, "a bar would end the cell of the table"


def test_sources_are_in_order() -> None:
    assert list(SOURCES) == sorted(SOURCES, key=str.lower)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_they_are_black_boxes(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level < 2, f"{path.name}:{node.lineno}: a scenario leans on no other tests"
            names = [node.module or ""] if not node.level else []
        for name in names:
            assert not name.startswith("aiostorm.") or name == "aiostorm.testing", f"{path.name}:{node.lineno}: {name}"
