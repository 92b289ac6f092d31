"""docs/conformance.md: the table of all scenarios, made from what the tests say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any

from .scenario import Scenario
from .sources import SOURCES

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
WRITE = "python -m tests.conformance"


def modules() -> list[ModuleType]:
    """The modules with scenarios, in the order of their titles."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != "test_table")
    return [import_module(f"{__package__}.{name}") for name in names]


def marked_in(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The test functions of a module, as they stand there."""
    found = [(name, test) for name, test in vars(module).items() if name.startswith("test_")]
    yield from sorted(found, key=lambda item: inspect.unwrap(item[1]).__code__.co_firstlineno)


def scenarios() -> list[Scenario]:
    """All of them."""
    return [test.scenario for module in modules() for _, test in marked_in(module)]


def page() -> str:
    """The document."""
    every = scenarios()
    departing = sum(1 for found in every if found.departs)
    of_jstorm = sum(1 for found in every if found.file.startswith("alibaba/"))
    untested = sum(1 for found in every if "(code)" in found.source)
    head = (
        f"{len(every)} scenarios from Storm's ({len(every) - of_jstorm}) and JStorm's ({of_jstorm}) own tests, "
        "written as tests of aiostorm. They run in virtual time, with every run of the tests. In "
        f"{len(every) - departing} of them aiostorm behaves as the original; {departing} differ in something, which "
        f"the column *difference* describes. {untested} test code of Storm that has no test there; for these, the "
        "column *original test* names the class, with (code)."
    )
    tail = (
        "[semantics.md](semantics.md) lists what is guaranteed; [storm.md](storm.md#differences) lists the differences "
        f"and their reasons. This page is generated from the tests: `{WRITE}` writes it."
    )
    lines = ["# Conformance", "", *wrap(head, 120), "", *wrap(tail, 120)]
    for module in modules():
        title = (module.__doc__ or "").partition("\n")[0]
        file = f"tests/conformance/{module.__name__.rpartition('.')[2]}.py"
        lines += ["", f"## {title.partition(':')[0]}", "", f"[{file}](../{file})", ""]
        lines += ["| scenario | original test | test here | difference | remark |", "|---|---|---|---|---|"]
        for name, test in marked_in(module):
            found: Scenario = test.scenario
            theirs = found.source.replace("#", " ")
            lines.append(f"| {found.name} | {theirs} | `{name}` | {found.departs} | {found.note} |")
    lines += ["", "## Sources", "", "| name | file |", "|---|---|"]
    used = {found.source.partition("#")[0] for found in every}
    lines += [f"| {name} | `{path}` |" for name, path in SOURCES.items() if name in used]
    return "\n".join(lines) + "\n"
