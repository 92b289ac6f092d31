"""Requests and responses as frames."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import (
    PIECE_BYTES,
    RequestError,
    error_frames,
    read_request,
    request_frame,
    value_frames,
    value_of,
)
from aiostorm.cluster.access.wire import MAX_REQUEST_BYTES, ResponseReader


def read(frames: object) -> bytes:
    reader = ResponseReader()
    found = [reader.feed(frame) for frame in frames]  # type: ignore[attr-defined]
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] is not None
    return found[-1]


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=5))
def test_a_request_arrives_as_it_was_sent(name: str, arguments: dict[str, object]) -> None:
    found = read_request(request_frame(name, arguments))
    assert (found.request, found.arguments) == (name, arguments)


@pytest.mark.parametrize(
    "frame",
    [b"", b"null", b"[]", b"{}", b'{"request": 1}', b'{"request": "x", "arguments": []}', b"[" * 100_000, b"\xff"],
)
def test_what_is_no_request_is_refused(frame: bytes) -> None:
    with pytest.raises(RequestError, match="no request"):
        read_request(frame)


def test_a_request_is_bounded_on_both_sides() -> None:
    with pytest.raises(RequestError, match="may have"):
        request_frame("submit", {"config": {"x": "y" * MAX_REQUEST_BYTES}})
    with pytest.raises(RequestError, match="at most"):
        read_request(b" " * (MAX_REQUEST_BYTES + 1))


@given(st.integers(0, 3 * PIECE_BYTES))
def test_a_response_of_any_size_arrives(size: int) -> None:
    value = json.dumps("x" * size).encode()
    assert value_of(read(value_frames(value))) == (value, None)


def test_an_error_arrives() -> None:
    assert value_of(read(error_frames("OrderError", 'no "x"'))) == (b"", ("OrderError", 'no "x"'))


@pytest.mark.parametrize("frame", [b"", b"\2x"])
def test_what_is_no_response_is_refused(frame: bytes) -> None:
    with pytest.raises(RequestError, match="same version"):
        ResponseReader().feed(frame)


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b'{"error": 1}', b"[" * 100_000])
def test_a_document_that_is_none_is_refused(document: bytes) -> None:
    with pytest.raises(RequestError, match="same version"):
        value_of(document)
