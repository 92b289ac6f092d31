"""The tool itself: what it changes, how it finds out who survives, and its list of equivalent mutants."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .__main__ import difference, equivalents
from .codes import Order
from .mutants import mutants
from .overlay import Touched, module_name, swap_code
from .table import TESTS, paths_of

SOURCE = '''"""A text with 1 number."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 3


class Box:
    size: int = 4

    def __init__(self) -> None:
        self.kept = 0

    def fits(self, count: int) -> bool:
        if count < self.size and not self.kept:
            self.kept = count
            return True
        raise ValueError(f"{count + 1} is too many")
'''


def test_each_change_is_one_of_the_source_and_says_where_it_is() -> None:
    found = {(mutant.function, mutant.before, mutant.after) for mutant in mutants("box.py", SOURCE)}
    test = "if count < self.size and not self.kept:"
    assert found == {
        ("", "size: int = 4", "size: int = 5"),
        ("", "size: int = 4", "size: int = 3"),
        ("Box.fits", test, "if (count <= self.size) and not self.kept:"),
        ("Box.fits", test, "if (count >= self.size) and not self.kept:"),
        ("Box.fits", test, "if count < self.size and (self.kept):"),
        ("Box.fits", test, "if (count < self.size or not self.kept):"),
        ("Box.fits", test, "if (count < self.size):"),
        ("Box.fits", test, "if (not self.kept):"),
        ("Box.fits", test, "if (not (count < self.size and (not self.kept))):"),
        ("Box.fits", "self.kept = count", "pass"),
        ("Box.fits", "return True", "return False"),
        ("Box.fits", 'raise ValueError(f"{count + 1} is too many")', "pass"),
        ("Box.__init__", "self.kept = 0", "self.kept = 1"),
    }


def test_a_change_of_lines_with_other_letters_is_in_the_right_place() -> None:
    source = 'def greet(name):\n    return "grüß " + name, 1 < 2\n'
    assert 'return "grüß " + name, (1 <= 2)' in [mutant.after for mutant in mutants("greet.py", source)]


TWICE = """
def skip(numbers):
    for number in numbers:
        if number < 0:
            continue
        if number > 9:
            continue
        yield number
"""


def test_the_same_change_of_two_equal_lines_has_two_keys() -> None:
    found = [mutant for mutant in mutants("skip.py", TWICE) if mutant.before == "continue"]
    assert [(mutant.line, mutant.key) for mutant in found] == [
        (5, ("skip.py", "skip", "continue", "pass", 1)),
        (7, ("skip.py", "skip", "continue", "pass", 2)),
    ]


@pytest.mark.parametrize(
    "file", ["acker/ledger.py", "windows/time_windows.py", "topology/groupings/shuffle.py", "cluster/scheduler.py"]
)
def test_every_mutant_of_a_real_module_is_python_and_differs(file: str) -> None:
    source = Path(file).read_text("utf-8")
    found = mutants(file, source)
    assert len(found) > 50
    assert len({mutant.source for mutant in found} | {source}) == len(found) + 1
    assert len({mutant.key for mutant in found}) == len(found)
    for mutant in found:
        ast.parse(mutant.source)
        assert "\n-" in difference(mutant, source)


def called(count: int) -> bool:
    return count < 3


def test_the_code_of_a_function_is_replaced_where_it_is_known_already() -> None:
    known, old = called, called.__code__
    source, touched = Path(__file__).read_text("utf-8"), Touched([__file__])
    try:
        assert swap_code(Order(__file__, source.replace("count < 3", "count <= 3", 1), "called"), touched)
        assert known(3)
        assert not known(4)
        assert not swap_code(Order(__file__, source, "not_there"), touched)
    finally:
        known.__code__ = old


def test_the_name_of_a_module_and_where_its_tests_are() -> None:
    assert module_name("acker/ledger.py") == "aiostorm.acker.ledger"
    assert module_name("aiostorm/cli/run.py") == "aiostorm.cli.run"
    assert paths_of("actors/lanes.py") == ("tests/actors",)
    assert paths_of("windows/joins/hash.py") == TESTS["windows/joins/"]
    with pytest.raises(LookupError, match="add a line"):
        paths_of("nothing/here.py")


def test_the_table_names_what_is_there() -> None:
    missing = [path for places, paths in TESTS.items() for path in (places, *paths) if not Path(path).exists()]
    assert not missing


def test_each_equivalent_mutant_is_still_one_and_has_a_reason() -> None:
    known = equivalents()
    keys = {mutant.key for file in {key[0] for key in known} for mutant in mutants(file, Path(file).read_text("utf-8"))}
    assert not [key for key in known if key not in keys], "no mutant any more: remove it from equivalent.toml"
    assert not [key for key, why in known.items() if not why.strip()]
