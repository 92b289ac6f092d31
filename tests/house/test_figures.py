"""The figures are counted right, and those that have a limit keep it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from .figures import attribute_counts, depth, glossary_words, import_graph, longest_chain, main, measure, ours
from .source import read


def test_the_figures_of_a_small_package() -> None:
    figures = measure(
        {
            "p.__init__": "from .a import f\n",
            "p.a": textwrap.dedent(
                '''
                from typing import TYPE_CHECKING
                from . import b  # noqa: F401
                if TYPE_CHECKING:
                    from . import c

                # This is why.
                class K:
                    def f(self):
                        """Two lines do not count.

                        """
                        self.x, self.y = 1, 2
                        self.x += 1
                        self.z: int = 3
                '''
            ),
            "p.b": "def g():\n    from . import c\n",
            "p.c": "",
        }
    )
    assert (figures.files, figures.functions, figures.attributes_most, figures.comments) == (4, 2, 3, 1)
    assert figures.import_depth == 3, "p, p.a, p.b: p.c is not imported when a module is loaded"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({}, 0),
        ({"a": []}, 1),
        ({"a": ["b", "c"], "b": ["c"], "c": []}, 3),
        ({"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c", "e"], "e": []}, 3),
    ],
)
def test_a_circle_counts_as_one_module(graph: dict[str, list[str]], expected: int) -> None:
    assert depth(graph) == expected


def test_a_long_function_and_a_wide_class() -> None:
    body = "\n".join(f"        self.x{number} = {number}" for number in range(51))
    figures = measure({"m": f"class K:\n    def f(self):\n{body}\n"})
    assert (figures.functions_long, figures.classes_wide, figures.attributes_most) == (1, 1, 51)


def test_the_glossary_has_at_most_60_words() -> None:
    words = glossary_words(read("docs/glossary.md"))
    assert 20 < len(words) <= 60, len(words)
    assert len({word.lower() for word in words}) == len(words), "a word is explained twice"
    common = {
        "acker",
        "actor",
        "bolt",
        "grouping",
        "mailbox",
        "spout",
        "stream",
        "task",
        "watermark",
        "window",
        "worker",
    }
    assert not common & {word.lower() for word in words}, "these are the field's words: the page links to them"


def test_no_class_assigns_more_than_12_attributes() -> None:
    wide = [
        f"{name}: {found.name}"
        for name, text in ours().items()
        for found in ast.walk(ast.parse(text))
        if isinstance(found, ast.ClassDef)
        if max(attribute_counts(ast.Module([found], [])), default=0) > 12
    ]
    assert not wide, "too much to keep in mind: let the class have parts (composition)"


def test_the_import_depth_is_at_most_25() -> None:
    chain = longest_chain(import_graph({name: ast.parse(text) for name, text in ours().items()}))
    assert len(chain) <= 25, (
        f"{len(chain)} modules import each other in a row: {' > '.join(chain)}. Where one needs only a constant, a "
        "dataclass or an error of the next, move that to a lower module. What only types need: under TYPE_CHECKING"
    )


def test_a_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out
    assert printed.startswith("| | aiostorm |\n|---|---|\n| files / lines | ")
    assert "| words in the glossary | " in printed
