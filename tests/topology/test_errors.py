"""The texts of errors: one mistake is said as one, several as a list."""

from __future__ import annotations

import pytest

from aiostorm.topology import ConfigError, Fields, ResourceError, TopologyError, UnhashableKeyError


@pytest.mark.parametrize(
    ("problems", "text"),
    [
        (["a"], "the topology has 1 mistake:\n  - a"),
        (["a", "b"], "the topology has 2 mistakes:\n  - a\n  - b"),
        ([], "the topology has 0 mistakes:\n"),
    ],
)
def test_the_mistakes_of_a_topology(problems: list[str], text: str) -> None:
    error = TopologyError(problems)
    assert (str(error), error.problems) == (text, tuple(problems))


def test_the_mistakes_of_a_configuration() -> None:
    assert (str(ConfigError("a")), ConfigError("a").problems) == ("a", ("a",))
    assert str(ConfigError("a", "b")) == "the configuration has 2 mistakes:\n  - a\n  - b"


def test_a_key_without_a_hash_is_named_by_its_type() -> None:
    error = UnhashableKeyError([1])
    assert error.culprit == [1]
    assert str(error).startswith(
        "the key holds a list, which has no hash that is the same in every process; emit a key"
    )
    assert str(UnhashableKeyError({}, "field 'word'")).startswith("field 'word' holds a dict, which")


def test_a_restart_would_not_help_where_a_resource_is_missing() -> None:
    assert ResourceError("none").final


def test_only_names_that_are_given_twice_are_named() -> None:
    with pytest.raises(ValueError, match=r"given twice: b, c$"):
        Fields("a", "b", "c", "b", "c")
