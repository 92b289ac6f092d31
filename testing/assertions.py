"""Assertions about results in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def assert_multiset_equal(actual: Iterable[Any], expected: Iterable[Any]) -> None:
    """The same elements, each as often, in any order; they need not be hashable. Storm: Testing.multiseteq."""
    missing, unexpected = _differences(list(actual), list(expected))
    problems = [
        f"  {what}: {', '.join(map(repr, elements[:20]))}{', …' if len(elements) > 20 else ''}"
        for what, elements in (("missing", missing), ("unexpected", unexpected))
        if elements
    ]
    if problems:
        raise AssertionError("the elements differ:\n" + "\n".join(problems))


def _differences(actual: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    try:
        have, want = Counter(actual), Counter(expected)
    except TypeError:  # not hashable: one by one
        missing, unexpected = expected, []
        for element in actual:
            if element in missing:
                missing.remove(element)
            else:
                unexpected.append(element)
        return missing, unexpected
    return list((want - have).elements()), list((have - want).elements())
