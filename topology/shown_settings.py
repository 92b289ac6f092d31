"""Shown settings: the value of a setting as others may see it. Secrets are not shown.

A value is hidden if the name of its setting says that it is a secret, and the user and password of a URL always are. A
text NAME=VALUE, as an argument may be, is judged by its NAME, too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .values import Unchecked

HIDDEN: Final = "***"

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|api.?key|private.?key|access.?key", re.IGNORECASE
)
_IN_URL: Final = re.compile(r"(?<=://)(?:\\.|[^/\s\"\\])+(?=@)")
"""In JSON: up to the last @ before the path, for a password may have one. (`\\\"` is a character of it, too.)"""


def shown_setting(name: str, value: Unchecked) -> str:
    """The value as JSON, or `***`."""
    if value is not None and _SECRET.search(name):
        return HIDDEN
    return _IN_URL.sub(HIDDEN, json.dumps(value, default=str, ensure_ascii=False))


def shown_value(name: str, value: Unchecked) -> Unchecked:
    """The value, with `***` for what is hidden. What JSON has no form for is a text."""
    if isinstance(value, str) and "=" in value:
        key, _, rest = value.partition("=")
        if shown_setting(key, rest) == HIDDEN:
            return f"{key}={HIDDEN}"
    shown = shown_setting(name, value)
    return HIDDEN if shown == HIDDEN else json.loads(shown)
