"""Errors of windows: what they say, and of what they are."""

from __future__ import annotations

from aiostorm.windows import WindowStateError
from aiostorm.windows.errors import StatePackError


def test_the_error_of_a_state_has_its_text_its_key_and_the_state() -> None:
    error = StatePackError("it returned None", ("a", 1), [7])
    assert isinstance(error, WindowStateError)
    assert (str(error), error.key, error.state) == ("it returned None", ("a", 1), [7])
