"""Names: what the ids of components, of resources and of streams may look like, and those that aiostorm gives."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
NAME_RULE = "1 to 128 letters, digits, '_', '.' or '-'"

STREAM_NAME = re.compile(r"[A-Za-z0-9_.$@#%&*+=~^|!?<>,;()\[\]{}-]{1,128}")
STREAM_RULE = "1 to 128 characters of ASCII, without blanks, quotes, ':', '/' or '\\'"
"""As in Storm, where a stream may be called `$late`."""

DEFAULT_STREAM = "default"
TICK_STREAM = "__tick"
DEAD_LETTER_STREAM = "__dead_letter"
WATERMARK_STREAM = "__watermark"
BARRIER_STREAM = "__barrier"
SYSTEM_COMPONENT = "__system"
ACKER_COMPONENT = "__acker"
