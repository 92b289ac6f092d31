"""Tree: what operations do to nodes, what sessions keep, and which paths have changed."""

from __future__ import annotations

import pytest

from aiostorm.cluster.coordination import (
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    Put,
    SessionLostError,
)
from aiostorm.cluster.coordination.operations import DELETED, EphemeralParentError, Node, NotEmptyError
from aiostorm.cluster.coordination.tree import Tree


def tree(*operations: Operation) -> Tree:
    """Made by session 1, which expires at 10 s."""
    made = Tree()
    assert made.begin(10.0) == 1
    if operations:
        made.apply(operations, 1)
    made.take_changed()
    return made


def test_a_commit_answers_with_the_version_of_each_node() -> None:
    made = tree()
    operations = [Create("/a", b"1"), Put("/a", b"2"), Put("/a", b"3", version=1), Check("/a", 2), Create("/a/b")]
    assert made.apply(operations, 1) == (0, 1, 2, 2, 0)
    assert made.nodes == {"/a": Node(b"3", 2), "/a/b": Node(b"", 0)}
    assert made.take_changed() == {"/", "/a", "/a/b"}
    assert made.apply([Check("/a", 2)], 1) == (2,)
    assert made.take_changed() == set()
    assert made.apply([Put("/a/b", b"x")], 1) == (1,)
    assert made.take_changed() == {"/a/b"}, "not its parent: it has the same children"
    assert made.apply([Delete("/a/b", version=1), Delete("/a")], 1) == (DELETED, -1)
    assert made.nodes == {}
    assert made.take_changed() == {"/", "/a", "/a/b"}


@pytest.mark.parametrize(
    ("operation", "error", "path"),
    [
        (Create("/a"), NodeExistsError, "/a"),
        (Create("/none/b"), NoNodeError, "/none"),
        (Create("/e/b"), EphemeralParentError, "/e"),
        (Put("/none", b""), NoNodeError, "/none"),
        (Check("/none", 0), NoNodeError, "/none"),
        (Delete("/none"), NoNodeError, "/none"),
        (Put("/a", b"", version=0), BadVersionError, "/a"),
        (Check("/a", 2), BadVersionError, "/a"),
        (Delete("/a/b", version=1), BadVersionError, "/a/b"),
        (Delete("/a"), NotEmptyError, "/a"),
    ],
)
def test_of_a_refused_commit_nothing_happens(operation: Operation, error: type[CoordinationError], path: str) -> None:
    made = tree(Create("/a"), Create("/a/b"), Create("/e", ephemeral=True))
    made.apply([Put("/e", b"before")], 1)
    nodes = dict(made.nodes)
    with pytest.raises(error) as raised:
        made.apply([Put("/a", b"x"), Create("/c"), operation], 1)
    assert raised.value.path == path  # type: ignore[attr-defined]
    assert made.nodes == nodes
    assert made.take_changed() == {"/e"}


def test_an_operation_on_a_node_keeps_whose_it_is() -> None:
    made = tree(Create("/e", b"1", ephemeral=True), Create("/a", b"1"))
    other = made.begin(10.0)
    assert other == 2
    made.apply([Put("/e", b"2"), Put("/a", b"2")], other)
    assert made.nodes == {"/e": Node(b"2", 1, 1), "/a": Node(b"2", 1)}


def test_the_children_of_a_node_are_sorted_and_its_own() -> None:
    paths = ["/b", "/a", "/a/z", "/a/y", "/a/y/x", "/ab", "/ab/c"]
    made = tree(*map(Create, paths))
    assert made.children("/") == ["a", "ab", "b"]
    assert made.children("/a") == ["y", "z"]
    assert made.children("/b") == []
    with pytest.raises(NoNodeError):
        made.children("/c")


def test_the_ephemeral_nodes_of_a_session_end_with_it() -> None:
    made = tree(Create("/a"), Create("/a/e", ephemeral=True))
    other = made.begin(10.0)
    made.apply([Create("/f", ephemeral=True)], other)
    made.take_changed()
    made.end(1)
    assert set(made.nodes) == {"/a", "/f"}
    assert made.take_changed() == {"/a", "/a/e"}
    made.end(1)
    assert made.take_changed() == set()
    with pytest.raises(SessionLostError, match="session 1 has ended"):
        made.apply([Create("/x")], 1)
    assert made.begin(10.0) == other + 1, "no session has the id of one that has ended"


def test_a_session_ends_when_its_time_has_come() -> None:
    made = tree(Create("/e", ephemeral=True))
    made.renew(1, 9.9, 20.0)
    made.expire(19.9)
    assert made.sessions == {1: 20.0}
    made.expire(20.0)
    assert (made.sessions, made.nodes) == ({}, {})
    late = made.begin(30.0)
    with pytest.raises(SessionLostError, match=f"session {late} has ended"):
        made.renew(late, 30.0, 40.0)
    assert made.sessions == {}


def test_a_commit_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="a commit has 1 to 1000 operations"):
        tree().apply([], 1)
