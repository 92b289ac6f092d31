"""The words of the rename table are absent."""

from __future__ import annotations

import pytest

from . import old_words
from .old_words import is_allowed, names_in, phrases_in, report, words_in


def test_no_old_word_is_used() -> None:
    assert not report(), "\n".join(["old words are used:", *report()])


def test_words_are_found_in_prose_and_in_identifiers() -> None:
    found = words_in("Nobody told it: `_on_told`, ToldAll, HTTPDoor, retold.")
    assert {word: found[word] for word in ("nobody", "told", "door", "retold")} == {
        "nobody": 1,
        "told": 3,
        "door": 1,
        "retold": 1,
    }


def test_names_are_found_in_code_only() -> None:
    found = names_in("cluster/Site.py", "class Site:  # a Site\n    site = 'Site'\n")
    assert (found["Site"], found["site"]) == (2, 1)
    assert not names_in("docs/cluster.md", "Site")


def test_phrases_are_found_over_the_end_of_a_line() -> None:
    found = phrases_in("Its next\n    life. A Send window; windows of a life; the next lifetime.")
    assert sum(found.values()) == 2


@pytest.mark.parametrize("word", sorted({*old_words.ALLOWED} - {"*"}))
def test_an_exception_has_a_file(word: str) -> None:
    for start, reason in old_words.ALLOWED[word]:
        assert reason
        assert any(name.startswith(start) and is_allowed(word, name) for name in old_words.texts()), start
