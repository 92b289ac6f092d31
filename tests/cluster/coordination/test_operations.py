"""Operations: which paths and values a coordination store takes."""

from __future__ import annotations

import pytest

from aiostorm.cluster.coordination import (
    MAX_VALUE_BYTES,
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Put,
)
from aiostorm.cluster.coordination.operations import (
    MAX_DEPTH,
    MAX_OPERATIONS,
    EphemeralParentError,
    Node,
    NotEmptyError,
    RefusedError,
    checked_operations,
    checked_path,
    parent_of,
)


@pytest.mark.parametrize(
    "path", ["/a", "/topologies/word-count", "/a/b.c/d_e~f%20@g:1", "/" + "x" * 200, "/a" * MAX_DEPTH]
)
def test_paths(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize(
    "path", ["", "/", "a", "a/b", "//a", "/a/", "/a//b", "/.", "/a/..", "/a b", "/ä", "/a\n", "/" + "x" * 201, "/a" * 9]
)
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="a path has 1 to 8 names"):
        checked_path(path)


def test_the_parent_of_a_path() -> None:
    assert parent_of("/a/b/c") == "/a/b"
    assert parent_of("/a") == "/"


def test_a_commit_has_limits() -> None:
    most = [Create("/a", b"x" * MAX_VALUE_BYTES)]
    assert checked_operations(most) == tuple(most)
    assert len(checked_operations([Check("/a", 1)] * MAX_OPERATIONS)) == MAX_OPERATIONS
    for operations in ([], [Check("/a", 1)] * (MAX_OPERATIONS + 1)):
        with pytest.raises(ValueError, match="a commit has 1 to 1000 operations"):
            checked_operations(operations)
    for large in (Create("/a", b"x" * (MAX_VALUE_BYTES + 1)), Put("/a", b"x" * (MAX_VALUE_BYTES + 1))):
        with pytest.raises(ValueError, match="the value of /a has 65,537 bytes, and may have 65,536: store large"):
            checked_operations([Check("/a", 1), large])
    with pytest.raises(ValueError, match="a path has"):
        checked_operations([Check("/a", 1), Check("/b/", 1)])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NoNodeError("/a"), "there is no node /a"),
        (NodeExistsError("/a"), "there is a node /a already"),
        (BadVersionError("/a", 3), "node /a has another version, and not version 3"),
        (BadVersionError("/a", 3, 0), "node /a has version 0, and not version 3"),
        (NotEmptyError("/a"), "node /a has children: delete them first"),
        (EphemeralParentError("/a"), "node /a is ephemeral, and cannot have children"),
    ],
)
def test_a_refusal_names_the_node_and_says_why(error: RefusedError, text: str) -> None:
    assert (error.path, str(error)) == ("/a", text)


def test_what_is_not_given() -> None:
    assert Create("/a") == Create("/a", b"", ephemeral=False)
    assert Put("/a", b"").version is Delete("/a").version is Node(b"", 0).session is None
