"""What no file may do: every rule over every file it is for."""

from __future__ import annotations

import fnmatch
import re

import pytest

from . import rules, seams
from .source import (
    PACKAGE,
    ROOT,
    Fault,
    all_python_files,
    files,
    library_files,
    no_faults,
    packages,
    python_files,
    read,
)
from .source import source as parsed
from .tables import LOOP_OWNERS, MACHINES, SEAM_METHODS, SEAMS

LIBRARY = (
    rules.no_wait_for,
    rules.no_bare_task,
    rules.no_own_loop,
    rules.machines_are_pure,
    seams.seams_only,
    rules.no_print,
)
EVERYWHERE = (rules.no_code_loading, rules.no_swallowing, rules.short_enough)
TEXT = (".cfg", ".ini", ".md", ".py", ".sh", ".toml", ".yaml", ".yml", ".json", ".html", ".css", ".js", ".svg", ".txt")


@pytest.mark.parametrize("rule", LIBRARY, ids=lambda rule: rule.__name__)
def test_library(rule: rules.Rule):
    no_faults(fault for name in library_files() for fault in rule(parsed(name)))


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
def test_everywhere(rule: rules.Rule):
    no_faults(fault for name in all_python_files() for fault in rule(parsed(name)))


@pytest.mark.parametrize("rule", [rules.no_wait_for, rules.no_own_loop], ids=lambda rule: rule.__name__)
def test_examples_are_models(rule: rules.Rule):
    no_faults(fault for name in python_files("examples") for fault in rule(parsed(name)))


def test_tables_name_what_there_is():
    places = {place for places in SEAMS.values() for place in places}
    places |= {place for _, places in SEAM_METHODS.values() for place in places}
    stale = [pattern for pattern in (*places, *MACHINES, *LOOP_OWNERS) if not fnmatch.filter(files(), pattern)]
    assert not stale, f"{stale}: in tests/house/tables.py, but not in the tree"


def test_packages_import_public_names():
    no_faults(fault for name in python_files(*packages()) for fault in rules.imports_inside(parsed(name)))


def test_aiostorm_imports_public_names():
    no_faults(fault for name in python_files(PACKAGE) for fault in rules.imports_at_the_top(parsed(name)))


def test_tests_import_the_package():
    no_faults(
        fault for name in python_files("tests") for fault in rules.imports_outside(parsed(name), private_too=True)
    )


def test_examples_and_benchmarks_import_what_users_import():
    no_faults(
        fault
        for name in python_files("examples", "benchmarks")
        for fault in rules.imports_outside(parsed(name), private_too=name.startswith("benchmarks/"))
    )


def test_no_work_is_left_for_later():
    words = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
    no_faults(
        Fault(name, number, f"{found[0]}: finish it, or write an issue; the tree says only what is")
        for name, number, line in _lines()
        if (found := words.search(line))
    )


def test_no_file_names_a_developers_machine():
    homes = re.compile(r"(?<![\w.:/-])/(?:home|root|work|Users|mnt|srv)/[\w.]")
    indexes = re.compile(r"--?(?:extra-)?index-url|find-links|PIP_INDEX|UV_INDEX|UV_DEFAULT_INDEX", re.IGNORECASE)
    this_file = "tests/house/test_lint.py"
    no_faults(
        Fault(name, number, f"{found[0]!r} is true on one machine only: take it out")
        for name, number, line in _lines()
        if name != this_file and (found := homes.search(line) or indexes.search(line))
    )


def test_the_lock_file_is_not_committed():
    assert "uv.lock" not in files(), "uv.lock names the registry of one machine: it stays ignored by git"


def test_no_file_has_a_name_twice():
    folded: dict[str, str] = {}
    for name in files():
        twin = folded.setdefault(name.casefold(), name)
        assert twin == name, f"{name} and {twin} are one file on macOS and Windows"


def _lines():
    for name in files():
        path = ROOT / name
        if path.is_symlink() or not (name.endswith(TEXT) or name.startswith(".ci/")):
            continue
        for number, line in enumerate(read(name).splitlines(), start=1):
            yield name, number, line
