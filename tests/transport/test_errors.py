"""What goes wrong between two processes is an error of ours, and one that a user's `except OSError` knows."""

from __future__ import annotations

import pytest

from aiostorm.runtime import AiostormError
from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
    MAX_FRAME_BYTES,
    ConnectionLostError,
    FrameTooLargeError,
    NetworkError,
)


def test_a_lost_connection_is_a_network_error_and_a_connection_error() -> None:
    for error in (NetworkError, ConnectionLostError):
        with pytest.raises(ConnectionError, match="lost") as caught:
            raise error("the peer is lost")
        assert isinstance(caught.value, NetworkError)
        assert isinstance(caught.value, AiostormError)


def test_a_frame_that_is_too_large_leaves_the_connection_as_it_was() -> None:
    assert issubclass(FrameTooLargeError, ValueError)
    assert not issubclass(FrameTooLargeError, NetworkError)
    assert MAX_BUFFERED_BYTES < MAX_FRAME_BYTES == 1024 * 1024
