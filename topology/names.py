"""Names: what the ids of components, of resources and of streams may look like."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
NAME_RULE = "1 to 128 letters, digits, '_', '.' or '-'"

STREAM_NAME = re.compile(r"[A-Za-z0-9_.$@#%&*+=~^|!?<>,;()\[\]{}-]{1,128}")
STREAM_RULE = "1 to 128 characters of ASCII, without blanks, quotes, ':', '/' or '\\'"
"""As in Storm, where a stream may be called `$late`."""
